// API keys.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "api/http_types.h"

namespace erne {

// Which of `keys` the request carries as `Authorization: Bearer KEY`; -1: none. The time taken does
// not tell how much of a key was right.
int64_t KeyNumber(const HttpRequest& request, const std::vector<std::string>& keys);

// Whether it carries one of them, or no key is asked for.
bool IsAuthorized(const HttpRequest& request, const std::vector<std::string>& keys);

}  // namespace erne
