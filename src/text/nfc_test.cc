#include "text/nfc.h"

#include <string>

#include <gtest/gtest.h>

#include "base/utf8.h"

namespace erne {
namespace {

std::string Utf8(std::u32string_view characters) {
  std::string out;
  for (const char32_t c : characters) AppendUtf8(c, out);
  return out;
}

TEST(Nfc, Composes) {
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
TEST(Nfc, ManyMarks) {
  std::string text = "a";
  std::string expected = "\u00E1";
  for (int i = 0; i < 100'000; ++i) text += "\u0316\u0301";
  for (int i = 0; i < 100'000; ++i) expected += "\u0316";
  for (int i = 1; i < 100'000; ++i) expected += "\u0301";
  EXPECT_EQ(ComposeNfc(text), expected);
}

}  // namespace
}  // namespace erne
