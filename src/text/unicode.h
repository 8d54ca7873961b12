// What tokenizers need to know about characters: three classes, and normalization form C.
#pragma once

#include <string>
#include <string_view>

namespace erne {

bool IsLetter(char32_t c);      // general category L*
bool IsNumber(char32_t c);      // N*
bool IsWhiteSpace(char32_t c);  // property White_Space, which is \s in the patterns of tokenizers

// Well-formed `text` in normalization form C (Unicode Standard Annex 15).
std::string ComposeNfc(std::string_view text);

}  // namespace erne
