#include "cli/output_file.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <vector>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/strings.h"

namespace erne {

Status OutputFile::Failure(const char* what) const {
  return InvalidArgument(StrCat(flag_, ": ", path_, " ", what, ": ", std::strerror(errno)), flag_);
}

Result<std::unique_ptr<OutputFile>> OutputFile::Create(const std::string& flag,
                                                       const std::string& path) {
  std::unique_ptr<OutputFile> file(new OutputFile(flag, path));
  struct stat there{};
  if (::stat(path.c_str(), &there) == 0 && !S_ISREG(there.st_mode)) {
    errno = S_ISDIR(there.st_mode) ? EISDIR : EEXIST;
    return file->Failure("is no file that can be replaced");
  }
  ERNE_RETURN_IF_ERROR(file->MakeTemporary());
  file->RemoveTemporary();
  return file;
}

Status OutputFile::MakeTemporary() {
  const std::string pattern = path_ + ".XXXXXX";
  std::vector<char> name(pattern.begin(), pattern.end());
  name.push_back('\0');
  fd_ = ::mkostemp(name.data(), O_CLOEXEC);
  if (fd_ < 0) return Failure("cannot be written");
  temporary_ = name.data();
  // As a file that is made by its own name: mkostemp lets nobody else read it.
  const mode_t mask = ::umask(0);
  ::umask(mask);
  if (::fchmod(fd_, 0666 & ~mask) != 0) return Failure("cannot be written");
  return {};
}

void OutputFile::RemoveTemporary() {
  if (fd_ >= 0) ::close(fd_);
  fd_ = -1;
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
  temporary_.clear();
}

OutputFile::~OutputFile() { RemoveTemporary(); }

Status OutputFile::Write(std::string_view text) {
  ERNE_RETURN_IF_ERROR(MakeTemporary());
  while (!text.empty()) {
    const ssize_t count = ::write(fd_, text.data(), text.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return Failure("cannot be written");
    text.remove_prefix(static_cast<size_t>(count));
  }
  const int closed = ::close(fd_);
  fd_ = -1;
  if (closed != 0) return Failure("cannot be written");
  if (std::rename(temporary_.c_str(), path_.c_str()) != 0) return Failure("cannot be replaced");
  temporary_.clear();
  return {};
}

}  // namespace erne
