#include "sampling/repetition_detector.h"

#include <random>
#include <vector>

#include <gtest/gtest.h>

namespace erne {
namespace {

// The number of tokens after which a loop is reported, -1: never.
int64_t FoundAfter(const RepetitionRule& rule, const std::vector<int32_t>& tokens) {
  RepetitionDetector detector(rule);
  for (size_t n = 1; n <= tokens.size(); ++n) {
    if (detector.Add(std::span(tokens).first(n))) return static_cast<int64_t>(n);
  }
  return -1;
}

// The same by looking at everything anew.
int64_t FoundByDefinition(const RepetitionRule& rule, const std::vector<int32_t>& tokens) {
  for (size_t n = 1; n <= tokens.size(); ++n) {
    for (int32_t period = rule.min_period; period <= rule.max_period; ++period) {
      size_t tail = std::min<size_t>(n, static_cast<size_t>(period));
      while (tail < n && tokens[n - 1 - tail] == tokens[n - 1 - tail + static_cast<size_t>(period)])
        ++tail;
      if (tail >= static_cast<size_t>(period) * static_cast<size_t>(rule.min_count) &&
          static_cast<int64_t>(tail) >= rule.min_tokens) {
        return static_cast<int64_t>(n);
      }
    }
  }
  return -1;
}

TEST(RepetitionDetector, OffFindsNothing) {
  EXPECT_EQ(FoundAfter({}, std::vector<int32_t>(1000, 7)), -1);
}

TEST(RepetitionDetector, OneTokenAgainAndAgain) {
  const RepetitionRule rule{.max_period = 1, .min_count = 4};
  EXPECT_EQ(FoundAfter(rule, {7, 7, 7, 7}), 4);
  EXPECT_EQ(FoundAfter(rule, {1, 7, 7, 7, 2, 7, 7, 7, 7}), 9);
  EXPECT_EQ(FoundAfter(rule, {7, 7, 7, 1, 7, 7, 7}), -1);
}

TEST(RepetitionDetector, SpansAreFoundWithinTheirLimitsAlone) {
  const std::vector<int32_t> tokens = {9, 1, 2, 3, 1, 2, 3, 1, 2, 3};
  EXPECT_EQ(FoundAfter({.max_period = 3, .min_count = 3}, tokens), 10);
  EXPECT_EQ(FoundAfter({.max_period = 4, .min_count = 2}, tokens), 7);
  EXPECT_EQ(FoundAfter({.max_period = 2, .min_count = 2}, tokens), -1);
  EXPECT_EQ(FoundAfter({.max_period = 8, .min_period = 4, .min_count = 2}, tokens), -1);
  EXPECT_EQ(FoundAfter({.max_period = 8, .min_count = 4}, tokens), -1);
}

TEST(RepetitionDetector, ALoopMayBeginInTheMiddleOfItsSpan) {
  // 3 1 2 3 1 2 3 1 2: three copies of "3 1 2".
  EXPECT_EQ(FoundAfter({.max_period = 3, .min_count = 3}, {3, 1, 2, 3, 1, 2, 3, 1, 2}), 9);
}

TEST(RepetitionDetector, ShortLoopsCountOnlyWhenTheyAreLongTogether) {
  const RepetitionRule rule{.max_period = 4, .min_count = 2, .min_tokens = 10};
  EXPECT_EQ(FoundAfter(rule, std::vector<int32_t>(9, 7)), -1);
  EXPECT_EQ(FoundAfter(rule, std::vector<int32_t>(10, 7)), 10);
}

TEST(RepetitionDetector, TextThatResemblesALoopIsNone) {
  // A numbered list: the same line, but for its number.
  std::vector<int32_t> tokens;
  for (int32_t i = 0; i < 500; ++i) tokens.insert(tokens.end(), {1000 + i, 1, 2, 3, 4});
  EXPECT_EQ(FoundAfter({.max_period = 64, .min_count = 2, .min_tokens = 8}, tokens), -1);
}

TEST(RepetitionDetector, AgreesWithTheDefinition) {
  std::mt19937 random(1);
  for (int i = 0; i < 2000; ++i) {
    std::vector<int32_t> tokens(random() % 40);
    for (int32_t& token : tokens) token = static_cast<int32_t>(random() % 2);
    const auto max_period = static_cast<int32_t>(1 + random() % 6);
    const RepetitionRule rule{.max_period = max_period,
                              .min_period = static_cast<int32_t>(1 + random() % max_period),
                              .min_count = static_cast<int32_t>(2 + random() % 4),
                              .min_tokens = static_cast<int64_t>(random() % 12)};
    ASSERT_EQ(FoundAfter(rule, tokens), FoundByDefinition(rule, tokens)) << "case " << i;
  }
}

TEST(ValidateRepetition, Ranges) {
  EXPECT_TRUE(ValidateRepetition({}).ok());
  EXPECT_TRUE(ValidateRepetition({.max_period = 1024, .min_period = 1024, .min_count = 2}).ok());
  for (const RepetitionRule& bad :
       {RepetitionRule{.max_period = -1}, RepetitionRule{.max_period = 1025},
        RepetitionRule{.max_period = 4, .min_period = 5},
        RepetitionRule{.max_period = 4, .min_period = 0},
        RepetitionRule{.max_period = 4, .min_count = 1}}) {
    EXPECT_EQ(ValidateRepetition(bad).param(), "repetition_detection");
  }
}

}  // namespace
}  // namespace erne
