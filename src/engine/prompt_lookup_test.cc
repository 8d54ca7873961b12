#include "engine/prompt_lookup.h"

#include <random>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace erne {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::vector<int32_t> LookUp(const std::vector<int32_t>& tokens, PromptLookupRule rule,
                            int64_t max_tokens) {
  const std::span<const int32_t> next = LookUpNext(tokens, rule, max_tokens);
  return {next.begin(), next.end()};
}

TEST(PromptLookup, FindsWhatFollowed) {
  EXPECT_THAT(LookUp({1, 2, 3, 4, 5, 1, 2}, {}, 3), ElementsAre(3, 4, 5));
  EXPECT_THAT(LookUp({1, 2, 3, 4, 5, 1, 2}, {}, 2), ElementsAre(3, 4));
}

TEST(PromptLookup, TheLongestMatchWinsThenTheLatest) {
  EXPECT_THAT(LookUp({7, 1, 2, 3, 1, 2, 4, 7, 1, 2}, {}, 1), ElementsAre(3));
  EXPECT_THAT(LookUp({1, 2, 3, 1, 2, 4, 1, 2}, {}, 1), ElementsAre(4));
  EXPECT_THAT(LookUp({7, 1, 2, 3, 1, 2, 4, 7, 1, 2}, {.max_ngram = 2}, 1), ElementsAre(4))
      << "three tokens are not looked at";
}

TEST(PromptLookup, ASequenceMayOverlapItself) {
  EXPECT_THAT(LookUp({5, 5, 5, 5}, {}, 4), ElementsAre(5));
}

TEST(PromptLookup, FindsNothing) {
  EXPECT_THAT(LookUp({}, {}, 3), IsEmpty());
  EXPECT_THAT(LookUp({1}, {.max_ngram = 1, .min_ngram = 1}, 3), IsEmpty());
  EXPECT_THAT(LookUp({1, 2, 3, 4}, {}, 3), IsEmpty());
  EXPECT_THAT(LookUp({9, 2, 3, 1, 2}, {}, 3), IsEmpty()) << "one token in common is too few";
  EXPECT_THAT(LookUp({1, 2, 1, 2}, {}, 0), IsEmpty());
}

// The definition, tried at every place.
std::vector<int32_t> Obvious(const std::vector<int32_t>& tokens, PromptLookupRule rule,
                             int64_t max_tokens) {
  const auto length = static_cast<int64_t>(tokens.size());
  for (int64_t n = rule.max_ngram; n >= rule.min_ngram; --n) {
    for (int64_t begin = length - n - 1; begin >= 0; --begin) {
      if (!std::equal(tokens.end() - n, tokens.end(), tokens.begin() + begin)) continue;
      const auto next = tokens.begin() + begin + n;
      return {next, next + std::min(max_tokens, static_cast<int64_t>(tokens.end() - next))};
    }
  }
  return {};
}

TEST(PromptLookup, IsItsDefinition) {
  std::mt19937 random(7);
  int found = 0;
  for (int round = 0; round < 5000; ++round) {
    std::vector<int32_t> tokens(random() % 30);
    for (int32_t& token : tokens) token = static_cast<int32_t>(random() % 4);
    PromptLookupRule rule;
    rule.min_ngram = 1 + static_cast<int64_t>(random() % 3);
    rule.max_ngram = rule.min_ngram + static_cast<int64_t>(random() % 3);
    const auto max_tokens = static_cast<int64_t>(random() % 5);
    const std::vector<int32_t> expected = Obvious(tokens, rule, max_tokens);
    ASSERT_EQ(LookUp(tokens, rule, max_tokens), expected) << "round " << round;
    found += expected.empty() ? 0 : 1;
  }
  EXPECT_GT(found, 1000);
}

}  // namespace
}  // namespace erne
