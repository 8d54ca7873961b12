// UTF-8: decoding, checking and cutting at character boundaries. Well-formedness as in Unicode 15, table 3-7
// (no overlong forms, no surrogates, nothing above U+10FFFF).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace erne {

struct Utf8Char {
  char32_t code_point = 0;
  int length = 0;  // bytes used, 1..4; 0 when `text` does not begin with a well-formed character
};

// The character at the beginning of `text`.
Utf8Char DecodeUtf8(std::string_view text);

// Appends the UTF-8 form of `code_point`; surrogates and values above U+10FFFF become U+FFFD.
void AppendUtf8(char32_t code_point, std::string& out);

// Offset of the first byte that is not part of a well-formed character; npos when all of `text` is well formed.
size_t FindInvalidUtf8(std::string_view text);

// Length of the longest prefix of `text` that does not end inside a character which later bytes could complete. Bytes
// that can never become well formed count as complete (the caller replaces them).
size_t CompleteUtf8Prefix(std::string_view text);

// `text` with each maximal ill-formed piece replaced by U+FFFD.
std::string SanitizeUtf8(std::string_view text);

// `bytes` on one line that a terminal can show: control characters and bytes that are no UTF-8 as
// \n, \t, \x1b, \xe4. With `spell_backslash` a backslash is \\, so that the bytes can be told again.
std::string OneLine(std::string_view bytes, bool spell_backslash = false);

// Number of characters in well-formed `text`.
size_t CountUtf8(std::string_view text);

}  // namespace erne
