// Products of four bytes added to 32 bits: AVX-VNNI, the form for CPUs without AVX-512.
#include <immintrin.h>

#include "bench/peaks.h"
#include "bench/peaks.inc"

namespace erne::bench::avx_vnni {
namespace {

constexpr int kChains = 12;

struct Int8 {
  using Vec = __m256i;
  static ERNE_INLINE Vec Start(int i) { return _mm256_set1_epi32(i); }
  static ERNE_INLINE Vec Step(Vec acc) {
    return _mm256_dpbusd_avx_epi32(acc, _mm256_set1_epi8(3), _mm256_set1_epi8(5));
  }
  static ERNE_INLINE float Sum(Vec acc) {
    int lanes[8];
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(lanes), acc);
    return static_cast<float>(lanes[0] + lanes[7]);
  }
};

float RunInt8(int64_t rounds) { return RunChains<Int8, kChains>(rounds); }

}  // namespace

extern const ArithmeticLoop kInt8;
const ArithmeticLoop kInt8 = {"avx vpdpbusd", 2 * kChains * 32, RunInt8};

}  // namespace erne::bench::avx_vnni
