// Tables of the Unicode Character Database, which make_tables.py writes. All are sorted by their
// first member, and no two ranges of a table overlap.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

namespace erne::unicode {

struct Range {
  char32_t first;
  char32_t last;
};

// Every `stride`-th character of the range maps to itself plus `delta`.
struct CaseRange {
  char32_t first;
  char32_t last;
  uint8_t stride;
  int32_t delta;
};

// A character whose upper-case form has several, in UTF-8.
struct CaseExpansion {
  char32_t character;
  const char* upper;
  const char* title;
};

struct CombiningRange {
  char32_t first;
  char32_t last;
  uint8_t combining_class;
};

struct Decomposition {
  char32_t composed;
  char32_t first;
  char32_t second;  // 0: a singleton
  bool composes;    // first and second become `composed` in form C
};

extern const std::span<const Range> kLetters;        // general category L*
extern const std::span<const Range> kNumbers;        // N*
extern const std::span<const Range> kDecimalDigits;  // Nd
// Controls, formats, private use, separators but U+0020. Unassigned characters are not listed.
extern const std::span<const Range> kUnprintable;

extern const std::span<const CaseRange> kToLower;
extern const std::span<const CaseRange> kToUpper;
extern const std::span<const CaseExpansion> kUpperExpansions;

extern const std::span<const CombiningRange> kCombining;      // canonical combining class not 0
extern const std::span<const Decomposition> kDecompositions;  // canonical, but Hangul's

// The entry of a table of ranges that holds `c`, or null.
template <typename Entry>
const Entry* FindRange(std::span<const Entry> table, char32_t c) {
  const auto after =
      std::upper_bound(table.begin(), table.end(), c,
                       [](char32_t value, const Entry& entry) { return value < entry.first; });
  if (after == table.begin()) return nullptr;
  const Entry& entry = *(after - 1);
  return c <= entry.last ? &entry : nullptr;
}

}  // namespace erne::unicode
