// The sampler's rules one by one; how often each token comes out is the subject of
// distribution_test.cc.
#include "sampling/sampler.h"

#include <cmath>
#include <limits>
#include <random>
#include <set>
#include <vector>

#include <gtest/gtest.h>

#include "sampling/sorting_sampler.h"

namespace erne {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// `seen`: the prompt.
Result<SampledToken> SampleAt(const std::vector<float>& logits, const SamplingParams& params,
                              const SamplePoint& point, const std::vector<int32_t>& seen = {}) {
  const auto vocab = static_cast<int64_t>(logits.size());
  SamplerScratch scratch(vocab);
  return RequestSampler(params, vocab, seen).Sample(logits, point, scratch);
}

int32_t Sample(const std::vector<float>& logits, const SamplingParams& params,
               uint64_t position = 0, const std::vector<int32_t>& seen = {}) {
  return SampleAt(logits, params, {.position = position}, seen).value().token;
}

Status SampleStatus(const std::vector<float>& logits, const SamplingParams& params) {
  return SampleAt(logits, params, {}).status();
}

// Every token that comes out in `draws` positions.
std::set<int32_t> Support(const std::vector<float>& logits, const SamplingParams& params,
                          int draws = 2000) {
  std::set<int32_t> tokens;
  for (int i = 0; i < draws; ++i) tokens.insert(Sample(logits, params, static_cast<uint64_t>(i)));
  return tokens;
}

std::vector<float> RandomLogits(size_t size, uint32_t seed, float spread = 3.0F) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0.0F, spread);
  std::vector<float> logits(size);
  for (float& logit : logits) logit = normal(random);
  return logits;
}

TEST(ArgMax, LowestIndexOnTies) {
  EXPECT_EQ(ArgMax(std::vector<float>{1, 3, 2, 3}), 1);
  EXPECT_EQ(ArgMax(std::vector<float>{-5}), 0);
  EXPECT_EQ(ArgMax(std::vector<float>{-kInfinity, -kInfinity}), 0);
  EXPECT_EQ(ArgMax(std::vector<float>{-kInfinity, -1, -kInfinity}), 1);
}

TEST(ArgMax, EveryPlaceInRowsOfEveryLength) {
  for (size_t size = 1; size < 40; ++size) {
    for (size_t place = 0; place < size; ++place) {
      std::vector<float> values(size, -1.0F);
      values[place] = -0.5F;
      EXPECT_EQ(ArgMax(values), static_cast<int32_t>(place));
    }
  }
}

TEST(RequestSampler, TemperatureZeroIsArgMaxAfterThePenalty) {
  const SamplingParams greedy{.temperature = 0.0F, .top_p = 0.5F, .top_k = 3};
  EXPECT_EQ(Sample({1, 5, 5, 2}, greedy), 1);
  SamplingParams penalized = greedy;
  penalized.repetition_penalty = 2.0F;
  EXPECT_EQ(Sample({1, 5, 4, 2}, penalized, 0, {1}), 2);  // 5 / 2 < 4
  EXPECT_EQ(Sample({-3, -2, -5}, penalized, 0, {1}), 0);  // -2 * 2 < -3
  EXPECT_EQ(Sample({-3, -2, -5}, penalized, 0, {0, 2}), 1);
}

TEST(RequestSampler, ExtremePenaltiesKeepLogitsFinite) {
  SamplingParams params{.temperature = 0.0F};
  params.repetition_penalty = std::numeric_limits<float>::denorm_min();
  EXPECT_EQ(Sample({30, 20, 10}, params, 0, {1, 2}), 1);
  params.repetition_penalty = std::numeric_limits<float>::max();
  EXPECT_EQ(Sample({-30, -20}, params, 0, {0, 1}), 0);
}

TEST(RequestSampler, TinyTemperaturesNeitherOverflowNorMiss) {
  for (const float temperature : {1e-2F, 1e-6F, 1e-30F, std::numeric_limits<float>::denorm_min()}) {
    EXPECT_EQ(Support({-1e4F, 10, 60, 59, -kInfinity}, {.temperature = temperature}, 100),
              (std::set<int32_t>{2}));
  }
  EXPECT_EQ(Sample({-3e38F, 3e38F}, {.temperature = std::numeric_limits<float>::denorm_min()}), 1);
}

TEST(RequestSampler, TiesAtTinyTemperatureShareTheDraw) {
  EXPECT_EQ(Support({7, 1, 7}, {.temperature = 1e-6F}, 100), (std::set<int32_t>{0, 2}));
}

TEST(RequestSampler, HugeTemperatureIsUniform) {
  EXPECT_EQ(Support({100, -100, 0}, {.temperature = std::numeric_limits<float>::max()}, 200),
            (std::set<int32_t>{0, 1, 2}));
}

TEST(RequestSampler, TopKKeepsExactlyKWithTiesToTheLowerId) {
  const std::vector<float> logits = {1, 2, 2, 2, 0, 2};
  EXPECT_EQ(Support(logits, {.top_k = 1}), (std::set<int32_t>{1}));
  EXPECT_EQ(Support(logits, {.top_k = 3}), (std::set<int32_t>{1, 2, 3}));
  EXPECT_EQ(Support(logits, {.top_k = 5}), (std::set<int32_t>{0, 1, 2, 3, 5}));
  for (const int32_t all : {-1, 0, 6, 1000}) {
    EXPECT_EQ(Support(logits, {.top_k = all}), (std::set<int32_t>{0, 1, 2, 3, 4, 5})) << all;
  }
}

TEST(RequestSampler, TopKSelectsTheSameSetInEveryOrderOfLogits) {
  // Rising, falling and shuffled rows exercise the selection buffer differently.
  const int32_t vocab = 500;
  for (const int32_t k : {1, 2, 7, 100, 249, 250, 251, 499}) {
    std::vector<float> rising(vocab);
    for (int32_t i = 0; i < vocab; ++i)
      rising[static_cast<size_t>(i)] = static_cast<float>(i) * 1e-4F;
    const std::vector<float> falling(rising.rbegin(), rising.rend());
    for (const int32_t token : Support(rising, {.top_k = k})) EXPECT_GE(token, vocab - k);
    for (const int32_t token : Support(falling, {.top_k = k})) EXPECT_LT(token, k);
  }
}

TEST(RequestSampler, TopPKeepsTheTokenThatCrossesTheLine) {
  const std::vector<float> logits = {std::log(0.1F), std::log(0.5F), std::log(0.15F),
                                     std::log(0.25F)};
  EXPECT_EQ(Support(logits, {.top_p = 1e-9F}), (std::set<int32_t>{1}));
  EXPECT_EQ(Support(logits, {.top_p = 0.49F}), (std::set<int32_t>{1}));
  EXPECT_EQ(Support(logits, {.top_p = 0.51F}), (std::set<int32_t>{1, 3}));
  EXPECT_EQ(Support(logits, {.top_p = 0.74F}), (std::set<int32_t>{1, 3}));
  EXPECT_EQ(Support(logits, {.top_p = 0.76F}), (std::set<int32_t>{1, 2, 3}));
  EXPECT_EQ(Support(logits, {.top_p = 0.91F}), (std::set<int32_t>{0, 1, 2, 3}));
}

TEST(RequestSampler, TopPBoundaryIsExactOnPowersOfTwo) {
  // Four equal tokens: 0.5 is reached exactly by two (the lower ids), anything above needs a third.
  const std::vector<float> logits = {3, 3, 3, 3};
  EXPECT_EQ(Support(logits, {.top_p = 0.5F}), (std::set<int32_t>{0, 1}));
  EXPECT_EQ(Support(logits, {.top_p = std::nextafter(0.5F, 1.0F)}), (std::set<int32_t>{0, 1, 2}));
  EXPECT_EQ(Support(logits, {.top_p = 0.25F}), (std::set<int32_t>{0}));
}

TEST(RequestSampler, TopPAppliesToWhatTopKLeft) {
  // Of 0.4 0.3 0.2 0.1, top_k 2 leaves 4/7 and 3/7: 0.5 is then reached by the first alone.
  const std::vector<float> logits = {std::log(0.4F), std::log(0.3F), std::log(0.2F),
                                     std::log(0.1F)};
  EXPECT_EQ(Support(logits, {.top_p = 0.5F, .top_k = 2}), (std::set<int32_t>{0}));
  EXPECT_EQ(Support(logits, {.top_p = 0.5F}), (std::set<int32_t>{0, 1}));
}

TEST(RequestSampler, BannedTokensNeverComeOut) {
  std::vector<float> logits(64, -kInfinity);
  logits[40] = 0;
  logits[50] = -1;
  EXPECT_EQ(Support(logits, {}), (std::set<int32_t>{40, 50}));
  EXPECT_EQ(Support(logits, {.top_k = 20}), (std::set<int32_t>{40, 50}));
  EXPECT_EQ(Support(logits, {.top_p = 0.999F}), (std::set<int32_t>{40, 50}));
  SamplingParams penalized;
  penalized.repetition_penalty = 1e30F;
  EXPECT_EQ(Sample(logits, penalized, 0, {1, 2, 3}), Sample(logits, {}, 0));
}

TEST(RequestSampler, BrokenLogitsAreAnErrorThatNamesTheToken) {
  for (const float temperature : {0.0F, 1.0F}) {
    const SamplingParams params{.temperature = temperature};
    EXPECT_EQ(SampleStatus({1, 2, kNan}, params).message(), "the logit of token 2 is NaN");
    std::vector<float> row(100, 1.0F);
    row[13] = kNan;
    EXPECT_EQ(SampleStatus(row, params).message(), "the logit of token 13 is NaN");
    row[13] = kInfinity;
    EXPECT_EQ(SampleStatus(row, params).message(), "the logit of token 13 is infinite");
    EXPECT_EQ(SampleStatus({-kInfinity, -kInfinity}, params).code(), StatusCode::kInternal);
  }
}

TEST(RequestSampler, TheSameArgumentsGiveTheSameToken) {
  const std::vector<float> logits = RandomLogits(1000, 1);
  const SamplingParams params{.temperature = 0.9F, .top_p = 0.9F, .top_k = 200, .seed = 42};
  SamplerScratch used(1000);
  const RequestSampler other({}, 1000, {});
  const RequestSampler sampler(params, 1000, {});
  std::set<int32_t> distinct;
  for (uint64_t position = 0; position < 200; ++position) {
    // Whatever a scratch was used for before must not matter.
    (void)other.Sample(RandomLogits(1000, static_cast<uint32_t>(position)), {}, used);
    const int32_t token = sampler.Sample(logits, {.position = position}, used).value().token;
    EXPECT_EQ(token, Sample(logits, params, position));
    distinct.insert(token);
  }
  EXPECT_GT(distinct.size(), 20U);
}

TEST(RequestSampler, FiltersThatKeepEverythingChangeNothing) {
  const std::vector<float> logits = RandomLogits(300, 2);
  for (uint64_t position = 0; position < 300; ++position) {
    const int32_t plain = Sample(logits, {.seed = 5}, position);
    EXPECT_EQ(plain, Sample(logits, {.top_k = 300, .seed = 5}, position));
    EXPECT_EQ(plain, Sample(logits, {.top_k = 299, .seed = 5},
                            position));  // the last one's weight is negligible
    EXPECT_EQ(plain,
              Sample(logits, {.repetition_penalty = 2.0F, .seed = 5}, position));  // nothing seen
  }
}

TEST(RequestSampler, AShiftOfAllLogitsChangesNothing) {
  std::vector<float> logits(128);
  for (size_t i = 0; i < logits.size(); ++i) logits[i] = static_cast<float>(i % 16) * 0.25F;
  std::vector<float> shifted = logits;
  for (float& logit : shifted) logit += 1024.0F;  // exact in float
  const SamplingParams params{.temperature = 0.7F, .top_p = 0.8F, .top_k = 50, .seed = 3};
  for (uint64_t position = 0; position < 500; ++position) {
    EXPECT_EQ(Sample(logits, params, position), Sample(shifted, params, position));
  }
}

TEST(RequestSampler, MinPDropsWhatIsFarBelowTheMostProbable) {
  const std::vector<float> logits = {std::log(0.1F), std::log(0.5F), std::log(0.15F),
                                     std::log(0.25F)};
  EXPECT_EQ(Support(logits, {.min_p = 0.19F}), (std::set<int32_t>{0, 1, 2, 3}));
  EXPECT_EQ(Support(logits, {.min_p = 0.21F}), (std::set<int32_t>{1, 2, 3}));
  EXPECT_EQ(Support(logits, {.min_p = 0.49F}), (std::set<int32_t>{1, 3}));
  EXPECT_EQ(Support(logits, {.min_p = 1.0F}), (std::set<int32_t>{1}));
  EXPECT_EQ(Support({2, 2, 1}, {.min_p = 1.0F}), (std::set<int32_t>{0, 1}));
  // top_p works on what min_p left: 0.5 and 0.25 of 0.75.
  EXPECT_EQ(Support(logits, {.top_p = 0.6F, .min_p = 0.49F}), (std::set<int32_t>{1}));
}

TEST(RequestSampler, BannedTokensOfThePointDoNotCome) {
  const std::vector<int32_t> banned = {1, 2};
  EXPECT_EQ(SampleAt({1, 5, 4, 2}, {.temperature = 0}, {.bans = {.banned = banned}}).value().token,
            3);
  const std::vector<int32_t> all = {0, 1};
  const Status status = SampleAt({1, 2}, {}, {.bans = {.banned = all}}).status();
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << status.message();
  EXPECT_EQ(SampleAt({1, 2}, {.bad_words = {{0}, {1}}}, {}).status().code(),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(SampleAt({-kInfinity, -kInfinity}, {}, {}).status().code(), StatusCode::kInternal);
}

TEST(RequestSampler, LogprobsAreOfTheLogitsAsTheyCame) {
  const std::vector<float> logits = {std::log(0.1F), std::log(0.5F), std::log(0.15F),
                                     std::log(0.25F)};
  SamplingParams params{.temperature = 0, .logprobs = 2};
  params.logit_bias = {{2, 100.0F}};
  const SampledToken sampled = SampleAt(logits, params, {}).value();
  EXPECT_EQ(sampled.token, 2);
  ASSERT_EQ(sampled.logprobs.size(), 3U);
  const std::vector<std::pair<int32_t, double>> expected = {{2, 0.15}, {1, 0.5}, {3, 0.25}};
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_EQ(sampled.logprobs[i].token, expected[i].first);
    // Of the input's rounding to float, at most 2^-24 of 2.3, twice.
    EXPECT_NEAR(sampled.logprobs[i].logprob, std::log(expected[i].second), 3e-7);
  }
}

TEST(RequestSampler, LogprobsOfTheWholeVocabularyAreSortedAndSumToOne) {
  const std::vector<float> logits = RandomLogits(300, 9);
  for (const int32_t count : {0, 1, 20, 300}) {
    const SampledToken sampled = SampleAt(logits, {.logprobs = count}, {.position = 3}).value();
    ASSERT_EQ(sampled.logprobs.size(), static_cast<size_t>(count) + 1);
    EXPECT_EQ(sampled.logprobs[0].token, sampled.token);
    double sum = 0;
    for (size_t i = 1; i < sampled.logprobs.size(); ++i) {
      if (i > 1) {
        EXPECT_LE(sampled.logprobs[i].logprob, sampled.logprobs[i - 1].logprob);
      }
      if (sampled.logprobs[i].token == sampled.token) {
        EXPECT_EQ(sampled.logprobs[i].logprob, sampled.logprobs[0].logprob);
      }
      sum += std::exp(static_cast<double>(sampled.logprobs[i].logprob));
    }
    if (count == 300) {
      EXPECT_NEAR(sum, 1.0, 1e-6);
    }
  }
  EXPECT_TRUE(SampleAt(logits, {}, {}).value().logprobs.empty());
}

TEST(RequestSampler, LogprobsOfChosenTokens) {
  const std::vector<float> logits = {0, 1, 2, 3};
  const auto all = SampleAt(logits, {.temperature = 0, .logprobs = 4}, {}).value().logprobs;
  const auto some =
      SampleAt(logits, {.temperature = 0, .logprobs = 0, .logprob_tokens = {0, 2}}, {})
          .value()
          .logprobs;
  ASSERT_EQ(some.size(), 3U);
  EXPECT_EQ(some[0].token, 3);
  EXPECT_EQ(some[1].token, 0);
  EXPECT_EQ(some[1].logprob, all[4].logprob);
  EXPECT_EQ(some[2].token, 2);
  EXPECT_EQ(some[2].logprob, all[2].logprob);
}

TEST(RequestSampler, LogprobsDoNotChangeTheToken) {
  const std::vector<float> logits = RandomLogits(300, 4);
  for (uint64_t position = 0; position < 100; ++position) {
    EXPECT_EQ(Sample(logits, {.top_p = 0.9F}, position),
              Sample(logits, {.top_p = 0.9F, .logprobs = 5}, position));
  }
}

// Rows of several blocks, sharp, flat and full of ties, under every pair of rules.
TEST(RequestSampler, ChoosesWhatSortingChooses) {
  constexpr size_t kVocab = 3000;
  std::vector<std::vector<float>> rows;
  for (const float spread : {0.01F, 1.0F, 3.0F, 10.0F}) {
    rows.push_back(RandomLogits(kVocab, 11, spread));
    rows.push_back(rows.back());
    for (float& logit : rows.back()) logit = std::round(logit);
  }
  rows.push_back(RandomLogits(kVocab, 12));
  for (size_t i = 0; i < kVocab; i += 2) rows.back()[i] = -kInfinity;
  SamplerScratch scratch(kVocab);
  for (size_t row = 0; row < rows.size(); ++row) {
    for (const float temperature : {0.0F, 0.8F, 2.0F}) {
      for (const float top_p : {1.0F, 0.95F, 0.3F}) {
        for (const int32_t top_k : {0, 40, 2500}) {
          for (const float min_p : {0.0F, 0.02F}) {
            const SamplingParams params{.temperature = temperature,
                                        .top_p = top_p,
                                        .top_k = top_k,
                                        .seed = row,
                                        .min_p = min_p};
            const RequestSampler sampler(params, kVocab, {});
            for (uint64_t position = 0; position < 3; ++position) {
              const SamplePoint point{.position = position};
              EXPECT_EQ(sampler.Sample(rows[row], point, scratch).value().token,
                        SampleBySorting(rows[row], params, position))
                  << "row " << row << ", temperature " << temperature << ", top_p " << top_p
                  << ", top_k " << top_k << ", min_p " << min_p;
            }
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace erne
