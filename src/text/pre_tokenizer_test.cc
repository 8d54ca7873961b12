#include "text/pre_tokenizer.h"

#include <random>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "text/test_support.h"

namespace erne {
namespace {

using ::testing::ElementsAre;

// Expected words are those of Hugging Face's tokenizers 0.23.3 with the published patterns.
TEST(PreTokenizer, Gpt2) {
  const auto split = [](std::string_view text) { return SplitWords(PreTokenizer::kGpt2, text); };
  EXPECT_THAT(split("Hello  world, it's 2024!\n"),
              ElementsAre("Hello", " ", " world", ",", " it", "'s", " 2024", "!", "\n"));
  EXPECT_THAT(split("it'S"), ElementsAre("it", "'", "S"));
  EXPECT_THAT(split("a \n\n b"), ElementsAre("a", " \n\n", " b"));
  EXPECT_THAT(split("世界 ½"), ElementsAre("世界", " ½"));
  EXPECT_THAT(split("   "), ElementsAre("   "));
  EXPECT_THAT(split(""), ElementsAre());
}

TEST(PreTokenizer, Llama3) {
  const auto split = [](std::string_view text) { return SplitWords(PreTokenizer::kLlama3, text); };
  EXPECT_THAT(
      split("Hello  world, it'S 12345!\n\nx"),
      ElementsAre("Hello", " ", " world", ",", " it", "'S", " ", "123", "45", "!\n\n", "x"));
  EXPECT_THAT(split("a \r\n \n  b"), ElementsAre("a", " \r\n \n", " ", " b"));
  EXPECT_THAT(split("\tx(y)z"), ElementsAre("\tx", "(y", ")z"));
  EXPECT_THAT(split("\nx"), ElementsAre("\n", "x"));
  EXPECT_THAT(split("'ll'LL're"), ElementsAre("'ll", "'LL", "'re"));
  EXPECT_THAT(split("x  "), ElementsAre("x", "  "));
}

TEST(PreTokenizer, Qwen2TakesDigitsOneByOne) {
  EXPECT_THAT(SplitWords(PreTokenizer::kQwen2, "a 123"), ElementsAre("a", " ", "1", "2", "3"));
  EXPECT_THAT(SplitWords(PreTokenizer::kQwen2, "'\u017F"),
              ElementsAre("'\u017F"));  // the long s is an s
}

TEST(PreTokenizer, NoneKeepsTheTextWhole) {
  EXPECT_THAT(SplitWords(PreTokenizer::kNone, "a b"), ElementsAre("a b"));
}

TEST(PreTokenizer, PatternsAreKnownByTheirExactText) {
  EXPECT_EQ(PreTokenizerOf(R"(\s+)"), std::nullopt);
  EXPECT_EQ(PreTokenizerOf(
                R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)"),
            PreTokenizer::kGpt2);
}

TEST(PreTokenizer, WordsAreTheWholeText) {
  std::mt19937 random(7);
  for (int i = 0; i < 3000; ++i) {
    const std::string text =
        RandomText(random) + (i % 2 == 0 ? "' \r\n 's" : " \n") + RandomText(random);
    for (const PreTokenizer kind :
         {PreTokenizer::kGpt2, PreTokenizer::kLlama3, PreTokenizer::kQwen2}) {
      std::string joined;
      for (const std::string_view word : SplitWords(kind, text)) {
        ASSERT_FALSE(word.empty());
        joined += word;
      }
      ASSERT_EQ(joined, text);
    }
  }
}

}  // namespace
}  // namespace erne
