// Unicode's normalization form C, which some tokenizers put their input in.
#pragma once

#include <string>
#include <string_view>

namespace erne {

// Well-formed `text` in normalization form C (Unicode Standard Annex 15).
std::string ComposeNfc(std::string_view text);

}  // namespace erne
