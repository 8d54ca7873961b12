#include "base/utf8.h"

#include <random>
#include <string>

#include <gtest/gtest.h>

namespace erne {
namespace {

// U+FFFD, which stands for an ill-formed piece.
const std::string kReplaced = "\xEF\xBF\xBD";

TEST(Utf8, EveryCodePointReadsBack) {
  for (char32_t c = 0; c <= 0x10FFFF; ++c) {
    if (c >= 0xD800 && c <= 0xDFFF) continue;
    std::string text;
    AppendUtf8(c, text);
    const Utf8Char read = DecodeUtf8(text);
    ASSERT_EQ(read.code_point, c);
    ASSERT_EQ(read.length, static_cast<int>(text.size()));
    // No beginning of it is a character, and each can be completed.
    for (size_t size = 0; size < text.size(); ++size) {
      ASSERT_EQ(DecodeUtf8(text.substr(0, size)).length, 0);
      ASSERT_EQ(CompleteUtf8Prefix(text.substr(0, size)), 0u);
    }
    ASSERT_EQ(CompleteUtf8Prefix(text), text.size());
  }
}

TEST(Utf8, WhatIsNoCharacterBecomesTheReplacement) {
  for (const char32_t c : {0xD800u, 0xDFFFu, 0x110000u, 0xFFFFFFFFu}) {
    std::string text;
    AppendUtf8(c, text);
    EXPECT_EQ(text, kReplaced);
  }
}

// Every sequence of up to three bytes, and of four where the first can begin one, against a plain
// reading of the definition: a sequence is well formed when encoding the value that it spells gives
// it back.
bool IsWellFormed(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<uint32_t>(static_cast<uint8_t>(text[i])); };
  const size_t length = byte(0) < 0x80 ? 1 : byte(0) < 0xE0 ? 2 : byte(0) < 0xF0 ? 3 : 4;
  if (length != text.size() || (byte(0) >= 0x80 && byte(0) < 0xC0) || byte(0) >= 0xF8) return false;
  char32_t value = length == 1 ? byte(0) : byte(0) & (0x7F >> length);
  for (size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return false;
    value = value << 6 | (byte(i) & 0x3F);
  }
  std::string again;
  AppendUtf8(value, again);
  return again == text;
}

TEST(Utf8, AcceptsExactlyTheWellFormedSequences) {
  // Bytes at which the definition changes its mind, and their neighbours.
  const std::string edges(
      "\x00\x41\x7F\x80\x8F\x90\x9F\xA0\xBF\xC0\xC1\xC2\xDF\xE0\xE1\xEC\xED\xEE\xEF\xF0\xF1\xF3\xF4"
      "\xF5\xF8\xFF",
      26);
  std::string text;
  const auto visit = [&](const auto& self, size_t depth) -> void {
    for (const char byte : edges) {
      text.push_back(byte);
      const bool expected = IsWellFormed(text);
      const Utf8Char c = DecodeUtf8(text);
      ASSERT_EQ(c.length == static_cast<int>(text.size()), expected);
      if (depth > 1) self(self, depth - 1);
      text.pop_back();
    }
  };
  visit(visit, 4);
}

TEST(Utf8, FindsTheFirstInvalidByte) {
  EXPECT_EQ(FindInvalidUtf8(""), std::string_view::npos);
  EXPECT_EQ(FindInvalidUtf8("aé世😀"), std::string_view::npos);
  EXPECT_EQ(FindInvalidUtf8("a\xFFz"), 1u);
  EXPECT_EQ(FindInvalidUtf8("世\xE4\xB8"), 3u);
  EXPECT_EQ(FindInvalidUtf8("\xC0\x80"), 0u);          // overlong
  EXPECT_EQ(FindInvalidUtf8("x\xED\xA0\x80"), 1u);     // a surrogate
  EXPECT_EQ(FindInvalidUtf8("\xF4\x90\x80\x80"), 0u);  // above U+10FFFF
}

// The examples of the Unicode Standard, tables 3-8 to 3-11.
TEST(Utf8, ReplacesMaximalIllFormedPieces) {
  const std::string& r = kReplaced;
  EXPECT_EQ(SanitizeUtf8("\xC0\xAF\xE0\x80\xBF\xF0\x81\x82\x41"),
            r + r + r + r + r + r + r + r + "A");
  EXPECT_EQ(SanitizeUtf8("\xED\xA0\x80\xED\xBF\xBF\xED\xAF\x41"),
            r + r + r + r + r + r + r + r + "A");
  EXPECT_EQ(SanitizeUtf8("\xF4\x91\x92\x93\xFF\x41\x80\xBF\x42"),
            r + r + r + r + r + "A" + r + r + "B");
  EXPECT_EQ(SanitizeUtf8("\xE1\x80\xE2\xF0\x91\x92\xF1\xBF\x41"), r + r + r + r + "A");
  EXPECT_EQ(SanitizeUtf8("aé世😀"), "aé世😀");
}

TEST(Utf8, CuttingAtCompletePrefixesNeverChangesTheResult) {
  std::mt19937 random(1);
  const std::string alphabet = "a\x80\x9F\xA0\xBF\xC3\xE0\xE4\xED\xF0\xF4\xFF";
  for (int round = 0; round < 20'000; ++round) {
    std::string bytes;
    for (size_t n = random() % 12; n > 0; --n)
      bytes.push_back(alphabet[random() % alphabet.size()]);
    std::string streamed;
    std::string held;
    for (const char byte : bytes) {
      held.push_back(byte);
      const size_t complete = CompleteUtf8Prefix(held);
      streamed += SanitizeUtf8(held.substr(0, complete));
      held.erase(0, complete);
      ASSERT_LE(held.size(), 3u);
    }
    streamed += SanitizeUtf8(held);
    ASSERT_EQ(streamed, SanitizeUtf8(bytes));
    ASSERT_EQ(FindInvalidUtf8(streamed), std::string_view::npos);
  }
}

TEST(Utf8, OneLineKeepsTextAndSpellsTheRest) {
  EXPECT_EQ(OneLine("你好, Ünï 𠮷"), "你好, Ünï 𠮷");
  EXPECT_EQ(OneLine("a\n\r\tb\\"), "a\\n\\r\\tb\\");
  EXPECT_EQ(OneLine("a\n\\n", /*spell_backslash=*/true), "a\\n\\\\n");
  EXPECT_EQ(OneLine(std::string_view("\0\x1b\x7f", 3)), "\\x00\\x1b\\x7f");
  EXPECT_EQ(OneLine("\xe4\xbd"), "\\xe4\\xbd");
  EXPECT_EQ(OneLine("\xe4你\xff"), "\\xe4你\\xff");
  EXPECT_EQ(OneLine(""), "");
}

TEST(Utf8, Counts) {
  EXPECT_EQ(CountUtf8(""), 0u);
  EXPECT_EQ(CountUtf8("aé世😀"), 4u);
}

}  // namespace
}  // namespace erne
