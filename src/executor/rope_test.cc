#include "executor/rope.h"

#include <cmath>
#include <numbers>
#include <numeric>
#include <random>
#include <vector>

#include <gtest/gtest.h>

namespace erne {
namespace {

std::vector<float> Rotated(const Rope& rope, int64_t position, std::vector<float> head) {
  std::vector<float> cos(rope.pairs());
  std::vector<float> sin(rope.pairs());
  rope.Angles(position, cos, sin);
  rope.Rotate(cos, sin, head);
  return head;
}

TEST(Rope, FrequenciesFallFromOneByPowersOfTheta) {
  const Rope rope({.theta = 500000.0}, 128);
  ASSERT_EQ(rope.pairs(), 64);
  EXPECT_EQ(rope.frequencies()[0], 1.0F);
  for (int i = 0; i < 64; ++i) {
    const double exact = std::pow(500000.0, -2.0 * i / 128);
    // Roundings in float32: the exponent (scaled by ln theta = 13.1), pow and the division.
    EXPECT_NEAR(rope.frequencies()[i], exact, exact * 16 / (1 << 24));
  }
}

TEST(Rope, TheTwoStylesRotateDifferentPairs) {
  // One pair turns by `position` radians, the other by position / 10.
  const RopeSpec interleaved{.style = RopeStyle::kInterleaved, .theta = 100.0};
  const RopeSpec halves{.style = RopeStyle::kHalves, .theta = 100.0};
  const auto c = [](double x) { return static_cast<float>(std::cos(x)); };
  const auto s = [](double x) { return static_cast<float>(std::sin(x)); };
  const std::vector<float> a = Rotated(Rope(interleaved, 4), 3, {1, 0, 0, 1});
  EXPECT_NEAR(a[0], c(3), 1e-6);
  EXPECT_NEAR(a[1], s(3), 1e-6);
  EXPECT_NEAR(a[2], -s(0.3), 1e-6);
  EXPECT_NEAR(a[3], c(0.3), 1e-6);
  const std::vector<float> b = Rotated(Rope(halves, 4), 3, {1, 0, 0, 1});
  EXPECT_NEAR(b[0], c(3), 1e-6);
  EXPECT_NEAR(b[2], s(3), 1e-6);
  EXPECT_NEAR(b[1], -s(0.3), 1e-6);
  EXPECT_NEAR(b[3], c(0.3), 1e-6);
}

TEST(Rope, PositionZeroChangesNothing) {
  const std::vector<float> head = {1, -2, 3, -4, 5, -6, 7, -8};
  EXPECT_EQ(Rotated(Rope({.style = RopeStyle::kInterleaved}, 8), 0, head), head);
  EXPECT_EQ(Rotated(Rope({.style = RopeStyle::kHalves}, 8), 0, head), head);
}

// What rope is for: q at position m and k at position n see the distance m - n alone.
TEST(Rope, DotProductsDependOnTheDistance) {
  std::mt19937 random(3);
  std::normal_distribution<float> normal;
  for (const RopeStyle style : {RopeStyle::kInterleaved, RopeStyle::kHalves}) {
    const Rope rope({.style = style}, 16);
    std::vector<float> q(16);
    std::vector<float> k(16);
    for (float& value : q) value = normal(random);
    for (float& value : k) value = normal(random);
    const auto dot = [&](int64_t m, int64_t n) {
      const std::vector<float> qm = Rotated(rope, m, q);
      const std::vector<float> kn = Rotated(rope, n, k);
      return std::inner_product(qm.begin(), qm.end(), kn.begin(), 0.0);
    };
    EXPECT_NEAR(dot(7, 2), dot(105, 100), 1e-4);
    EXPECT_GT(std::abs(dot(7, 2) - dot(7, 3)), 1e-3);
  }
}

TEST(Rope, Llama3StretchesLongWavesAndKeepsShortOnes) {
  const RopeSpec plain{.theta = 10000.0};
  RopeSpec scaled = plain;
  scaled.scaling = RopeScaling::kLlama3;
  scaled.factor = 8.0;
  scaled.low_freq_factor = 1.0;
  scaled.high_freq_factor = 4.0;
  scaled.original_max_positions = 512;
  const Rope before(plain, 64);
  const Rope after(scaled, 64);
  int kept = 0;
  int stretched = 0;
  int blended = 0;
  for (int64_t i = 0; i < 32; ++i) {
    const double f = before.frequencies()[i];
    const double turns = 512 * f / (2 * std::numbers::pi);  // over the original context
    double expected = 0;
    if (turns < 1.0) {
      expected = f / 8;
      ++stretched;
    } else if (turns > 4.0) {
      expected = f;
      ++kept;
    } else {
      const double smooth = (turns - 1.0) / 3.0;
      expected = (1 - smooth) * f / 8 + smooth * f;
      ++blended;
    }
    EXPECT_NEAR(after.frequencies()[i], expected, expected * 1e-6);
  }
  EXPECT_GT(kept, 0);
  EXPECT_GT(stretched, 0);
  EXPECT_GT(blended, 0);
}

}  // namespace
}  // namespace erne
