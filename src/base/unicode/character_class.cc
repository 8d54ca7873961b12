#include "base/unicode/character_class.h"

#include "base/unicode/tables.h"

namespace erne {

bool IsLetter(char32_t c) {
  if (c < 0x80) return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
  return unicode::FindRange(unicode::kLetters, c) != nullptr;
}

bool IsNumber(char32_t c) {
  if (c < 0x80) return c >= '0' && c <= '9';
  return unicode::FindRange(unicode::kNumbers, c) != nullptr;
}

bool IsDecimalDigit(char32_t c) {
  if (c < 0x80) return c >= '0' && c <= '9';
  return unicode::FindRange(unicode::kDecimalDigits, c) != nullptr;
}

bool IsWhiteSpace(char32_t c) {
  return (c >= 9 && c <= 13) || c == ' ' || c == 0x85 || c == 0xA0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F ||
         c == 0x3000;
}

}  // namespace erne
