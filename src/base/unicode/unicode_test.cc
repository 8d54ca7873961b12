#include <cstdint>
#include <ios>
#include <span>

#include <gtest/gtest.h>

#include "base/unicode/character_class.h"
#include "base/unicode/tables.h"

namespace erne {
namespace {

TEST(CharacterClass, Members) {
  for (const char32_t c : U"aZéſΩЖ世한\u02B0\U00020000") {
    if (c == 0) continue;  // the end of the literal
    EXPECT_TRUE(IsLetter(c)) << std::hex << static_cast<uint32_t>(c);
  }
  for (const char32_t c : U"09²½Ⅳ٣\U0001D7CE") {
    if (c == 0) continue;  // the end of the literal
    EXPECT_TRUE(IsNumber(c)) << std::hex << static_cast<uint32_t>(c);
  }
  for (const char32_t c : U" \t\n\r\u0085\u00A0\u2003\u2028\u3000") {
    if (c == 0) continue;  // the end of the literal
    EXPECT_TRUE(IsWhiteSpace(c)) << std::hex << static_cast<uint32_t>(c);
  }
  for (const char32_t c :
       {U'_', U'@', U'[', U'/', U':', U'\u0301', U'\u200B', U'😀', U'。', char32_t{0x10FFFF}}) {
    EXPECT_FALSE(IsLetter(c) || IsNumber(c) || IsWhiteSpace(c))
        << std::hex << static_cast<uint32_t>(c);
  }
}

TEST(CharacterClass, DecimalDigits) {
  for (const char32_t c : {U'0', U'9', U'٣', U'\u0967', U'９', U'\U0001D7CE'}) {
    EXPECT_TRUE(IsDecimalDigit(c)) << std::hex << static_cast<uint32_t>(c);
  }
  for (const char32_t c : {U'a', U'/', U':', U'²', U'½', U'Ⅳ', U'〇'}) {
    EXPECT_FALSE(IsDecimalDigit(c)) << std::hex << static_cast<uint32_t>(c);
  }
}

template <typename Entry>
void ExpectSortedApart(std::span<const Entry> table) {
  ASSERT_FALSE(table.empty());
  for (size_t i = 0; i < table.size(); ++i) {
    EXPECT_LE(table[i].first, table[i].last) << "entry " << i;
    if (i > 0) {
      EXPECT_LT(table[i - 1].last, table[i].first) << "entry " << i;
    }
  }
}

// What FindRange relies on.
TEST(UnicodeTables, RangesAreSortedAndApart) {
  ExpectSortedApart(unicode::kLetters);
  ExpectSortedApart(unicode::kNumbers);
  ExpectSortedApart(unicode::kDecimalDigits);
  ExpectSortedApart(unicode::kUnprintable);
  ExpectSortedApart(unicode::kToLower);
  ExpectSortedApart(unicode::kToUpper);
  ExpectSortedApart(unicode::kCombining);
}

TEST(UnicodeTables, FindRange) {
  constexpr unicode::Range kTwo[] = {{5, 7}, {9, 9}};
  const std::span<const unicode::Range> table = kTwo;
  for (const char32_t c : {U'\4', U'\10', U'\12'}) EXPECT_EQ(unicode::FindRange(table, c), nullptr);
  for (const char32_t c : {U'\5', U'\6', U'\7'}) EXPECT_EQ(unicode::FindRange(table, c), &kTwo[0]);
  EXPECT_EQ(unicode::FindRange(table, U'\11'), &kTwo[1]);
  EXPECT_EQ(unicode::FindRange(table.first(0), U'\5'), nullptr);
}

}  // namespace
}  // namespace erne
