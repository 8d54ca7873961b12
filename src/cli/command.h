// What subcommands do alike at their beginning and at their end. `command` is the name: "inspect".
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "cli/flags.h"

namespace erne {

// Says on standard error what went wrong. Returns `exit_code`.
int Fail(const char* command, const Status& status, int exit_code);

// Parses the command line. An exit code when the command ends there: 0 with the help printed, 2
// with the fault of a flag.
std::optional<int> ParseOrEnd(const char* command, FlagTable& flags,
                              const std::vector<std::string>& arguments);

// Writes `text` to standard output. Returns `exit_code`, or 1 when it cannot be written.
int PrintAndEnd(const char* command, std::string_view text, int exit_code);

}  // namespace erne
