// The loops for AVX-512 (F, BW, VL, DQ).
#include <immintrin.h>

#include "bench/peaks.h"
#include "bench/peaks.inc"

namespace erne::bench::avx512 {
namespace {

constexpr int kChains = 24;

struct F32 {
  using Vec = __m512;
  static ERNE_INLINE Vec Start(int i) { return _mm512_set1_ps(static_cast<float>(i)); }
  // Stays near 1e3 for ever.
  static ERNE_INLINE Vec Step(Vec acc) {
    return _mm512_fmadd_ps(acc, _mm512_set1_ps(0.999F), _mm512_set1_ps(1.0F));
  }
  static ERNE_INLINE float Sum(Vec acc) { return _mm512_reduce_add_ps(acc); }
};

struct Int8 {
  using Vec = __m512i;
  static ERNE_INLINE Vec Start(int i) { return _mm512_set1_epi32(i); }
  static ERNE_INLINE Vec Step(Vec acc) {
    __m512i bytes = _mm512_set1_epi8(3);
    asm volatile("" : "+v"(bytes));  // else the product is the same in every round
    const __m512i pairs = _mm512_maddubs_epi16(bytes, _mm512_set1_epi8(5));
    return _mm512_add_epi32(acc, _mm512_madd_epi16(pairs, _mm512_set1_epi16(1)));
  }
  static ERNE_INLINE float Sum(Vec acc) { return static_cast<float>(_mm512_reduce_add_epi32(acc)); }
};

float RunF32(int64_t rounds) { return RunChains<F32, kChains>(rounds); }
float RunInt8(int64_t rounds) { return RunChains<Int8, kChains>(rounds); }

uint64_t Read(const void* data, int64_t bytes) {
  const auto* p = static_cast<const unsigned char*>(data);
  __m512i sums[4] = {};
  for (int64_t at = 0; at < bytes; at += 256) {
    for (int i = 0; i < 4; ++i) {
      sums[i] = _mm512_add_epi64(sums[i], _mm512_load_si512(p + at + 64 * i));
    }
  }
  const __m512i sum =
      _mm512_add_epi64(_mm512_add_epi64(sums[0], sums[1]), _mm512_add_epi64(sums[2], sums[3]));
  uint64_t parts[8];  // added as unsigned numbers, which may overflow
  _mm512_storeu_si512(parts, sum);
  uint64_t total = 0;
  for (const uint64_t part : parts) total += part;
  return total;
}

}  // namespace

extern const Peaks kPeaks;
const Peaks kPeaks = {.name = "avx512",
                      .read = Read,
                      .f32 = {"avx512 vfmadd", 2 * kChains * 16, RunF32},
                      .bf16 = {},
                      .int8 = {"avx512 vpmaddubsw", 2 * kChains * 64, RunInt8}};

}  // namespace erne::bench::avx512
