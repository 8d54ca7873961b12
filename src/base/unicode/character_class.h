// Classes of characters, by the Unicode Character Database.
#pragma once

namespace erne {

bool IsLetter(char32_t c);        // general category L*
bool IsNumber(char32_t c);        // N*
bool IsDecimalDigit(char32_t c);  // Nd: digits of any script
bool IsWhiteSpace(char32_t c);    // property White_Space, which is \s in the patterns of tokenizers

}  // namespace erne
