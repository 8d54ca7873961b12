#include "base/file_set.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <mutex>

#include "base/strings.h"

namespace erne {
namespace {

class FolderFileSet : public FileSet {
 public:
  explicit FolderFileSet(std::string path) : path_(std::move(path)) {}
  ~FolderFileSet() override {
    for (const auto& [name, bytes] : mapped_) {
      if (!bytes.empty()) ::munmap(const_cast<std::byte*>(bytes.data()), bytes.size());
    }
  }

  const std::string& path() const override { return path_; }

  bool Has(std::string_view name) const override {
    if (!IsPlainName(name)) return false;
    const std::string full = PathOf(name);
    struct stat info {};
    if (::stat(full.c_str(), &info) == 0) return S_ISREG(info.st_mode);
    return ::lstat(full.c_str(), &info) == 0;
  }

  Result<std::span<const std::byte>> Map(std::string_view name) const override {
    const std::lock_guard lock(mutex_);
    if (const auto found = mapped_.find(name); found != mapped_.end()) return found->second;
    ERNE_ASSIGN_OR_RETURN(const std::span<const std::byte> bytes, MapFile(name));
    mapped_.emplace(std::string(name), bytes);
    return bytes;
  }

 private:
  static constexpr size_t kShownName = 200;  // bytes of a hostile name in a message

  // A name from an index file is hostile: it must not climb out of the folder.
  static bool IsPlainName(std::string_view name) {
    return !name.empty() && name != "." && name != ".." && name.find('/') == std::string_view::npos &&
           name.find('\0') == std::string_view::npos;
  }

  Result<std::span<const std::byte>> MapFile(std::string_view name) const {
    if (!IsPlainName(name)) {
      return InvalidArgument(
          StrCat(path_, ": `", name.substr(0, kShownName), "` is not a file name"));
    }
    const std::string full = PathOf(name);
    // Non-blocking, for a FIFO of that name would otherwise wait for a writer; files do not care.
    const int fd = ::open(full.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) {
      const int error = errno;
      struct stat info {};
      const bool dangles = error == ENOENT && ::lstat(full.c_str(), &info) == 0;
      const std::string reason =
          StrCat(full, ": ", dangles ? "a link to nothing" : std::strerror(error));
      return error == ENOENT ? NotFound(reason) : InvalidArgument(reason);
    }
    struct stat info {};
    if (::fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) {
      ::close(fd);
      return InvalidArgument(StrCat(full, ": not a regular file"));
    }
    std::span<const std::byte> bytes;
    if (info.st_size > 0) {
      void* address = ::mmap(nullptr, info.st_size, PROT_READ, MAP_SHARED, fd, 0);
      if (address == MAP_FAILED) {
        const std::string reason = std::strerror(errno);
        ::close(fd);
        return InvalidArgument(StrCat(full, ": cannot be mapped: ", reason));
      }
      bytes = {static_cast<const std::byte*>(address), static_cast<size_t>(info.st_size)};
    }
    ::close(fd);
    return bytes;
  }

  std::string path_;
  mutable std::mutex mutex_;
  mutable std::map<std::string, std::span<const std::byte>, std::less<>> mapped_;
};

class EmbeddedFileSet : public FileSet {
 public:
  EmbeddedFileSet(std::string path, std::map<std::string, std::span<const std::byte>> files)
      : path_(std::move(path)), files_(files.begin(), files.end()) {}

  const std::string& path() const override { return path_; }
  bool Has(std::string_view name) const override { return files_.find(name) != files_.end(); }
  Result<std::span<const std::byte>> Map(std::string_view name) const override {
    const auto found = files_.find(name);
    if (found == files_.end()) return NotFound(StrCat(PathOf(name), ": not embedded"));
    return found->second;
  }

 private:
  std::string path_;
  std::map<std::string, std::span<const std::byte>, std::less<>> files_;
};

}  // namespace

std::string FileSet::PathOf(std::string_view name) const { return StrCat(path(), "/", name); }

Result<std::string_view> FileSet::Text(std::string_view name) const {
  ERNE_ASSIGN_OR_RETURN(const std::span<const std::byte> bytes, Map(name));
  return std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

Result<std::shared_ptr<const FileSet>> OpenFolder(const std::string& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) return NotFound(StrCat(path, ": ", std::strerror(errno)));
  if (!S_ISDIR(info.st_mode)) return InvalidArgument(StrCat(path, ": not a folder"));
  if (::access(path.c_str(), R_OK | X_OK) != 0) {
    return InvalidArgument(StrCat(path, ": ", std::strerror(errno)));
  }
  std::string trimmed = path;
  while (trimmed.size() > 1 && trimmed.back() == '/') trimmed.pop_back();
  return std::shared_ptr<const FileSet>(std::make_shared<FolderFileSet>(std::move(trimmed)));
}

std::shared_ptr<const FileSet> MakeEmbeddedFileSet(std::string path,
                                                   std::map<std::string, std::span<const std::byte>> files) {
  return std::make_shared<EmbeddedFileSet>(std::move(path), std::move(files));
}

}  // namespace erne
