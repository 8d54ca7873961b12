// Element types of stored tensors, and the exact conversions to and from float32.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace erne {

enum class DType : uint8_t { kF32, kF16, kBF16, kI64, kI32, kI16, kI8, kU8, kBool, kF64, kF8E4M3, kF8E5M2 };

// Bytes of one element.
size_t DTypeSize(DType dtype);
// "F32", "BF16", ...: the names that safetensors uses.
std::string_view DTypeName(DType dtype);
std::optional<DType> DTypeFromName(std::string_view name);
inline bool IsFloat(DType dtype) {
  return dtype == DType::kF32 || dtype == DType::kF16 || dtype == DType::kBF16;
}

// bfloat16 is the upper half of a float32.
inline float Bf16ToFloat(uint16_t bits) { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }
// Rounds to nearest, ties to even; a NaN stays a (quiet) NaN.
inline uint16_t FloatToBf16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7FFFFFFF) > 0x7F800000) return static_cast<uint16_t>((bits >> 16) | 0x40);
  return static_cast<uint16_t>((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16);
}

// IEEE binary16, exact in this direction.
float F16ToFloat(uint16_t bits);
// Rounds to nearest, ties to even; overflow becomes infinity.
uint16_t FloatToF16(float value);

}  // namespace erne
