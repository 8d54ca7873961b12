#include "sampling/logit_adjuster.h"

#include <limits>
#include <map>
#include <random>
#include <vector>

#include <gtest/gtest.h>

namespace erne {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kLargest = std::numeric_limits<float>::max();

std::vector<float> Adjust(const SamplingParams& params, std::vector<float> logits,
                          const std::vector<int32_t>& prompt, const std::vector<int32_t>& output,
                          const std::vector<int32_t>& banned = {},
                          const std::vector<uint32_t>& allowed = {}) {
  LogitAdjuster adjuster(params, static_cast<int64_t>(logits.size()), prompt);
  for (const int32_t token : output) adjuster.Add(token);
  const TokenBans bans = {.banned = banned, .allowed = allowed};
  if (adjuster.Adjusts(bans)) adjuster.Adjust(output, bans, logits);
  return logits;
}

TEST(TokenCounts, CountsInOrder) {
  TokenCounts counts;
  std::map<int32_t, int32_t> expected;
  std::mt19937 random(1);
  for (int i = 0; i < 1000; ++i) {
    const auto token = static_cast<int32_t>(random() % 100);
    counts.Add(token);
    ++expected[token];
  }
  ASSERT_EQ(counts.entries().size(), expected.size());
  auto it = expected.begin();
  for (const auto& [token, count] : counts.entries()) {
    EXPECT_EQ(token, it->first);
    EXPECT_EQ(count, it->second);
    ++it;
  }
}

TEST(LogitAdjuster, DefaultsAdjustNothing) {
  EXPECT_FALSE(LogitAdjuster({}, 8, std::vector<int32_t>{1}).Adjusts({}));
  EXPECT_EQ(Adjust({}, {1, 2}, {0}, {1}), (std::vector<float>{1, 2}));
}

// Full, empty and mixed words, the last one cut short by the vocabulary.
TEST(LogitAdjuster, AMaskBansWhatItDoesNotHold) {
  const std::vector<float> logits(100, 1.0F);
  const std::vector<uint32_t> allowed = {~0U, 0, 1U << 5 | 1U << 31, 1U << 3};
  const std::vector<float> adjusted =
      Adjust({.logit_bias = {{40, 5.0F}, {2, 1.0F}}}, logits, {}, {}, {1}, allowed);
  for (size_t token = 0; token < logits.size(); ++token) {
    const bool may = (token < 32 && token != 1) || token == 69 || token == 95 || token == 99;
    const float expected = token == 2 ? 2.0F : 1.0F;
    EXPECT_EQ(adjusted[token], may ? expected : -kInfinity) << token;
  }
}

TEST(LogitAdjuster, AllButTheAllowedTokensAreBanned) {
  std::vector<float> logits(130, 1.0F);
  const std::vector<float> adjusted =
      Adjust({.logit_bias = {{3, 5.0F}}, .allowed_tokens = {0, 64, 129}}, logits, {}, {}, {64});
  for (size_t token = 0; token < logits.size(); ++token) {
    EXPECT_EQ(adjusted[token], token == 0 || token == 129 ? 1.0F : -kInfinity) << token;
  }
}

TEST(LogitAdjuster, RepetitionCountsPromptAndOutputOnce) {
  EXPECT_EQ(Adjust({.repetition_penalty = 2}, {4, 4, -4, -4, 0}, {0, 0, 4}, {2, 2}),
            (std::vector<float>{2, 4, -8, -4, 0}));
}

TEST(LogitAdjuster, PresenceAndFrequencyCountTheOutputAlone) {
  EXPECT_EQ(Adjust({.presence_penalty = 0.5F}, {1, 1, 1}, {0}, {1, 1, 1}),
            (std::vector<float>{1, 0.5F, 1}));
  EXPECT_EQ(Adjust({.frequency_penalty = 0.5F}, {1, 1, 1}, {0}, {1, 2, 1}),
            (std::vector<float>{1, 0, 0.5F}));
  EXPECT_EQ(Adjust({.presence_penalty = -1, .frequency_penalty = -0.25F}, {1, 1}, {}, {0, 0}),
            (std::vector<float>{2.5F, 1}));
}

TEST(LogitAdjuster, OrderIsBiasThenRepetitionThenCounts) {
  SamplingParams params{.repetition_penalty = 2, .presence_penalty = 1};
  params.logit_bias = {{0, 3.0F}};
  EXPECT_EQ(Adjust(params, {1, 1}, {}, {0}), (std::vector<float>{(1 + 3) / 2.0F - 1, 1}));
}

TEST(LogitAdjuster, BadWordsBanTheirLastTokenWhereTheRestStands) {
  SamplingParams params;
  params.bad_words = {{3}, {0, 1, 2}};
  EXPECT_EQ(Adjust(params, {1, 1, 1, 1}, {}, {}), (std::vector<float>{1, 1, 1, -kInfinity}));
  EXPECT_EQ(Adjust(params, {1, 1, 1, 1}, {}, {0, 1}),
            (std::vector<float>{1, 1, -kInfinity, -kInfinity}));
  EXPECT_EQ(Adjust(params, {1, 1, 1, 1}, {}, {2, 0, 1}),
            (std::vector<float>{1, 1, -kInfinity, -kInfinity}));
  EXPECT_EQ(Adjust(params, {1, 1, 1, 1}, {}, {0, 1, 2}), (std::vector<float>{1, 1, 1, -kInfinity}));
  EXPECT_EQ(Adjust(params, {1, 1, 1, 1}, {0, 1}, {}),
            (std::vector<float>{1, 1, 1, -kInfinity}));  // the output alone
  EXPECT_EQ(Adjust(params, {1, 1, 1, 1}, {0}, {1}), (std::vector<float>{1, 1, 1, -kInfinity}));
}

TEST(LogitAdjuster, ABanWinsOverABias) {
  SamplingParams params;
  params.logit_bias = {{1, 100.0F}};
  EXPECT_EQ(Adjust(params, {1, 1}, {}, {}, {1}), (std::vector<float>{1, -kInfinity}));
}

TEST(LogitAdjuster, FiniteStaysFiniteAndInfiniteStays) {
  EXPECT_EQ(
      Adjust({.repetition_penalty = std::numeric_limits<float>::denorm_min()}, {30, 1}, {0}, {}),
      (std::vector<float>{kLargest, 1}));
  EXPECT_EQ(Adjust({.repetition_penalty = kLargest}, {-30, 1, -kInfinity}, {0, 2}, {}),
            (std::vector<float>{-kLargest, 1, -kInfinity}));
  SamplingParams params;
  params.logit_bias = {{0, kLargest}, {1, kLargest}};
  EXPECT_EQ(Adjust(params, {kLargest, -kInfinity}, {}, {}),
            (std::vector<float>{kLargest, -kInfinity}));
}

}  // namespace
}  // namespace erne
