// The character properties that Python's string methods need. Case is that of letters which come in
// pairs; the few hundred that have a case and no partner (mathematical letters and the like) count
// as having none.
#pragma once

#include <string>
#include <string_view>

namespace erne::jinja {

bool IsSpace(char32_t c);      // str.isspace, what strip() removes
bool IsPrintable(char32_t c);  // what repr() leaves alone; unassigned characters count as printable
bool IsAlpha(char32_t c);
bool IsDecimal(char32_t c);  // decimal digits of any script
bool IsLower(char32_t c);
bool IsUpper(char32_t c);
char32_t ToLower(char32_t c);
// May give several characters ("ß" -> "SS").
void AppendUpper(char32_t c, std::string& out);
// First letter of a word: as upper, but for the few characters with a title form of their own.
void AppendTitle(char32_t c, std::string& out);

// The character at the front of well-formed, non-empty `text`, which it is removed from.
char32_t TakeChar(std::string_view& text);
bool IsAscii(std::string_view text);

// Byte offset of character `index` of well-formed `text`; text.size() when it has fewer.
size_t OffsetOfChar(std::string_view text, size_t index);

// White space trimmed from the left, the right.
std::string_view StripSpaceLeft(std::string_view text);
std::string_view StripSpaceRight(std::string_view text);

}  // namespace erne::jinja
