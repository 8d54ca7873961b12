#include "executor/kv_storage.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include "kv/block_pool.h"

namespace erne {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

std::vector<float> Rounded(KvDType dtype, std::vector<float> x) {
  RoundLikeKvCache(dtype, x);
  return x;
}

TEST(KvStorageTest, CountsBytes) {
  // ERNIE-4.5-0.3B: 2 kv heads of 128 in 18 layers.
  ModelSpec spec;
  spec.attention.kv_heads = 2;
  spec.attention.head_dim = 128;
  spec.layers.assign(18, FfnKind::kDense);
  EXPECT_EQ(KvBlockBytes(spec, KvDType::kF32), 16U * 36864);
  EXPECT_EQ(KvBlockBytes(spec, KvDType::kBF16), 16U * 18432);
  EXPECT_EQ(KvBlockBytes(spec, KvDType::kF16), 16U * 18432);
  EXPECT_EQ(KvBlockBytes(spec, KvDType::kInt8), 16U * (9216 + 18 * 2 * 8));
  // V is padded to 16.
  EXPECT_EQ(KvHeadBlockBytes(20, KvDType::kF32), 16 * (20 + 32) * 4);
  EXPECT_EQ(KvHeadBlockBytes(20, KvDType::kInt8), 16 * (20 + 32 + 8));
}

TEST(KvStorageTest, Float32KeepsEverything) {
  EXPECT_EQ(Rounded(KvDType::kF32, {0.1F, -3e38F, 1e-40F}),
            (std::vector<float>{0.1F, -3e38F, 1e-40F}));
}

TEST(KvStorageTest, HalfTypesRoundToNearestEven) {
  // 8 bits of significand: neighbours of 1 are 2^-7 apart; 11 bits: 2^-10.
  EXPECT_EQ(Rounded(KvDType::kBF16, {1 + 0x1p-8F, 1 + 0x3p-8F, 1 + 0x1.1p-8F}),
            (std::vector<float>{1, 1 + 0x2p-7F, 1 + 0x1p-7F}));
  EXPECT_EQ(Rounded(KvDType::kF16, {1 + 0x1p-11F, 1 + 0x3p-11F, 1 + 0x1.1p-11F, 0x1p-24F}),
            (std::vector<float>{1, 1 + 0x2p-10F, 1 + 0x1p-10F, 0x1p-24F}));
}

TEST(KvStorageTest, F16Saturates) {
  EXPECT_EQ(Rounded(KvDType::kF16, {65504, 65519, 65520, 1e30F, -kInfinity}),
            (std::vector<float>{65504, 65504, 65504, 65504, -65504}));
}

TEST(KvStorageTest, Int8IsWithinHalfAStepOfTheLargest) {
  std::vector<float> x;
  for (int i = -100; i <= 100; ++i) x.push_back(std::sin(static_cast<float>(i)) * 37);
  float largest = 0;
  for (const float value : x) largest = std::max(largest, std::abs(value));
  const std::vector<float> y = Rounded(KvDType::kInt8, x);
  // Half a step; x / scale and q * scale round once each: 2 of 127 * 2^-24 steps.
  const float bound = largest / 127 * (0.5F + 254 * 0x1p-24F);
  for (size_t i = 0; i < x.size(); ++i) EXPECT_NEAR(y[i], x[i], bound);
  EXPECT_EQ(Rounded(KvDType::kInt8, {127, -126.5F, 0.5F, 1.5F}),
            (std::vector<float>{127, -126, 0, 2}));
}

TEST(KvStorageTest, Int8OfNothingIsNothing) {
  EXPECT_EQ(Rounded(KvDType::kInt8, {0, -0.0F, 1e-38F}), (std::vector<float>{0, 0, 0}));
  EXPECT_NE(Rounded(KvDType::kInt8, {0, 1e-30F})[1], 0);
}

TEST(KvStorageTest, NanStaysNan) {
  for (const KvDType dtype : {KvDType::kF32, KvDType::kBF16, KvDType::kF16, KvDType::kInt8}) {
    EXPECT_TRUE(std::isnan(Rounded(dtype, {1, kNan, 2})[1])) << KvDTypeName(dtype);
  }
  for (const float broken : {kNan, kInfinity, -kInfinity}) {
    for (const float value : Rounded(KvDType::kInt8, {1, broken, 2})) {
      EXPECT_TRUE(std::isnan(value));
    }
  }
}

}  // namespace
}  // namespace erne
