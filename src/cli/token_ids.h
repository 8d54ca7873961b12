// Token ids as text: on the command line, in files, and in what is printed.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace erne {

// Ids separated by commas or white space, perhaps in brackets as a JSON array has them; each within
// the vocabulary, and at least one. Errors name `flag`, where the text came from.
Result<std::vector<int32_t>> ParseTokenIds(const std::string& flag, std::string_view text,
                                           int64_t vocab_size);

// "[5,6,7]"
std::string FormatTokenIds(std::span<const int32_t> ids);

}  // namespace erne
