#include "tensor/tensor.h"

#include <cstring>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace erne {
namespace {

using ::testing::ElementsAre;

// `values` stored one byte off any alignment.
template <typename T>
std::vector<std::byte> Unaligned(const std::vector<T>& values) {
  std::vector<std::byte> bytes(1 + values.size() * sizeof(T));
  std::memcpy(bytes.data() + 1, values.data(), values.size() * sizeof(T));
  return bytes;
}

TEST(Tensor, Shapes) {
  EXPECT_EQ(ShapeString({103424, 1024}), "[103424, 1024]");
  EXPECT_EQ(ShapeString({}), "[]");
  EXPECT_EQ(NumElements({}), 1);
  EXPECT_EQ(NumElements({3, 0, 5}), 0);
  EXPECT_EQ(NumElements({3, 4, 5}), 60);
  const TensorView view{.dtype = DType::kBF16, .shape = {3, 5}};
  EXPECT_EQ(view.elements(), 15);
  EXPECT_EQ(view.bytes(), 30U);
}

TEST(Tensor, ConvertsUnalignedElements) {
  const auto f32 = Unaligned<float>({1.5F, -2.0F, 3.25F});
  EXPECT_THAT(ToFloats({DType::kF32, {3}, f32.data() + 1}), ElementsAre(1.5F, -2.0F, 3.25F));
  const auto f16 = Unaligned<uint16_t>({0x3C00, 0xC000, 0x0001});
  EXPECT_THAT(ToFloats({DType::kF16, {3}, f16.data() + 1}), ElementsAre(1.0F, -2.0F, 0x1p-24F));
  const auto bf16 = Unaligned<uint16_t>({0x3F80, 0xC000, 0x0001});
  EXPECT_THAT(ToFloats({DType::kBF16, {3, 1}, bf16.data() + 1}),
              ElementsAre(1.0F, -2.0F, 0x1p-133F));
}

TEST(Tensor, CopiesRanges) {
  const auto bytes = Unaligned<uint16_t>({0x3F80, 0x4000, 0x4040, 0x4080});
  const TensorView view{DType::kBF16, {2, 2}, bytes.data() + 1};
  std::vector<float> out(2);
  CopyToFloat(view, 1, out);
  EXPECT_THAT(out, ElementsAre(2.0F, 3.0F));
  CopyToFloat(view, 4, {});  // an empty range at the end is a range
  EXPECT_TRUE(ToFloats({DType::kF32, {0, 7}, nullptr}).empty());
}

TEST(TensorDeath, ChecksRangeAndType) {
  const auto bytes = Unaligned<uint16_t>({0x3F80, 0x4000});
  const TensorView view{DType::kBF16, {2}, bytes.data() + 1};
  std::vector<float> out(2);
  EXPECT_DEATH(CopyToFloat(view, 1, out), "elements");
  EXPECT_DEATH(CopyToFloat(view, -1, out), "elements");
  EXPECT_DEATH(ToFloats({DType::kI16, {2}, bytes.data() + 1}), "I16");
}

}  // namespace
}  // namespace erne
