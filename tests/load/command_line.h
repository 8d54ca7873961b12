// The command line of erne_load.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "load/options.h"

namespace erne::load {

struct CommandLine {
  LoadOptions options;
  std::string help;  // not empty: print it and end
};

Result<CommandLine> ParseCommandLine(const std::vector<std::string>& arguments);

}  // namespace erne::load
