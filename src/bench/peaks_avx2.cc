// The loops for AVX2 and FMA. Bytes are multiplied in pairs to 16 bits, then added to 32.
#include <immintrin.h>

#include "bench/peaks.h"
#include "bench/peaks.inc"

namespace erne::bench::avx2 {
namespace {

constexpr int kChains = 12;

struct F32 {
  using Vec = __m256;
  static ERNE_INLINE Vec Start(int i) { return _mm256_set1_ps(static_cast<float>(i)); }
  // Stays near 1e3 for ever.
  static ERNE_INLINE Vec Step(Vec acc) {
    return _mm256_fmadd_ps(acc, _mm256_set1_ps(0.999F), _mm256_set1_ps(1.0F));
  }
  static ERNE_INLINE float Sum(Vec acc) {
    float lanes[8];
    _mm256_storeu_ps(lanes, acc);
    float sum = 0;
    for (const float lane : lanes) sum += lane;
    return sum;
  }
};

struct Int8 {
  using Vec = __m256i;
  static ERNE_INLINE Vec Start(int i) { return _mm256_set1_epi32(i); }
  static ERNE_INLINE Vec Step(Vec acc) {
    __m256i bytes = _mm256_set1_epi8(3);
    asm volatile("" : "+x"(bytes));  // else the product is the same in every round
    const __m256i pairs = _mm256_maddubs_epi16(bytes, _mm256_set1_epi8(5));
    return _mm256_add_epi32(acc, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
  }
  static ERNE_INLINE float Sum(Vec acc) {
    int lanes[8];
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(lanes), acc);
    return static_cast<float>(lanes[0] + lanes[7]);
  }
};

float RunF32(int64_t rounds) { return RunChains<F32, kChains>(rounds); }
float RunInt8(int64_t rounds) { return RunChains<Int8, kChains>(rounds); }

uint64_t Read(const void* data, int64_t bytes) {
  const auto* p = static_cast<const unsigned char*>(data);
  __m256i sums[4] = {};
  for (int64_t at = 0; at < bytes; at += 128) {
    for (int i = 0; i < 4; ++i) {
      const auto* from = reinterpret_cast<const __m256i*>(p + at + 32 * i);
      sums[i] = _mm256_add_epi64(sums[i], _mm256_load_si256(from));
    }
  }
  const __m256i sum =
      _mm256_add_epi64(_mm256_add_epi64(sums[0], sums[1]), _mm256_add_epi64(sums[2], sums[3]));
  uint64_t lanes[4];
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(lanes), sum);
  return lanes[0] + lanes[1] + lanes[2] + lanes[3];
}

}  // namespace

extern const Peaks kPeaks;
const Peaks kPeaks = {.name = "avx2",
                      .read = Read,
                      .f32 = {"avx2 vfmadd", 2 * kChains * 8, RunF32},
                      .bf16 = {},
                      .int8 = {"avx2 vpmaddubsw", 2 * kChains * 32, RunInt8}};

}  // namespace erne::bench::avx2
