// API keys.
#pragma once

#include <string>
#include <vector>

#include "api/http_types.h"

namespace erne {

// Whether `request` carries one of `keys` as `Authorization: Bearer KEY`, or no key is asked for.
// The time taken does not tell how much of a key was right.
bool IsAuthorized(const HttpRequest& request, const std::vector<std::string>& keys);

}  // namespace erne
