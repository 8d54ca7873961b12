#include "tensor/dtype.h"

#include <cmath>
#include <limits>

#include <gtest/gtest.h>

namespace erne {
namespace {

constexpr uint16_t kF16Infinity = 0x7C00;

// The definition of IEEE binary16, in double arithmetic.
double F16ByDefinition(uint16_t bits) {
  const double sign = (bits & 0x8000) != 0 ? -1.0 : 1.0;
  const int exponent = (bits >> 10) & 0x1F;
  const int mantissa = bits & 0x3FF;
  if (exponent == 0x1F) {
    return mantissa == 0 ? sign * std::numeric_limits<double>::infinity()
                         : std::numeric_limits<double>::quiet_NaN();
  }
  if (exponent == 0) return sign * std::ldexp(mantissa, -24);
  return sign * std::ldexp(1024 + mantissa, exponent - 25);
}

TEST(DType, NamesAndSizes) {
  for (int i = 0; i <= static_cast<int>(DType::kF8E5M2); ++i) {
    const auto dtype = static_cast<DType>(i);
    EXPECT_EQ(DTypeFromName(DTypeName(dtype)), dtype);
  }
  EXPECT_EQ(DTypeSize(DType::kF32), 4U);
  EXPECT_EQ(DTypeSize(DType::kF16), 2U);
  EXPECT_EQ(DTypeSize(DType::kBF16), 2U);
  EXPECT_EQ(DTypeSize(DType::kI64), 8U);
  EXPECT_EQ(DTypeSize(DType::kF64), 8U);
  EXPECT_EQ(DTypeSize(DType::kI32), 4U);
  EXPECT_EQ(DTypeSize(DType::kI16), 2U);
  EXPECT_EQ(DTypeSize(DType::kBool), 1U);
  EXPECT_EQ(DTypeName(DType::kF8E4M3), "F8_E4M3");
  EXPECT_EQ(DTypeFromName("f32"), std::nullopt);
  EXPECT_EQ(DTypeFromName(""), std::nullopt);
  EXPECT_TRUE(IsFloat(DType::kBF16));
  EXPECT_FALSE(IsFloat(DType::kF64));  // never converted: no checkpoint that we read stores it
}

TEST(F16, EveryPatternToFloat) {
  for (uint32_t i = 0; i < 0x10000; ++i) {
    const auto bits = static_cast<uint16_t>(i);
    const double expected = F16ByDefinition(bits);
    const float value = F16ToFloat(bits);
    if (std::isnan(expected)) {
      EXPECT_TRUE(std::isnan(value)) << i;
    } else {
      EXPECT_EQ(static_cast<double>(value), expected) << i;
    }
    EXPECT_EQ(std::signbit(value), (bits & 0x8000) != 0) << i;
  }
}

TEST(F16, EveryPatternThereAndBack) {
  for (uint32_t i = 0; i < 0x10000; ++i) {
    const auto bits = static_cast<uint16_t>(i);
    const uint16_t back = FloatToF16(F16ToFloat(bits));
    if ((bits & 0x7FFF) > kF16Infinity) {
      EXPECT_EQ(back, bits | 0x200) << i;  // quiet, payload kept
    } else {
      EXPECT_EQ(back, bits) << i;
    }
  }
}

// Between neighbours a < b: the middle goes to the one with an even last bit, anything else to the
// nearer one.
TEST(F16, RoundsToNearestTiesToEven) {
  for (uint16_t low = 0; low < kF16Infinity; ++low) {
    const auto high = static_cast<uint16_t>(low + 1);
    // 65536 stands in for the value that infinity's pattern would have.
    const double above = high == kF16Infinity ? 65536.0 : F16ByDefinition(high);
    const auto middle =
        static_cast<float>((F16ByDefinition(low) + above) / 2);  // exact: one more bit
    const uint16_t even = (low & 1) == 0 ? low : high;
    EXPECT_EQ(FloatToF16(middle), even) << low;
    EXPECT_EQ(FloatToF16(-middle), even | 0x8000) << low;
    EXPECT_EQ(FloatToF16(std::nextafter(middle, 0.0F)), low) << low;
    EXPECT_EQ(FloatToF16(std::nextafter(middle, 1e9F)), high) << low;
  }
}

TEST(F16, OverflowAndTiny) {
  EXPECT_EQ(FloatToF16(65504.0F), 0x7BFF);
  EXPECT_EQ(FloatToF16(65519.996F), 0x7BFF);
  EXPECT_EQ(FloatToF16(65520.0F), kF16Infinity);
  EXPECT_EQ(FloatToF16(std::numeric_limits<float>::max()), kF16Infinity);
  EXPECT_EQ(FloatToF16(-std::numeric_limits<float>::infinity()), 0x8000 | kF16Infinity);
  EXPECT_EQ(FloatToF16(0x1p-25F), 0);  // half of the smallest subnormal: the tie goes to zero
  EXPECT_EQ(FloatToF16(std::nextafter(0x1p-25F, 1.0F)), 1);
  EXPECT_EQ(FloatToF16(std::numeric_limits<float>::denorm_min()), 0);
  EXPECT_EQ(FloatToF16(-0.0F), 0x8000);
}

TEST(Bf16, EveryPatternThereAndBack) {
  for (uint32_t i = 0; i < 0x10000; ++i) {
    const auto bits = static_cast<uint16_t>(i);
    const float value = Bf16ToFloat(bits);
    EXPECT_EQ(std::bit_cast<uint32_t>(value), i << 16);
    const uint16_t expected = std::isnan(value) ? static_cast<uint16_t>(bits | 0x40) : bits;
    EXPECT_EQ(FloatToBf16(value), expected) << i;
  }
}

TEST(Bf16, RoundsToNearestTiesToEven) {
  constexpr uint32_t kInfinity = 0x7F80;
  for (uint32_t low = 0; low < kInfinity; ++low) {
    const uint32_t middle = (low << 16) | 0x8000;
    EXPECT_EQ(FloatToBf16(std::bit_cast<float>(middle)), (low & 1) == 0 ? low : low + 1) << low;
    EXPECT_EQ(FloatToBf16(std::bit_cast<float>(middle - 1)), low) << low;
    EXPECT_EQ(FloatToBf16(std::bit_cast<float>(middle + 1)), low + 1) << low;
    EXPECT_EQ(FloatToBf16(std::bit_cast<float>((middle + 1) | 0x80000000)), (low + 1) | 0x8000)
        << low;
  }
  // A NaN whose payload lies in the lower half must not become infinity.
  EXPECT_TRUE(std::isnan(Bf16ToFloat(FloatToBf16(std::bit_cast<float>(0x7F800001U)))));
}

}  // namespace
}  // namespace erne
