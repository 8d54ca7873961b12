#include "cli/command.h"

#include <cstdio>

namespace erne {

int Fail(const char* command, const Status& status, int exit_code) {
  std::fprintf(stderr, "erne %s: %s\n", command, status.message().c_str());
  return exit_code;
}

std::optional<int> ParseOrEnd(const char* command, FlagTable& flags,
                              const std::vector<std::string>& arguments) {
  if (const Status status = flags.Parse(arguments); !status.ok()) return Fail(command, status, 2);
  if (!flags.help_requested()) return std::nullopt;
  return PrintAndEnd(command, flags.Help(UserLanguage()), 0);
}

int PrintAndEnd(const char* command, std::string_view text, int exit_code) {
  std::fwrite(text.data(), 1, text.size(), stdout);
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return exit_code;
  return Fail(command, Internal("cannot write to standard output"), 1);
}

}  // namespace erne
