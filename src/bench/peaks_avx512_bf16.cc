// Products of pairs of bfloat16 added to float32: AVX-512 BF16.
#include <immintrin.h>

#include "bench/peaks.h"
#include "bench/peaks.inc"

namespace erne::bench::avx512_bf16 {
namespace {

constexpr int kChains = 24;

struct Bf16 {
  using Vec = __m512;
  static ERNE_INLINE Vec Start(int i) { return _mm512_set1_ps(static_cast<float>(i)); }
  static ERNE_INLINE Vec Step(Vec acc) {
    const __m512bh ones = (__m512bh)_mm512_set1_epi32(0x3F803F80);
    return _mm512_dpbf16_ps(acc, ones, ones);
  }
  static ERNE_INLINE float Sum(Vec acc) { return _mm512_reduce_add_ps(acc); }
};

float RunBf16(int64_t rounds) { return RunChains<Bf16, kChains>(rounds); }

}  // namespace

extern const ArithmeticLoop kBf16;
const ArithmeticLoop kBf16 = {"avx512 vdpbf16ps", 2 * kChains * 32, RunBf16};

}  // namespace erne::bench::avx512_bf16
