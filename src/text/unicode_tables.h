// Tables of the Unicode Character Database that unicode.cc works with; make_unicode_tables.py
// writes them.
#pragma once

#include <cstddef>
#include <cstdint>

namespace erne {

struct CodePointRange {
  char32_t first;
  char32_t last;
};
struct CombiningRange {
  char32_t first;
  char32_t last;
  uint8_t combining_class;
};
// Canonical decompositions but Hangul's.
struct Decomposition {
  char32_t composed;
  char32_t first;
  char32_t second;  // 0: a singleton
  bool composes;    // first and second become `composed` in form C
};

// All are sorted by their first member.
extern const CodePointRange kLetters[];  // general category L*
extern const size_t kLettersSize;
extern const CodePointRange kNumbers[];  // N*
extern const size_t kNumbersSize;
extern const CombiningRange kCombining[];  // code points whose canonical combining class is not 0
extern const size_t kCombiningSize;
extern const Decomposition kDecompositions[];
extern const size_t kDecompositionsSize;

}  // namespace erne
