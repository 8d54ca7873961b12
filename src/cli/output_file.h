// A file that is there as a whole or not at all.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "base/status.h"

namespace erne {

// Writes to a file of another name beside `path`, and gives it that name when all of it is there.
// What stood at `path` stays until then. That file exists only while Write runs, so that a program
// which is killed during its work leaves nothing.
class OutputFile {
 public:
  // The errors of a file that cannot be made, so that they come before the work; they name `flag`,
  // where the path came from.
  static Result<std::unique_ptr<OutputFile>> Create(const std::string& flag,
                                                    const std::string& path);
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;
  ~OutputFile();

  // Once.
  Status Write(std::string_view text);

 private:
  OutputFile(std::string flag, std::string path) : flag_(std::move(flag)), path_(std::move(path)) {}
  Status MakeTemporary();
  void RemoveTemporary();
  Status Failure(const char* what) const;

  const std::string flag_;
  const std::string path_;
  std::string temporary_;  // empty: there is none
  int fd_ = -1;
};

}  // namespace erne
