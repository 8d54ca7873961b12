#include "text/unicode.h"

#include <string>

#include <gtest/gtest.h>

#include "base/utf8.h"
#include "text/byte_level.h"

namespace erne {
namespace {

std::string Utf8(std::u32string_view characters) {
  std::string out;
  for (const char32_t c : characters) AppendUtf8(c, out);
  return out;
}

TEST(Unicode, Classes) {
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

TEST(Unicode, NormalizationFormC) {
  const auto nfc = [](std::u32string_view text) { return ComposeNfc(Utf8(text)); };
  EXPECT_EQ(nfc(U""), "");
  EXPECT_EQ(nfc(U"plain Å世"), Utf8(U"plain Å世"));
  EXPECT_EQ(nfc(U"e\u0301"), Utf8(U"é"));
  EXPECT_EQ(nfc(U"\u212B\u2126"), Utf8(U"\u00C5\u03A9"));  // singletons
  EXPECT_EQ(nfc(U"\u0958"), Utf8(U"\u0915\u093C"));        // excluded from composition
  EXPECT_EQ(nfc(U"a\u0323\u0302"), Utf8(U"\u1EAD"));       // in two steps
  EXPECT_EQ(nfc(U"a\u0302\u0323"), Utf8(U"\u1EAD"));       // out of order
  EXPECT_EQ(nfc(U"\u1E69\u0323"),
            Utf8(U"\u1E69\u0323"));  // a second mark of the same class is blocked
  EXPECT_EQ(nfc(U"\u1100\u1161\u11A8\uAC00\u11A8"), Utf8(U"\uAC01\uAC01"));  // Hangul
  EXPECT_EQ(nfc(U"\u0301e"), Utf8(U"\u0301e"));  // a mark with nothing before it
  EXPECT_EQ(nfc(U"e\u0301\u0301"), Utf8(U"é\u0301"));
}

// A hundred thousand marks on one letter: ordering them must not be quadratic.
TEST(Unicode, ManyMarks) {
  std::string text = "a";
  std::string expected = "\u00E1";
  for (int i = 0; i < 100'000; ++i) text += "\u0316\u0301";
  for (int i = 0; i < 100'000; ++i) expected += "\u0316";
  for (int i = 1; i < 100'000; ++i) expected += "\u0301";
  EXPECT_EQ(ComposeNfc(text), expected);
}

TEST(ByteLevel, EachByteHasItsCharacter) {
  for (int byte = 0; byte < 256; ++byte) {
    EXPECT_EQ(ByteOfCharacter(CharacterOfByte(static_cast<uint8_t>(byte))), byte);
  }
  EXPECT_EQ(CharacterOfByte('!'), U'!');
  EXPECT_EQ(CharacterOfByte(' '), U'Ġ');
  EXPECT_EQ(CharacterOfByte('\n'), U'Ċ');
  EXPECT_EQ(ByteOfCharacter(U' '), std::nullopt);
  EXPECT_EQ(ByteOfCharacter(U'世'), std::nullopt);
  EXPECT_EQ(BytesOfPiece("Ġhi"), " hi");
  EXPECT_EQ(BytesOfPiece("ä¸ĸ"), "世");
  EXPECT_EQ(BytesOfPiece("世"), std::nullopt);
}

}  // namespace
}  // namespace erne
