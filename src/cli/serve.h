// `erne serve [MODEL] [flags]`: the server.
#pragma once

#include <string>
#include <vector>

namespace erne {

// Serves until SIGTERM or SIGINT. Returns the exit code: 0 after a clean end, 1 when the server
// cannot start (one sentence says why), 2 for a wrong command line. To be called from the main
// thread.
int RunServe(const std::vector<std::string>& arguments);

}  // namespace erne
