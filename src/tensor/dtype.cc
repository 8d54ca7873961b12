#include "tensor/dtype.h"

#include "base/check.h"

namespace erne {
namespace {

struct DTypeRow {
  std::string_view name;
  size_t size;
};

// In the order of the enum.
constexpr DTypeRow kDTypes[] = {
    {"F32", 4}, {"F16", 2}, {"BF16", 2}, {"I64", 8}, {"I32", 4},     {"I16", 2},
    {"I8", 1},  {"U8", 1},  {"BOOL", 1}, {"F64", 8}, {"F8_E4M3", 1}, {"F8_E5M2", 1},
};

const DTypeRow& Row(DType dtype) {
  const auto index = static_cast<size_t>(dtype);
  ERNE_CHECK(index < std::size(kDTypes)) << "dtype " << index;
  return kDTypes[index];
}

}  // namespace

size_t DTypeSize(DType dtype) { return Row(dtype).size; }

std::string_view DTypeName(DType dtype) { return Row(dtype).name; }

std::optional<DType> DTypeFromName(std::string_view name) {
  for (size_t i = 0; i < std::size(kDTypes); ++i) {
    if (kDTypes[i].name == name) return static_cast<DType>(i);
  }
  return std::nullopt;
}

float F16ToFloat(uint16_t bits) {
  const uint32_t sign = static_cast<uint32_t>(bits & 0x8000) << 16;
  const uint32_t exponent = (bits >> 10) & 0x1F;
  const uint32_t mantissa = bits & 0x3FF;
  if (exponent == 0x1F) return std::bit_cast<float>(sign | 0x7F800000 | (mantissa << 13));
  if (exponent == 0) {
    // Zero or subnormal: mantissa x 2^-24, exact in float32.
    const float magnitude = static_cast<float>(mantissa) * 0x1p-24F;
    return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(magnitude));
  }
  return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (mantissa << 13));
}

uint16_t FloatToF16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const auto sign = static_cast<uint16_t>((bits >> 16) & 0x8000);
  const uint32_t magnitude = bits & 0x7FFFFFFF;
  if (magnitude > 0x7F800000) {  // NaN: quiet, upper payload kept
    return static_cast<uint16_t>(sign | 0x7E00 | ((magnitude >> 13) & 0x3FF));
  }
  // 65520 lies halfway between the largest finite value, 65504, and 65536; the tie goes to the even
  // one, infinity.
  if (magnitude >= 0x477FF000) return static_cast<uint16_t>(sign | 0x7C00);
  if (magnitude < 0x38800000) {
    // Below 2^-14: a subnormal, in units of 2^-24. Adding 1/2 puts those units at the end of the
    // float's mantissa (its last place is 2^-24 there), and the addition itself rounds to nearest,
    // ties to even.
    const float shifted = std::bit_cast<float>(magnitude) + 0.5F;
    return static_cast<uint16_t>(sign | (std::bit_cast<uint32_t>(shifted) - 0x3F000000));
  }
  // Normal: rebias the exponent, round away 13 bits; a carry out of the mantissa moves the exponent
  // as it should.
  const uint32_t rebased = magnitude - (112U << 23);
  return static_cast<uint16_t>(sign | ((rebased + 0xFFF + ((rebased >> 13) & 1)) >> 13));
}

}  // namespace erne
