#include "base/utf8.h"

#include <algorithm>

namespace erne {
namespace {

// What the lead byte announces: the length, and the range of the second byte (table 3-7 of the
// Unicode Standard).
struct Lead {
  int length;
  uint8_t second_low;
  uint8_t second_high;
};

Lead ClassifyLead(uint8_t byte) {
  if (byte < 0x80) return {1, 0, 0};
  if (byte < 0xC2) return {0, 0, 0};
  if (byte < 0xE0) return {2, 0x80, 0xBF};
  if (byte == 0xE0) return {3, 0xA0, 0xBF};
  if (byte == 0xED) return {3, 0x80, 0x9F};
  if (byte < 0xF0) return {3, 0x80, 0xBF};
  if (byte == 0xF0) return {4, 0x90, 0xBF};
  if (byte < 0xF4) return {4, 0x80, 0xBF};
  if (byte == 0xF4) return {4, 0x80, 0x8F};
  return {0, 0, 0};
}

// Number of leading bytes of `text` that agree with the form its first byte announces; `whole` is
// that form's length.
int MatchForm(std::string_view text, int& whole) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(text[i]); };
  const Lead lead = ClassifyLead(byte(0));
  whole = lead.length;
  if (lead.length <= 1) return lead.length;
  if (text.size() < 2 || byte(1) < lead.second_low || byte(1) > lead.second_high) return 1;
  int matched = 2;
  while (matched < lead.length && static_cast<size_t>(matched) < text.size() &&
         (byte(matched) & 0xC0) == 0x80) {
    ++matched;
  }
  return matched;
}

}  // namespace

Utf8Char DecodeUtf8(std::string_view text) {
  if (text.empty()) return {};
  int whole = 0;
  const int matched = MatchForm(text, whole);
  if (whole == 0 || matched < whole) return {};
  if (whole == 1) return {static_cast<char32_t>(static_cast<uint8_t>(text[0])), 1};
  char32_t code_point = static_cast<uint8_t>(text[0]) & (0x7F >> whole);
  for (int i = 1; i < whole; ++i) {
    code_point = (code_point << 6) | (static_cast<uint8_t>(text[i]) & 0x3F);
  }
  return {code_point, whole};
}

void AppendUtf8(char32_t code_point, std::string& out) {
  if (code_point > 0x10FFFF || (code_point >= 0xD800 && code_point <= 0xDFFF)) code_point = 0xFFFD;
  const auto push = [&](uint32_t byte) { out.push_back(static_cast<char>(byte)); };
  if (code_point < 0x80) {
    push(code_point);
  } else if (code_point < 0x800) {
    push(0xC0 | (code_point >> 6));
    push(0x80 | (code_point & 0x3F));
  } else if (code_point < 0x10000) {
    push(0xE0 | (code_point >> 12));
    push(0x80 | ((code_point >> 6) & 0x3F));
    push(0x80 | (code_point & 0x3F));
  } else {
    push(0xF0 | (code_point >> 18));
    push(0x80 | ((code_point >> 12) & 0x3F));
    push(0x80 | ((code_point >> 6) & 0x3F));
    push(0x80 | (code_point & 0x3F));
  }
}

size_t FindInvalidUtf8(std::string_view text) {
  size_t i = 0;
  while (i < text.size()) {
    if (static_cast<uint8_t>(text[i]) < 0x80) {
      ++i;
      continue;
    }
    const Utf8Char c = DecodeUtf8(text.substr(i));
    if (c.length == 0) return i;
    i += c.length;
  }
  return std::string_view::npos;
}

size_t CompleteUtf8Prefix(std::string_view text) {
  // Only the last three bytes can belong to an unfinished character.
  for (size_t back = 1; back <= 3 && back <= text.size(); ++back) {
    const std::string_view tail = text.substr(text.size() - back);
    int whole = 0;
    const int matched = MatchForm(tail, whole);
    if (whole == 0) continue;  // a continuation byte: its lead is further back
    const bool unfinished = matched == static_cast<int>(back) && matched < whole;
    return unfinished ? text.size() - back : text.size();
  }
  return text.size();
}

std::string SanitizeUtf8(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  size_t i = 0;
  while (i < text.size()) {
    int whole = 0;
    const int matched = MatchForm(text.substr(i), whole);
    if (whole > 0 && matched == whole) {
      out.append(text.substr(i, whole));
      i += whole;
    } else {
      AppendUtf8(0xFFFD, out);
      i += matched > 0 ? matched : 1;
    }
  }
  return out;
}

std::string OneLine(std::string_view bytes, bool spell_backslash) {
  std::string out;
  while (!bytes.empty()) {
    const Utf8Char next = DecodeUtf8(bytes);
    const auto byte = static_cast<uint8_t>(bytes.front());
    const auto length = static_cast<size_t>(std::max(next.length, 1));
    if (byte == '\n') {
      out += "\\n";
    } else if (byte == '\r') {
      out += "\\r";
    } else if (byte == '\t') {
      out += "\\t";
    } else if (byte == '\\' && spell_backslash) {
      out += "\\\\";
    } else if (next.length == 0 || byte < 0x20 || byte == 0x7F) {
      constexpr char kDigits[] = "0123456789abcdef";
      out += "\\x";
      out += kDigits[byte >> 4];
      out += kDigits[byte & 15];
    } else {
      out += bytes.substr(0, length);
    }
    bytes.remove_prefix(length);
  }
  return out;
}

size_t CountUtf8(std::string_view text) {
  size_t count = 0;
  for (const char c : text) count += (static_cast<uint8_t>(c) & 0xC0) != 0x80 ? 1 : 0;
  return count;
}

}  // namespace erne
