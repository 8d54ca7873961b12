#include "chat/jinja/unicode.h"

#include <algorithm>
#include <span>

#include "base/unicode/character_class.h"
#include "base/unicode/tables.h"
#include "base/utf8.h"

namespace erne::jinja {
namespace {

using unicode::CaseExpansion;
using unicode::kToLower;
using unicode::kToUpper;
using unicode::kUpperExpansions;

char32_t MapCase(std::span<const unicode::CaseRange> table, char32_t c) {
  const auto* range = unicode::FindRange(table, c);
  const bool maps = range != nullptr && (c - range->first) % range->stride == 0;
  return maps ? c + range->delta : c;
}

const CaseExpansion* FindExpansion(char32_t c) {
  const auto found = std::lower_bound(
      kUpperExpansions.begin(), kUpperExpansions.end(), c,
      [](const CaseExpansion& one, char32_t character) { return one.character < character; });
  return found != kUpperExpansions.end() && found->character == c ? &*found : nullptr;
}

// The Latin letters that exist as one character in upper, title and lower form ("Ǆ", "ǅ", "ǆ").
bool TitleOfDigraph(char32_t c, char32_t& title) {
  if (c >= 0x1C4 && c <= 0x1CC) {
    title = 0x1C5 + (c - 0x1C4) / 3 * 3;
    return true;
  }
  if (c >= 0x1F1 && c <= 0x1F3) {
    title = 0x1F2;
    return true;
  }
  return false;
}

}  // namespace

bool IsSpace(char32_t c) {
  if (c < 0x80) return c == ' ' || (c >= 0x09 && c <= 0x0D) || (c >= 0x1C && c <= 0x1F);
  return IsWhiteSpace(c);
}
bool IsPrintable(char32_t c) {
  if (c < 0x80) return c >= 0x20 && c != 0x7F;
  return unicode::FindRange(unicode::kUnprintable, c) == nullptr;
}
bool IsAlpha(char32_t c) { return IsLetter(c); }
bool IsDecimal(char32_t c) { return IsDecimalDigit(c); }
bool IsLower(char32_t c) { return FindExpansion(c) != nullptr || MapCase(kToUpper, c) != c; }
bool IsUpper(char32_t c) { return ToLower(c) != c; }

char32_t ToLower(char32_t c) {
  if (c < 0x80) return c >= 'A' && c <= 'Z' ? c + 32 : c;
  return MapCase(kToLower, c);
}

void AppendUpper(char32_t c, std::string& out) {
  if (const CaseExpansion* expansion = c < 0x80 ? nullptr : FindExpansion(c)) {
    out += expansion->upper;
  } else {
    AppendUtf8(MapCase(kToUpper, c), out);
  }
}

void AppendTitle(char32_t c, std::string& out) {
  char32_t title = c;
  const bool georgian = c >= 0x10D0 && c <= 0x10FF;  // has capitals, but none for titles
  if (georgian || TitleOfDigraph(c, title)) {
    AppendUtf8(title, out);
  } else if (const CaseExpansion* expansion = c < 0x80 ? nullptr : FindExpansion(c)) {
    out += expansion->title;
  } else {
    AppendUtf8(MapCase(kToUpper, c), out);
  }
}

char32_t TakeChar(std::string_view& text) {
  const Utf8Char c = DecodeUtf8(text);
  text.remove_prefix(c.length == 0 ? 1 : c.length);  // never stands still, whatever the text
  return c.code_point;
}

bool IsAscii(std::string_view text) {
  return std::all_of(text.begin(), text.end(),
                     [](char c) { return static_cast<uint8_t>(c) < 0x80; });
}

size_t OffsetOfChar(std::string_view text, size_t index) {
  size_t offset = 0;
  while (offset < text.size()) {
    if ((static_cast<uint8_t>(text[offset]) & 0xC0) != 0x80 && index-- == 0) return offset;
    ++offset;
  }
  return text.size();
}

std::string_view StripSpaceLeft(std::string_view text) {
  while (!text.empty()) {
    std::string_view rest = text;
    if (!IsSpace(TakeChar(rest))) break;
    text = rest;
  }
  return text;
}

std::string_view StripSpaceRight(std::string_view text) {
  while (!text.empty()) {
    size_t last = text.size() - 1;
    while (last > 0 && (static_cast<uint8_t>(text[last]) & 0xC0) == 0x80) --last;
    std::string_view character = text.substr(last);
    if (!IsSpace(TakeChar(character))) break;
    text = text.substr(0, last);
  }
  return text;
}

}  // namespace erne::jinja
