// Files and standard input that the command line names.
#pragma once

#include <cstddef>
#include <string>

#include "base/status.h"

namespace erne {

// All of the file `path`, or of standard input when it is "-". An error names `flag`, where the
// path came from, and the file: it cannot be read, or holds more than `max_bytes`.
Result<std::string> ReadInput(const std::string& flag, const std::string& path, size_t max_bytes);

}  // namespace erne
