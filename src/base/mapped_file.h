// A file as bytes in memory, read from the disk where they are looked at.
//
// A file may change while it is mapped: a download goes on, a copy is started anew. Other bytes are
// found by asking (CheckUnchanged). A file that has become shorter is worse: looking at bytes
// that it no longer has raises SIGBUS, which no return value can report. For mapped files that
// signal is answered with one line that names the file, and the process ends with exit code 1.
#pragma once

#include <cstddef>
#include <cstdint>
#include <ctime>
#include <memory>
#include <span>
#include <string>

#include "base/status.h"

namespace erne {

// Immutable; thread-safe.
class MappedFile {
 public:
  // NotFound when there is none at `path`; InvalidArgument, with the reason, when it cannot be
  // mapped.
  static Result<std::unique_ptr<const MappedFile>> Open(const std::string& path);
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  ~MappedFile();

  const std::string& path() const { return path_; }
  std::span<const std::byte> bytes() const { return bytes_; }

  // DataLoss when the file has another size or was written since it was mapped.
  Status CheckUnchanged() const;
  // Gives the memory of the bytes back until they are looked at again; they stay in the system's
  // own cache of files while it has room.
  void ReleasePages() const;

 private:
  // Where the handler of SIGBUS finds this file.
  struct Entry;

  explicit MappedFile(std::string path) : path_(std::move(path)) {}
  Status Map();

  const std::string path_;
  int file_ = -1;
  std::span<const std::byte> bytes_;
  timespec written_ = {};
  Entry* entry_ = nullptr;
};

}  // namespace erne
