// One unit of weights against the fragments of activations: the arithmetic that the kernels for few
// and for many rows share.
#pragma once

#include "executor/cuda/device_code.cuh"

namespace erne::cuda {

// 8 nibbles -> the A operand of one instruction, q - zero as halves (exact). zeros: 1024 + zero of
// rows r and r + 8, twice each
__device__ inline uint4 UnpackNibbles(uint32_t word, uint32_t zero_low, uint32_t zero_high) {
  constexpr uint32_t kMask = 0x000F000F;
  constexpr uint32_t k1024 = 0x64006400;  // 1024 as a half: its last bit counts ones
  const auto minus = [](uint32_t a, uint32_t b) {
    uint32_t difference;
    asm("sub.f16x2 %0, %1, %2;" : "=r"(difference) : "r"(a), "r"(b));
    return difference;
  };
  uint4 a;
  a.x = minus((word & kMask) | k1024, zero_low);
  a.y = minus(((word >> 4) & kMask) | k1024, zero_high);
  a.z = minus(((word >> 8) & kMask) | k1024, zero_low);
  a.w = minus(((word >> 12) & kMask) | k1024, zero_high);
  return a;
}

// 16-byte pieces of activations that a lane needs for one unit and 8 rows.
ERNE_HD constexpr int PiecesOf(WeightKind kind) { return UnitInputs(kind) / 32; }

// sums[j] += unit x for kTiles groups of 8 rows. unit: in shared memory. x: [kTiles][PiecesOf]
template <WeightKind kKind, int kTiles>
__device__ inline void MultiplyUnit(const uint8_t* unit, int sets, int lane,
                                    const uint4 (&x)[kTiles][PiecesOf(kKind)],
                                    float (&sums)[kTiles][4]) {
  if constexpr (kKind != WeightKind::kInt4) {
    const auto* fragments = reinterpret_cast<const uint4*>(unit);
    const uint4 first = fragments[lane];
    const uint4 second = fragments[32 + lane];
#pragma unroll
    for (int j = 0; j < kTiles; ++j) Mma<kKind>(sums[j], first, x[j][0].x, x[j][0].y);
#pragma unroll
    for (int j = 0; j < kTiles; ++j) Mma<kKind>(sums[j], second, x[j][0].z, x[j][0].w);
  } else {
    // A run of inputs with the same scale is added up as integers times activations, then scaled.
    const uint4 packed = reinterpret_cast<const uint4*>(unit)[lane];
    const uint32_t words[4] = {packed.x, packed.y, packed.z, packed.w};
    float run[kTiles][4] = {};
    const uint8_t* set = unit + 512;
    const int row = lane / 4;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const auto* zeros = reinterpret_cast<const uint16_t*>(set + 64);
      const uint32_t low = zeros[row] * 0x10001U;
      const uint32_t high = zeros[row + 8] * 0x10001U;
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const uint4 a = UnpackNibbles(words[half * 2 + i], low, high);
#pragma unroll
        for (int j = 0; j < kTiles; ++j) {
          const uint4& piece = x[j][half];
          Mma<kKind>(run[j], a, i == 0 ? piece.x : piece.z, i == 0 ? piece.y : piece.w);
        }
      }
      if (half == 0 && sets == 1) continue;
      const auto* scales = reinterpret_cast<const float*>(set);
#pragma unroll
      for (int j = 0; j < kTiles; ++j) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          sums[j][i] = fmaf(scales[row + i / 2 * 8], run[j][i], sums[j][i]);
          run[j][i] = 0;
        }
      }
      set += 96;
    }
  }
}

}  // namespace erne::cuda
