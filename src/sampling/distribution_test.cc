// How often a sampler returns each token, against the exact distribution, by Pearson's chi-square
// test. Seeds are fixed, so a failure is a change of behaviour and never bad luck; the limit p >
// 1e-4 leaves room for the fixed seeds to be slightly unlucky, and a wrong rule fails it by many
// orders.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "sampling/sampler.h"

namespace erne {
namespace {

// P(X > x) for chi-square with k degrees of freedom: the regularised upper incomplete gamma
// function Q(k/2, x/2), by its series or its continued fraction (Abramowitz & Stegun 6.5.29
// and 6.5.31).
double ChiSquareTail(double x, int k) {
  const double a = 0.5 * k;
  const double z = 0.5 * x;
  if (z <= 0) return 1;
  const double scale = std::exp(a * std::log(z) - z - std::lgamma(a));
  if (z < a + 1) {
    double term = 1 / a;
    double sum = term;
    for (int n = 1; n < 10000; ++n) {
      term *= z / (a + n);
      sum += term;
    }
    return 1 - sum * scale;
  }
  double fraction = 0;
  for (int n = 2000; n > 0; --n) fraction = n * (n - a) / (2 * n + 1 + z - a - fraction);
  return scale / (z + 1 - a - fraction);
}

TEST(ChiSquareTail, KnownValues) {
  // Upper 5 % and 0.1 % points from the usual table.
  EXPECT_NEAR(ChiSquareTail(3.841, 1), 0.05, 1e-4);
  EXPECT_NEAR(ChiSquareTail(18.307, 10), 0.05, 1e-4);
  EXPECT_NEAR(ChiSquareTail(124.342, 100), 0.05, 1e-4);
  EXPECT_NEAR(ChiSquareTail(29.588, 10), 0.001, 1e-5);
  EXPECT_NEAR(ChiSquareTail(9.342, 10), 0.5, 1e-4);
}

// The rules of sampler.h, done the slow and obvious way: sort everything, in double.
std::vector<double> ExactDistribution(const std::vector<float>& logits,
                                      const SamplingParams& params,
                                      const std::vector<int32_t>& output) {
  const size_t vocab = logits.size();
  std::vector<double> scaled(logits.begin(), logits.end());
  for (const auto& [token, bias] : params.logit_bias) scaled[static_cast<size_t>(token)] += bias;
  for (const int32_t token : std::set<int32_t>(output.begin(), output.end())) {
    double& logit = scaled[static_cast<size_t>(token)];
    logit = logit > 0 ? logit / params.repetition_penalty : logit * params.repetition_penalty;
    logit -= params.presence_penalty;
    logit -= params.frequency_penalty *
             static_cast<double>(std::count(output.begin(), output.end(), token));
  }
  for (double& logit : scaled) logit /= params.temperature;
  std::vector<size_t> order(vocab);
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return scaled[a] > scaled[b]; });
  if (params.top_k > 0) order.resize(std::min(vocab, static_cast<size_t>(params.top_k)));
  const double largest = scaled[order[0]];
  std::erase_if(order, [&](size_t i) {
    return std::exp(scaled[i] - largest) < static_cast<double>(params.min_p);
  });
  double sum = 0;
  for (const size_t i : order) sum += std::exp(scaled[i] - largest);
  std::vector<double> probability(vocab, 0.0);
  double before = 0;
  for (const size_t i : order) {
    if (before >= static_cast<double>(params.top_p)) break;
    probability[i] = std::exp(scaled[i] - largest) / sum;
    before += probability[i];
  }
  for (double& p : probability) p /= before;
  return probability;
}

struct Case {
  std::string name;
  SamplingParams params;
  size_t vocab = 0;
  float spread = 0;                  // standard deviation of the logits
  std::vector<int32_t> output = {};  // for penalties
};

// Draws at `draws` positions and returns the p-value; tokens expected fewer than 5 times share one
// bin. A token of probability 0 that comes out fails at once.
double PValue(const Case& test, int draws) {
  std::mt19937 random(20240611);
  std::normal_distribution<float> normal(0.0F, test.spread);
  std::vector<float> logits(test.vocab);
  for (float& logit : logits) logit = normal(random);
  const auto vocab = static_cast<int64_t>(test.vocab);
  SamplerScratch scratch(vocab);
  RequestSampler sampler(test.params, vocab, {});
  for (const int32_t token : test.output) sampler.Accept(token);

  std::vector<int> counts(test.vocab, 0);
  for (int i = 0; i < draws; ++i) {
    const SamplePoint point{.position = static_cast<uint64_t>(i), .output = test.output};
    ++counts[static_cast<size_t>(sampler.Sample(logits, point, scratch).value().token)];
  }
  const std::vector<double> exact = ExactDistribution(logits, test.params, test.output);
  double chi_square = 0;
  int bins = 0;
  double rest_expected = 0;
  double rest_count = 0;
  for (size_t i = 0; i < test.vocab; ++i) {
    const double expected = exact[i] * draws;
    if (exact[i] == 0) {
      EXPECT_EQ(counts[i], 0) << test.name << ": token " << i << " was filtered out";
    }
    if (expected < 5) {
      rest_expected += expected;
      rest_count += counts[i];
      continue;
    }
    chi_square += (counts[i] - expected) * (counts[i] - expected) / expected;
    ++bins;
  }
  if (rest_expected >= 5) {
    chi_square += (rest_count - rest_expected) * (rest_count - rest_expected) / rest_expected;
    ++bins;
  }
  EXPECT_GT(bins, 1) << test.name;
  return ChiSquareTail(chi_square, bins - 1);
}

class Distribution : public testing::TestWithParam<Case> {};

TEST_P(Distribution, FrequenciesMatchTheExactProbabilities) {
  for (const uint64_t seed : {0ULL, 1ULL, 0xDEADBEEFCAFEULL}) {
    Case test = GetParam();
    test.params.seed = seed;
    EXPECT_GT(PValue(test, 20000), 1e-4) << "seed " << seed;
  }
}

std::vector<Case> Cases() {
  const std::vector<int32_t> some = {0, 3, 5, 8, 13, 21, 34, 40, 41, 42, 5, 5, 41};
  return {
      {"plain", {}, 50, 1.5F},
      {"uniform", {}, 64, 0.0F},
      {"two_tokens", {}, 2, 0.5F},
      {"cold", {.temperature = 0.5F}, 50, 1.5F},
      {"hot", {.temperature = 2.0F}, 50, 1.5F},
      {"top_k", {.top_k = 7}, 50, 1.5F},
      {"top_p", {.top_p = 0.8F}, 50, 1.5F},
      {"top_p_flat", {.top_p = 0.9F}, 200, 0.1F},
      {"top_k_top_p", {.top_p = 0.7F, .top_k = 12}, 50, 1.5F},
      {"repetition", {.repetition_penalty = 1.3F}, 50, 1.5F, some},
      {"repetition_reward", {.repetition_penalty = 0.7F}, 50, 1.5F, some},
      {"min_p", {.min_p = 0.1F}, 50, 1.5F},
      {"presence", {.presence_penalty = 0.8F}, 50, 1.5F, some},
      {"frequency", {.frequency_penalty = 0.4F}, 50, 1.5F, some},
      {"negative_counts", {.presence_penalty = -0.5F, .frequency_penalty = -0.3F}, 50, 1.5F, some},
      {"logit_bias", {.logit_bias = {{3, 2.0F}, {7, -1.5F}, {20, -100.0F}}}, 50, 1.0F},
      {"common",
       {.temperature = 0.8F, .top_p = 0.8F, .top_k = 20, .repetition_penalty = 1.15F},
       50,
       1.5F,
       some},
      {"everything",
       {.temperature = 1.2F,
        .top_p = 0.95F,
        .top_k = 30,
        .repetition_penalty = 1.1F,
        .min_p = 0.02F,
        .presence_penalty = 0.3F,
        .frequency_penalty = 0.2F,
        .logit_bias = {{1, 1.0F}, {2, -1.0F}}},
       50,
       1.5F,
       some},
      {"large_vocabulary", {.temperature = 0.8F, .top_p = 0.95F}, 3000, 2.5F},
  };
}

INSTANTIATE_TEST_SUITE_P(All, Distribution, testing::ValuesIn(Cases()),
                         [](const auto& test) { return test.param.name; });

// Draws at neighbouring positions and neighbouring seeds are independent: pairs are uniform over
// the square.
TEST(Draws, NeighboursAreIndependent) {
  const std::vector<float> logits(8, 0.0F);
  SamplerScratch scratch(8);
  const auto draw = [&](uint64_t seed, uint64_t position) {
    const RequestSampler sampler({.seed = seed}, 8, {});
    return static_cast<size_t>(
        sampler.Sample(logits, {.position = position}, scratch).value().token);
  };
  for (const bool by_seed : {false, true}) {
    const int pairs = 64000;
    std::vector<int> counts(64, 0);
    for (uint64_t i = 0; i < pairs; ++i) {
      ++counts[by_seed ? draw(2 * i, 5) * 8 + draw(2 * i + 1, 5)
                       : draw(5, 2 * i) * 8 + draw(5, 2 * i + 1)];
    }
    double chi_square = 0;
    for (const int count : counts) chi_square += (count - 1000.0) * (count - 1000.0) / 1000.0;
    EXPECT_GT(ChiSquareTail(chi_square, 63), 1e-4) << by_seed;
  }
}

}  // namespace
}  // namespace erne
