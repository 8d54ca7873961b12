#include "formats/int4.h"

#include <cstring>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "formats/safetensors_builder.h"

namespace erne {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// A random matrix as quantisers see it, before any packing.
struct PlainInt4 {
  int64_t rows, cols, group;
  std::vector<int> q;                // [rows, cols], by input feature
  std::vector<int> zeros;            // [rows, groups]
  std::vector<uint16_t> scale_bits;  // [rows, groups], f16
  std::vector<int32_t> group_of;     // [cols]

  int64_t groups() const { return cols / group; }
  float Weight(int64_t r, int64_t c) const {
    const int64_t g = group_of[c];
    return static_cast<float>(q[r * cols + c] - zeros[r * groups() + g]) *
           F16ToFloat(scale_bits[r * groups() + g]);
  }
};

PlainInt4 RandomMatrix(int64_t rows, int64_t cols, int64_t group, bool act_order, uint32_t seed) {
  std::mt19937 random(seed);
  PlainInt4 plain{rows, cols, group, {}, {}, {}, {}};
  for (int64_t i = 0; i < rows * cols; ++i) plain.q.push_back(static_cast<int>(random() % 16));
  for (int64_t i = 0; i < rows * plain.groups(); ++i) {
    plain.zeros.push_back(static_cast<int>(random() % 16));
    plain.scale_bits.push_back(FloatToF16(0.001F * static_cast<float>(1 + random() % 1000)));
  }
  for (int64_t c = 0; c < cols; ++c) plain.group_of.push_back(static_cast<int32_t>(c / group));
  if (act_order) std::shuffle(plain.group_of.begin(), plain.group_of.end(), random);
  return plain;
}

// A tensor with its bytes, stored one byte off any alignment.
struct OwnedTensor {
  std::vector<std::byte> bytes;
  TensorView view;

  template <typename T>
  OwnedTensor(DType dtype, Shape shape, const std::vector<T>& values)
      : bytes(1 + values.size() * sizeof(T)) {
    std::memcpy(bytes.data() + 1, values.data(), values.size() * sizeof(T));
    view = {dtype, std::move(shape), bytes.data() + 1};
  }
  OwnedTensor(OwnedTensor&& other) = default;
};

struct Packed {
  OwnedTensor qweight, qzeros, scales, g_idx;
};

// [groups, rows]
std::vector<uint16_t> ScalesByGroup(const PlainInt4& plain) {
  std::vector<uint16_t> out;
  for (int64_t g = 0; g < plain.groups(); ++g) {
    for (int64_t r = 0; r < plain.rows; ++r)
      out.push_back(plain.scale_bits[r * plain.groups() + g]);
  }
  return out;
}

// AutoAWQ: for each word, output feature 8w + order[i] goes to bits 4i.
Packed PackAwq(const PlainInt4& plain) {
  constexpr int kOrder[] = {0, 2, 4, 6, 1, 3, 5, 7};
  const auto pack = [&](int64_t lines, auto value) {
    std::vector<uint32_t> words;
    for (int64_t line = 0; line < lines; ++line) {
      for (int64_t w = 0; w < plain.rows / 8; ++w) {
        uint32_t word = 0;
        for (int i = 0; i < 8; ++i)
          word |= static_cast<uint32_t>(value(line, 8 * w + kOrder[i])) << (4 * i);
        words.push_back(word);
      }
    }
    return words;
  };
  const auto q =
      pack(plain.cols, [&](int64_t c, int64_t r) { return plain.q[r * plain.cols + c]; });
  const auto z = pack(plain.groups(),
                      [&](int64_t g, int64_t r) { return plain.zeros[r * plain.groups() + g]; });
  return {OwnedTensor(DType::kI32, {plain.cols, plain.rows / 8}, q),
          OwnedTensor(DType::kI32, {plain.groups(), plain.rows / 8}, z),
          OwnedTensor(DType::kF16, {plain.groups(), plain.rows}, ScalesByGroup(plain)),
          OwnedTensor(DType::kI32, {plain.cols}, plain.group_of)};
}

// AutoGPTQ: input feature 8w + i goes to bits 4i of word [w, r]; zeros along the outputs, less one
// in the first format.
Packed PackGptq(const PlainInt4& plain, GptqZeros zeros) {
  std::vector<uint32_t> q(static_cast<size_t>(plain.cols / 8 * plain.rows));
  for (int64_t r = 0; r < plain.rows; ++r) {
    for (int64_t c = 0; c < plain.cols; ++c) {
      q[c / 8 * plain.rows + r] |= static_cast<uint32_t>(plain.q[r * plain.cols + c])
                                   << (4 * (c % 8));
    }
  }
  std::vector<uint32_t> z(static_cast<size_t>(plain.groups() * plain.rows / 8));
  for (int64_t g = 0; g < plain.groups(); ++g) {
    for (int64_t r = 0; r < plain.rows; ++r) {
      const int zero = plain.zeros[r * plain.groups() + g];
      const int stored = zeros == GptqZeros::kPlain ? zero : (zero + 15) % 16;
      z[g * (plain.rows / 8) + r / 8] |= static_cast<uint32_t>(stored) << (4 * (r % 8));
    }
  }
  return {OwnedTensor(DType::kI32, {plain.cols / 8, plain.rows}, q),
          OwnedTensor(DType::kI32, {plain.groups(), plain.rows / 8}, z),
          OwnedTensor(DType::kF16, {plain.groups(), plain.rows}, ScalesByGroup(plain)),
          OwnedTensor(DType::kI32, {plain.cols}, plain.group_of)};
}

void ExpectSame(const PlainInt4& plain, const Int4Matrix& matrix) {
  ASSERT_EQ(matrix.rows, plain.rows);
  ASSERT_EQ(matrix.cols, plain.cols);
  ASSERT_EQ(matrix.group, plain.group);
  ASSERT_EQ(static_cast<int64_t>(matrix.q.size()), plain.rows * plain.cols / 2);
  ASSERT_EQ(static_cast<int64_t>(matrix.scales.size()), plain.rows * plain.groups());
  ASSERT_EQ(static_cast<int64_t>(matrix.zeros.size()), plain.rows * plain.groups());
  std::vector<float> row(static_cast<size_t>(plain.cols));
  for (int64_t r = 0; r < plain.rows; ++r) {
    DequantizeRow(matrix, r, row);
    for (int64_t c = 0; c < plain.cols; ++c)
      ASSERT_EQ(row[c], plain.Weight(r, c)) << r << ", " << c;
  }
}

struct Size {
  int64_t rows, cols, group;
};
constexpr Size kSizes[] = {{8, 8, 8},      {8, 64, 32},  {64, 32, 32}, {136, 64, 16},
                           {256, 128, 64}, {24, 96, 96}, {16, 24, 2},  {1032, 8, 4}};

TEST(Int4, AwqMatchesAnIndependentPacker) {
  for (const Size& size : kSizes) {
    const PlainInt4 plain = RandomMatrix(size.rows, size.cols, size.group, false, 1);
    const Packed packed = PackAwq(plain);
    const auto matrix =
        UnpackAwq("m", packed.qweight.view, packed.qzeros.view, packed.scales.view, size.group);
    ASSERT_TRUE(matrix.ok()) << matrix.status().message();
    EXPECT_TRUE(matrix->input_order.empty());
    ExpectSame(plain, *matrix);
  }
}

TEST(Int4, GptqMatchesAnIndependentPacker) {
  for (const Size& size : kSizes) {
    for (const GptqZeros zeros : {GptqZeros::kMinusOne, GptqZeros::kPlain}) {
      const PlainInt4 plain = RandomMatrix(size.rows, size.cols, size.group, false, 2);
      const Packed packed = PackGptq(plain, zeros);
      for (const TensorView* g_idx :
           {static_cast<const TensorView*>(nullptr), &packed.g_idx.view}) {
        const auto matrix = UnpackGptq("m", packed.qweight.view, packed.qzeros.view,
                                       packed.scales.view, g_idx, size.group, zeros);
        ASSERT_TRUE(matrix.ok()) << matrix.status().message();
        EXPECT_TRUE(matrix->input_order.empty());
        ExpectSame(plain, *matrix);
      }
    }
  }
}

TEST(Int4, GptqActOrder) {
  for (const Size& size : kSizes) {
    const PlainInt4 plain = RandomMatrix(size.rows, size.cols, size.group, true, 3);
    const Packed packed = PackGptq(plain, GptqZeros::kMinusOne);
    const auto matrix = UnpackGptq("m", packed.qweight.view, packed.qzeros.view, packed.scales.view,
                                   &packed.g_idx.view, size.group, GptqZeros::kMinusOne);
    ASSERT_TRUE(matrix.ok()) << matrix.status().message();
    ExpectSame(plain, *matrix);
    if (size.group == size.cols) {
      EXPECT_TRUE(matrix->input_order.empty());
      continue;
    }
    // Groups are runs of stored columns: the contract that kernels rely on.
    ASSERT_EQ(static_cast<int64_t>(matrix->input_order.size()), size.cols);
    for (int64_t c = 0; c < size.cols; ++c) {
      EXPECT_EQ(plain.group_of[matrix->input_order[c]], c / size.group);
    }
  }
}

TEST(Int4, ScalesOfEveryFloatType) {
  PlainInt4 plain = RandomMatrix(8, 16, 8, false, 4);
  for (uint16_t& bits : plain.scale_bits) bits = FloatToF16(0.125F);  // exact in all three types
  const Packed packed = PackAwq(plain);
  const OwnedTensor f32(DType::kF32, {2, 8}, std::vector<float>(16, 0.125F));
  const OwnedTensor bf16(DType::kBF16, {2, 8}, std::vector<uint16_t>(16, FloatToBf16(0.125F)));
  for (const OwnedTensor* scales : {&f32, &bf16}) {
    const auto matrix = UnpackAwq("m", packed.qweight.view, packed.qzeros.view, scales->view, 8);
    ASSERT_TRUE(matrix.ok()) << matrix.status().message();
    ExpectSame(plain, *matrix);
  }
}

TEST(Int4, AwqErrorsNameTensorAndShapes) {
  const Packed packed = PackAwq(RandomMatrix(16, 32, 8, false, 5));
  const auto fault = [&](auto change, int64_t group = 8) {
    TensorView qweight = packed.qweight.view;
    TensorView qzeros = packed.qzeros.view;
    TensorView scales = packed.scales.view;
    change(qweight, qzeros, scales);
    const auto result = UnpackAwq("layer.q", qweight, qzeros, scales, group);
    return result.ok() ? std::string("no fault") : result.status().message();
  };
  const auto nothing = [](auto&, auto&, auto&) {};
  EXPECT_EQ(fault(nothing), "no fault");
  EXPECT_THAT(fault([](auto& q, auto&, auto&) { q.dtype = DType::kF32; }),
              AllOf(HasSubstr("`layer.q.qweight`"), HasSubstr("F32"), HasSubstr("I32")));
  EXPECT_THAT(fault([](auto& q, auto&, auto&) { q.shape = {64}; }),
              HasSubstr("`layer.q.qweight` is [64]"));
  EXPECT_THAT(fault([](auto&, auto& z, auto&) { z.dtype = DType::kI16; }),
              HasSubstr("`layer.q.qzeros`"));
  EXPECT_THAT(fault([](auto&, auto& z, auto&) { z.shape = {2, 4}; }),
              AllOf(HasSubstr("`layer.q.qzeros`"), HasSubstr("[2, 4]"), HasSubstr("[4, 2]")));
  EXPECT_THAT(fault([](auto&, auto&, auto& s) { s.dtype = DType::kI16; }),
              HasSubstr("`layer.q.scales`"));
  EXPECT_THAT(fault([](auto&, auto&, auto& s) { s.shape = {16, 4}; }),
              AllOf(HasSubstr("`layer.q.scales`"), HasSubstr("[16, 4]"), HasSubstr("[4, 16]")));
  EXPECT_THAT(fault([](auto& q, auto&, auto&) { q.shape = {int64_t{1} << 40, 0}; }),
              HasSubstr("0 outputs"));
  EXPECT_THAT(fault([](auto& q, auto&, auto&) { q.shape = {0, 2}; }), HasSubstr("0 inputs"));
  for (const int64_t group : {0, -1, 1, 3, 5, 64})
    EXPECT_THAT(fault(nothing, group), HasSubstr("groups of")) << group;
}

TEST(Int4, GptqErrors) {
  const Packed packed = PackGptq(RandomMatrix(16, 32, 8, true, 6), GptqZeros::kPlain);
  std::vector<int32_t> groups(32);
  for (int i = 0; i < 32; ++i) groups[i] = i / 8;
  const auto fault = [&](const std::vector<int32_t>& g_idx) {
    const OwnedTensor tensor(DType::kI32, {static_cast<int64_t>(g_idx.size())}, g_idx);
    const auto result = UnpackGptq("m", packed.qweight.view, packed.qzeros.view, packed.scales.view,
                                   &tensor.view, 8, GptqZeros::kPlain);
    return result.ok() ? std::string("no fault") : result.status().message();
  };
  EXPECT_EQ(fault(groups), "no fault");
  for (const int32_t bad : {-1, 4, INT32_MAX, INT32_MIN}) {
    groups[5] = bad;
    EXPECT_THAT(fault(groups), AllOf(HasSubstr("`m.g_idx`"), HasSubstr("input 5"))) << bad;
  }
  groups[5] = 1;
  EXPECT_THAT(fault(groups), AllOf(HasSubstr("`m.g_idx`"), HasSubstr("more than 8")));
  groups.pop_back();
  EXPECT_THAT(fault(groups), AllOf(HasSubstr("[31]"), HasSubstr("[32]")));
  TensorView odd = packed.qweight.view;
  odd.shape = {4, 12};
  EXPECT_THAT(
      UnpackGptq("m", odd, packed.qzeros.view, packed.scales.view, nullptr, 8, GptqZeros::kPlain)
          .status()
          .message(),
      HasSubstr("12 outputs"));
}

TEST(Int4, Bytes) {
  const PlainInt4 plain = RandomMatrix(16, 32, 8, false, 7);
  const Packed packed = PackAwq(plain);
  const auto matrix =
      UnpackAwq("m", packed.qweight.view, packed.qzeros.view, packed.scales.view, 8);
  ASSERT_TRUE(matrix.ok());
  EXPECT_EQ(matrix->bytes(), 16U * 16 + 16 * 4 + 16 * 4 * 4);
}

}  // namespace
}  // namespace erne
