// `erne fields`: the fields that requests may have.
#pragma once

#include <string>
#include <vector>

namespace erne {

// Returns the exit code.
int RunFields(const std::vector<std::string>& arguments);

}  // namespace erne
