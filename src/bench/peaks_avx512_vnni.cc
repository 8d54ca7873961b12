// Products of four bytes added to 32 bits: AVX-512 VNNI.
#include <immintrin.h>

#include "bench/peaks.h"
#include "bench/peaks.inc"

namespace erne::bench::avx512_vnni {
namespace {

constexpr int kChains = 24;

struct Int8 {
  using Vec = __m512i;
  static ERNE_INLINE Vec Start(int i) { return _mm512_set1_epi32(i); }
  static ERNE_INLINE Vec Step(Vec acc) {
    return _mm512_dpbusd_epi32(acc, _mm512_set1_epi8(3), _mm512_set1_epi8(5));
  }
  static ERNE_INLINE float Sum(Vec acc) { return static_cast<float>(_mm512_reduce_add_epi32(acc)); }
};

float RunInt8(int64_t rounds) { return RunChains<Int8, kChains>(rounds); }

}  // namespace

extern const ArithmeticLoop kInt8;
const ArithmeticLoop kInt8 = {"avx512 vpdpbusd", 2 * kChains * 64, RunInt8};

}  // namespace erne::bench::avx512_vnni
