// `erne run-batch -i IN -o OUT`: answers the requests of a file.
#pragma once

#include <string>
#include <vector>

namespace erne {

// Returns the exit code: 0 when every line has an answer; 1 when some have errors, or with a
// sentence on standard error; 2 for a wrong command line.
int RunBatch(const std::vector<std::string>& arguments);

}  // namespace erne
