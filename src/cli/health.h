// `erne health`: asks a server whether it is healthy, for scripts and container probes.
#pragma once

#include <string>
#include <vector>

namespace erne {

// Prints 健康 and returns 0 when GET /health answers 200 within the timeout; else prints 未响应,
// says why on standard error and returns 1. 2 for a wrong command line.
int RunHealth(const std::vector<std::string>& arguments);

}  // namespace erne
