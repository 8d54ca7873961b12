#include "moe/routing.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>
#include <set>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace erne {
namespace {

using ::testing::ElementsAre;
using ::testing::FloatNear;

struct Routed {
  std::vector<int32_t> ids;
  std::vector<float> weights;
};

Routed Route(const RoutingSpec& spec, const std::vector<float>& logits,
             const std::vector<float>& bias = {}) {
  Routed routed{std::vector<int32_t>(spec.top_k), std::vector<float>(spec.top_k)};
  std::vector<float> scratch(2 * spec.experts);
  RouteToken(spec, logits, bias, routed.ids, routed.weights, scratch);
  return routed;
}

// The rule once more, in double and with a sort. Also the gap between the last chosen score and the
// best one left out, and the smallest gap among the chosen: below the rounding of float32 either
// order is right.
struct Expected {
  std::vector<int32_t> ids;
  std::vector<double> weights;
  double smallest_gap = std::numeric_limits<double>::infinity();
};

Expected RouteInDouble(const RoutingSpec& spec, const std::vector<float>& logits,
                       const std::vector<float>& bias) {
  std::vector<double> p(logits.begin(), logits.end());
  const double largest = *std::max_element(p.begin(), p.end());
  for (double& value : p) value = std::exp(value - largest);
  const double sum = std::accumulate(p.begin(), p.end(), 0.0);
  for (double& value : p) value /= sum;
  std::vector<double> scores = p;
  for (size_t e = 0; e < bias.size(); ++e) scores[e] += bias[e];
  std::vector<int32_t> order(p.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](int32_t a, int32_t b) { return scores[a] > scores[b]; });
  Expected expected;
  for (int64_t i = 0; i < spec.top_k; ++i) {
    expected.ids.push_back(order[i]);
    expected.weights.push_back(p[order[i]]);
    if (i + 1 < spec.experts) {
      expected.smallest_gap =
          std::min(expected.smallest_gap, scores[order[i]] - scores[order[i + 1]]);
    }
  }
  if (spec.renormalize) {
    const double total = std::accumulate(expected.weights.begin(), expected.weights.end(), 0.0);
    for (double& weight : expected.weights) weight /= std::max(total, spec.norm_min);
  }
  return expected;
}

TEST(RouteToken, ChoosesTheLargestAndRenormalises) {
  const RoutingSpec spec{.experts = 4, .top_k = 2};
  const Routed routed =
      Route(spec, {std::log(1.0F), std::log(5.0F), std::log(1.0F), std::log(3.0F)});
  EXPECT_THAT(routed.ids, ElementsAre(1, 3));
  EXPECT_THAT(routed.weights, ElementsAre(FloatNear(0.625F, 1e-6F), FloatNear(0.375F, 1e-6F)));
}

TEST(RouteToken, WithoutRenormalisingTheWeightsAreTheProbabilities) {
  const RoutingSpec spec{.experts = 4, .top_k = 2, .renormalize = false};
  const Routed routed =
      Route(spec, {std::log(1.0F), std::log(5.0F), std::log(1.0F), std::log(3.0F)});
  EXPECT_THAT(routed.weights, ElementsAre(FloatNear(0.5F, 1e-6F), FloatNear(0.3F, 1e-6F)));
}

TEST(RouteToken, TheBiasSelectsButNeverWeights) {
  const RoutingSpec spec{.experts = 4, .top_k = 2, .correction_bias = true, .norm_min = 1e-12};
  const std::vector<float> logits = {std::log(1.0F), std::log(5.0F), std::log(1.0F),
                                     std::log(3.0F)};
  // The choice stays, though its order turns: the weights follow their experts unchanged.
  const Routed same = Route(spec, logits, {0.0F, 0.0F, 0.0F, 0.4F});
  EXPECT_THAT(same.ids, ElementsAre(3, 1));
  EXPECT_THAT(same.weights, ElementsAre(FloatNear(0.375F, 1e-6F), FloatNear(0.625F, 1e-6F)));
  // Expert 2 (p = 0.1) comes in by its bias of 1, and weighs 0.1 / (0.1 + 0.5), not 1.1.
  const Routed moved = Route(spec, logits, {0.0F, 0.0F, 1.0F, 0.0F});
  EXPECT_THAT(moved.ids, ElementsAre(2, 1));
  EXPECT_THAT(moved.weights, ElementsAre(FloatNear(1.0F / 6, 1e-6F), FloatNear(5.0F / 6, 1e-6F)));
}

TEST(RouteToken, TiesGoToTheLowerIndex) {
  const RoutingSpec spec{.experts = 6, .top_k = 3};
  EXPECT_THAT(Route(spec, std::vector<float>(6, 1.5F)).ids, ElementsAre(0, 1, 2));
  EXPECT_THAT(Route(spec, {0, 2, 1, 2, 1, 2}).ids, ElementsAre(1, 3, 5));
  EXPECT_THAT(Route(spec, {0, 1, 2, 1, 0, 1}).ids, ElementsAre(2, 1, 3));
}

TEST(RouteToken, NormMinBoundsTheDivisor) {
  // The bias forces in two experts whose probabilities underflow to zero: 0 / norm_min, not 0 / 0.
  const RoutingSpec spec{.experts = 3, .top_k = 2, .correction_bias = true, .norm_min = 1e-12};
  const Routed zero = Route(spec, {200.0F, 0.0F, 0.0F}, {-9.0F, 0.0F, 0.0F});
  EXPECT_THAT(zero.ids, ElementsAre(1, 2));
  EXPECT_THAT(zero.weights, ElementsAre(0.0F, 0.0F));
  // A divisor larger than the sum shrinks the weights.
  const RoutingSpec large{.experts = 2, .top_k = 1, .norm_min = 2.0};
  EXPECT_THAT(Route(large, {0.0F, -100.0F}).weights, ElementsAre(0.5F));
}

TEST(RouteToken, AllExpertsMayBeChosen) {
  const RoutingSpec spec{.experts = 3, .top_k = 3};
  EXPECT_THAT(Route(spec, {1, 3, 2}).ids, ElementsAre(1, 2, 0));
  EXPECT_THAT(Route({.experts = 1, .top_k = 1}, {-7}).weights, ElementsAre(1.0F));
}

TEST(RouteToken, HugeAndBrokenLogitsGiveDistinctExperts) {
  const RoutingSpec spec{.experts = 5, .top_k = 3};
  EXPECT_THAT(Route(spec, {3e38F, -3e38F, 0, 3e38F, 0}).ids, ElementsAre(0, 3, 1));
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<int32_t> ids = Route(spec, {nan, 1, nan, 2, nan}).ids;
  EXPECT_EQ(std::set<int32_t>(ids.begin(), ids.end()).size(), 3U);
}

TEST(RouteToken, AgreesWithTheRuleInDouble) {
  std::mt19937 random(7);
  std::normal_distribution<float> normal(0.0F, 1.5F);
  int compared = 0;
  for (int round = 0; round < 3000; ++round) {
    RoutingSpec spec;
    spec.experts = 1 + static_cast<int64_t>(random() % 64);
    spec.top_k = 1 + static_cast<int64_t>(random() % spec.experts);
    spec.correction_bias = random() % 2 == 0;
    spec.renormalize = random() % 4 != 0;
    spec.norm_min = 1e-12;
    std::vector<float> logits(spec.experts);
    for (float& logit : logits) logit = normal(random);
    std::vector<float> bias(spec.correction_bias ? spec.experts : 0);
    for (float& value : bias) value = 0.05F * normal(random);
    const Routed routed = Route(spec, logits, bias);
    const Expected expected = RouteInDouble(spec, logits, bias);
    // p of up to 64 experts in float32: at most 64 additions, one exp and one division, 2^-24
    // relative each, of values below 1; and a rounding of p + bias.
    constexpr double kBound = 70.0 / (1 << 24);
    if (expected.smallest_gap < 2 * kBound) continue;
    ++compared;
    ASSERT_EQ(routed.ids, expected.ids);
    for (int64_t i = 0; i < spec.top_k; ++i) {
      ASSERT_NEAR(routed.weights[i], expected.weights[i], 2 * kBound * (1 + expected.weights[i]));
    }
  }
  EXPECT_GT(compared, 2000);
}

}  // namespace
}  // namespace erne
