// Products of whole tiles: AMX for bf16 and int8.
#include <immintrin.h>

#include "bench/peaks.h"

namespace erne::bench::amx {
namespace {

// Sums that do not wait for each other, and multiply-adds of one instruction: 16 rows x 16 outputs
// x 32 inputs of bf16, or x 64 bytes.
constexpr int kSums = 6;
constexpr int64_t kBf16Adds = 16 * 16 * 32;
constexpr int64_t kInt8Adds = 16 * 16 * 64;

// All registers full: 16 rows of 64 bytes.
struct alignas(64) Shape {
  uint8_t palette = 1;
  uint8_t start_row = 0;
  uint8_t reserved[14] = {};
  uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};

// Clears the sums, and fills both operands with `ones`, a pattern of 32 bits.
void Start(uint32_t ones) {
  const Shape shape;
  alignas(64) uint32_t operand[16 * 16];
  for (uint32_t& word : operand) word = ones;
  __asm__ volatile("" ::: "memory");
  _tile_loadconfig(&shape);
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  _tile_zero(4);
  _tile_zero(5);
  _tile_loadd(6, operand, 64);
  _tile_loadd(7, operand, 64);
}

// A sum of each register.
template <typename T>
float End() {
  alignas(64) T sums[kSums][16 * 16];
  _tile_stored(0, sums[0], 64);
  _tile_stored(1, sums[1], 64);
  _tile_stored(2, sums[2], 64);
  _tile_stored(3, sums[3], 64);
  _tile_stored(4, sums[4], 64);
  _tile_stored(5, sums[5], 64);
  __asm__ volatile("" ::: "memory");
  _tile_release();
  float all = 0;
  for (const auto& of_register : sums) all += static_cast<float>(of_register[0]);
  return all;
}

float RunBf16(int64_t rounds) {
  Start(0x3F803F80);
  for (int64_t round = 0; round < rounds; ++round) {
    _tile_dpbf16ps(0, 6, 7);
    _tile_dpbf16ps(1, 6, 7);
    _tile_dpbf16ps(2, 6, 7);
    _tile_dpbf16ps(3, 6, 7);
    _tile_dpbf16ps(4, 6, 7);
    _tile_dpbf16ps(5, 6, 7);
  }
  return End<float>();
}

float RunInt8(int64_t rounds) {
  Start(0x01010101);
  for (int64_t round = 0; round < rounds; ++round) {
    _tile_dpbsud(0, 6, 7);
    _tile_dpbsud(1, 6, 7);
    _tile_dpbsud(2, 6, 7);
    _tile_dpbsud(3, 6, 7);
    _tile_dpbsud(4, 6, 7);
    _tile_dpbsud(5, 6, 7);
  }
  return End<int32_t>();
}

}  // namespace

extern const ArithmeticLoop kBf16;
extern const ArithmeticLoop kInt8;
const ArithmeticLoop kBf16 = {"amx tdpbf16ps", 2 * kSums* kBf16Adds, RunBf16};
const ArithmeticLoop kInt8 = {"amx tdpbsud", 2 * kSums* kInt8Adds, RunInt8};

}  // namespace erne::bench::amx
