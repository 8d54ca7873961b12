#include "formats/int8.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include <gtest/gtest.h>

namespace erne {
namespace {

// A float matrix that owns its bytes.
struct Floats {
  Floats(int64_t rows, int64_t cols, uint32_t seed) : values(static_cast<size_t>(rows * cols)) {
    std::mt19937 random(seed);
    std::uniform_real_distribution<float> uniform(-2, 3);
    for (float& v : values) v = uniform(random);
    view = {DType::kF32, {rows, cols}, reinterpret_cast<const std::byte*>(values.data())};
  }
  std::vector<float> values;
  TensorView view;
};

TEST(Int8, RoundsWithinHalfAStep) {
  const Floats m(5, 300, 1);
  const Int8Matrix q = QuantizeInt8(m.view, 1, 3, 128);
  EXPECT_EQ(q.rows, 3);
  EXPECT_EQ(q.groups(), 3);  // 128, 128, 44
  std::vector<float> row(300);
  for (int64_t r = 0; r < 3; ++r) {
    DequantizeRow(q, r, row);
    for (int64_t c = 0; c < 300; ++c) {
      const float w = m.values[static_cast<size_t>((r + 1) * 300 + c)];
      const float scale = q.scales[static_cast<size_t>(r * 3 + c / 128)];
      // Half a step, and the roundings of the reciprocal, the product and the way back.
      EXPECT_NEAR(row[static_cast<size_t>(c)], w, 0.5 * scale + 4 * 0x1p-24 * std::abs(w));
    }
  }
}

TEST(Int8, TiesGoToEven) {
  Floats m(1, 4, 1);
  m.values = {127, 0.5F, 1.5F, -2.5F};
  const Int8Matrix q = QuantizeInt8(m.view, 0, 1, 4);
  EXPECT_EQ(q.scales[0], 1);
  EXPECT_EQ(q.q, (std::vector<int8_t>{127, 0, 2, -2}));
}

TEST(Int4, RoundsWithinHalfAStepAndKeepsZero) {
  Floats m(4, 64, 2);
  m.values[70] = 0;
  const Int4Matrix q = QuantizeInt4(m.view, 0, 4, 32);
  std::vector<float> row(64);
  for (int64_t r = 0; r < 4; ++r) {
    DequantizeRow(q, r, row);
    for (int64_t c = 0; c < 64; ++c) {
      const float w = m.values[static_cast<size_t>(r * 64 + c)];
      const float scale = q.scales[static_cast<size_t>(r * 2 + c / 32)];
      // Half a step of w, and at the ends half a step by which the zero was rounded.
      EXPECT_NEAR(row[static_cast<size_t>(c)], w, 1.0 * scale + 1e-5);
      if (w == 0) {
        EXPECT_EQ(row[static_cast<size_t>(c)], 0);
      }
    }
  }
}

TEST(Int4, OfOneSignIncludesZero) {
  Floats m(1, 4, 1);
  m.values = {15, 1, 2, 7};
  const Int4Matrix q = QuantizeInt4(m.view, 0, 1, 4);
  EXPECT_EQ(q.scales[0], 1);
  EXPECT_EQ(q.zeros[0], 0);
  EXPECT_EQ(q.q, (std::vector<uint8_t>{0x1F, 0x72}));
}

TEST(Quantize, ZerosAndTinyNumbersBecomeZero) {
  Floats m(1, 4, 1);
  m.values = {0, 1e-35F, 0, -1e-35F};
  std::vector<float> row(4, 1);
  DequantizeRow(QuantizeInt8(m.view, 0, 1, 4), 0, row);
  EXPECT_EQ(row, std::vector<float>(4, 0));
  row.assign(4, 1);
  DequantizeRow(QuantizeInt4(m.view, 0, 1, 4), 0, row);
  EXPECT_EQ(row, std::vector<float>(4, 0));
}

TEST(Quantize, WhatIsNotFiniteShowsItself) {
  for (const float bad : {std::numeric_limits<float>::infinity(),
                          std::numeric_limits<float>::quiet_NaN()}) {
    Floats m(1, 8, 1);
    m.values[5] = bad;
    std::vector<float> row(8);
    DequantizeRow(QuantizeInt8(m.view, 0, 1, 4), 0, row);
    EXPECT_TRUE(std::isfinite(row[0]) && std::isnan(row[4]));
    DequantizeRow(QuantizeInt4(m.view, 0, 1, 4), 0, row);
    EXPECT_TRUE(std::isfinite(row[0]) && std::isnan(row[4]));
  }
}

TEST(Quantize, FindsAGroup) {
  EXPECT_EQ(Int4GroupFor(1024, 64), 64);
  EXPECT_EQ(Int4GroupFor(96, 64), 48);
  EXPECT_EQ(Int4GroupFor(16, 64), 16);
  EXPECT_EQ(Int4GroupFor(14, 64), 0);
  EXPECT_EQ(Int4GroupFor(1018, 64), 0);  // 2 x 509
  EXPECT_EQ(Int4GroupFor(7, 64), 0);
}

}  // namespace
}  // namespace erne
