// Products of whole tiles: AMX for bf16 and int8.
#include <immintrin.h>

#include "bench/peaks.h"

namespace erne::bench::amx {
namespace {

// Sums that do not wait for each other.
constexpr int kSums = 6;

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

// Product::Multiply<C>() adds the operands' product to register C: 16 rows x 16 outputs of
// Product::kInputs inputs.
struct Bf16 {
  using Sum = float;
  static constexpr uint32_t kOnes = 0x3F803F80;
  static constexpr int64_t kInputs = 32;
  template <int C>
  static void Multiply() {
    __asm__ volatile("tdpbf16ps %%tmm7, %%tmm6, %%tmm%c0" ::"i"(C));
  }
};
struct Int8 {
  using Sum = int32_t;
  static constexpr uint32_t kOnes = 0x01010101;
  static constexpr int64_t kInputs = 64;
  template <int C>
  static void Multiply() {
    __asm__ volatile("tdpbsud %%tmm7, %%tmm6, %%tmm%c0" ::"i"(C));
  }
};

template <typename Product>
float Run(int64_t rounds) {
  Start(Product::kOnes);
  for (int64_t round = 0; round < rounds; ++round) {
    Product::template Multiply<0>();
    Product::template Multiply<1>();
    Product::template Multiply<2>();
    Product::template Multiply<3>();
    Product::template Multiply<4>();
    Product::template Multiply<5>();
  }
  alignas(64) typename Product::Sum sums[kSums][16 * 16];
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

template <typename Product>
constexpr int64_t kOperations = 2 * kSums * 16 * 16 * Product::kInputs;

}  // namespace

extern const ArithmeticLoop kBf16;
extern const ArithmeticLoop kInt8;
const ArithmeticLoop kBf16 = {"amx tdpbf16ps", kOperations<Bf16>, Run<Bf16>};
const ArithmeticLoop kInt8 = {"amx tdpbsud", kOperations<Int8>, Run<Int8>};

}  // namespace erne::bench::amx
