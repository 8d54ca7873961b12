#include "base/file_set.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <mutex>

#include "base/mapped_file.h"
#include "base/strings.h"

namespace erne {
namespace {

class FolderFileSet : public FileSet {
 public:
  explicit FolderFileSet(std::string path) : path_(std::move(path)) {}

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
    const auto found = mapped_.find(name);
    if (found != mapped_.end()) return found->second->bytes();
    if (!IsPlainName(name)) {
      return InvalidArgument(
          StrCat(path_, ": `", name.substr(0, kShownName), "` is not a file name"));
    }
    ERNE_ASSIGN_OR_RETURN(std::unique_ptr<const MappedFile> file, MappedFile::Open(PathOf(name)));
    return mapped_.emplace(std::string(name), std::move(file)).first->second->bytes();
  }

  Status CheckUnchanged() const override {
    const std::lock_guard lock(mutex_);
    for (const auto& [name, file] : mapped_) ERNE_RETURN_IF_ERROR(file->CheckUnchanged());
    return {};
  }

  void ReleasePages() const override {
    const std::lock_guard lock(mutex_);
    for (const auto& [name, file] : mapped_) file->ReleasePages();
  }

 private:
  static constexpr size_t kShownName = 200;  // bytes of a hostile name in a message

  // A name from an index file is hostile: it must not climb out of the folder.
  static bool IsPlainName(std::string_view name) {
    return !name.empty() && name != "." && name != ".." && name.find('/') == std::string_view::npos &&
           name.find('\0') == std::string_view::npos;
  }

  std::string path_;
  mutable std::mutex mutex_;
  mutable std::map<std::string, std::unique_ptr<const MappedFile>, std::less<>> mapped_;
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
