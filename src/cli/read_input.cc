#include "cli/read_input.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>

#include "base/strings.h"

namespace erne {

Result<std::string> ReadInput(const std::string& flag, const std::string& path, size_t max_bytes) {
  const bool is_stdin = path == "-";
  const std::string name = is_stdin ? "standard input" : path;
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> opened(nullptr, &std::fclose);
  std::FILE* file = stdin;
  if (!is_stdin) {
    file = std::fopen(path.c_str(), "rb");
    if (file == nullptr)
      return NotFound(StrCat(flag, ": ", name, ": ", std::strerror(errno)), flag);
    opened.reset(file);
  }
  std::string text;
  char buffer[64 * 1024];
  size_t count = 0;
  while ((count = std::fread(buffer, 1, sizeof(buffer), file)) > 0) {
    if (count > max_bytes - text.size()) {
      return InvalidArgument(StrCat(flag, ": ", name, " is larger than ", FormatBytes(max_bytes)),
                             flag);
    }
    text.append(buffer, count);
  }
  if (std::ferror(file) != 0) {
    return DataLoss(StrCat(flag, ": error while reading ", name, ": ", std::strerror(errno)));
  }
  return text;
}

}  // namespace erne
