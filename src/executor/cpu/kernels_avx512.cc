// The kernels for AVX-512 (F, BW, VL, DQ): a vector is one register.
#include <immintrin.h>

#include "executor/cpu/kernels.h"

#define ERNE_INLINE inline __attribute__((always_inline))

namespace erne::cpu::avx512 {
namespace {

using Vec = __m512;

// Panels multiplied at once with R rows: R x 4 accumulators.
template <int R>
inline constexpr int kPanelsOf = 4;

// Rows multiplied at once.
constexpr int64_t kBlockRows = 6;

ERNE_INLINE Vec Zero() { return _mm512_setzero_ps(); }
ERNE_INLINE Vec Set1(float value) { return _mm512_set1_ps(value); }
ERNE_INLINE Vec Load(const float* p) { return _mm512_loadu_ps(p); }
ERNE_INLINE void Store(float* p, Vec v) { _mm512_storeu_ps(p, v); }
ERNE_INLINE __mmask16 First(int64_t n) { return static_cast<__mmask16>((1u << n) - 1); }
// The first n lanes, the others zero.
ERNE_INLINE Vec LoadN(const float* p, int64_t n) { return _mm512_maskz_loadu_ps(First(n), p); }
ERNE_INLINE void StoreN(float* p, Vec v, int64_t n) { _mm512_mask_storeu_ps(p, First(n), v); }
ERNE_INLINE Vec Fma(Vec a, Vec b, Vec c) { return _mm512_fmadd_ps(a, b, c); }
ERNE_INLINE Vec Add(Vec a, Vec b) { return _mm512_add_ps(a, b); }
ERNE_INLINE Vec Sub(Vec a, Vec b) { return _mm512_sub_ps(a, b); }
ERNE_INLINE Vec Mul(Vec a, Vec b) { return _mm512_mul_ps(a, b); }
ERNE_INLINE Vec Div(Vec a, Vec b) { return _mm512_div_ps(a, b); }
ERNE_INLINE Vec Sqrt(Vec a) { return _mm512_sqrt_ps(a); }
// a < b ? a : b and a > b ? a : b, lane by lane: a NaN in either gives b.
ERNE_INLINE Vec Min(Vec a, Vec b) { return _mm512_min_ps(a, b); }
ERNE_INLINE Vec Max(Vec a, Vec b) { return _mm512_max_ps(a, b); }
// Lanes below n from a, the others from b.
ERNE_INLINE Vec SelectFirst(int64_t n, Vec a, Vec b) { return _mm512_mask_mov_ps(b, First(n), a); }
// x < limit ? a : b
ERNE_INLINE Vec SelectLess(Vec x, Vec limit, Vec a, Vec b) {
  return _mm512_mask_mov_ps(b, _mm512_cmp_ps_mask(x, limit, _CMP_LT_OQ), a);
}
// p * 2^n, where n is in the low bits of t: the exponent fields are added.
ERNE_INLINE Vec ScaleByPower(Vec p, Vec t) {
  const __m512i shifted = _mm512_slli_epi32(_mm512_castps_si512(t), 23);
  return _mm512_castsi512_ps(_mm512_add_epi32(_mm512_castps_si512(p), shifted));
}
// Lane i meets lane i + 8, then i + 4, i + 2, i + 1.
ERNE_INLINE float ReduceAdd(Vec v) {
  const __m256 a = _mm256_add_ps(_mm512_castps512_ps256(v), _mm512_extractf32x8_ps(v, 1));
  const __m128 b = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
  const __m128 c = _mm_add_ps(b, _mm_movehl_ps(b, b));
  return _mm_cvtss_f32(_mm_add_ss(c, _mm_movehdup_ps(c)));
}
ERNE_INLINE float ReduceMax(Vec v) {
  const __m256 a = _mm256_max_ps(_mm512_castps512_ps256(v), _mm512_extractf32x8_ps(v, 1));
  const __m128 b = _mm_max_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
  const __m128 c = _mm_max_ps(b, _mm_movehl_ps(b, b));
  return _mm_cvtss_f32(_mm_max_ss(c, _mm_movehdup_ps(c)));
}

// Weights of input 2 * pair + H of a panel.
struct F32Weights {
  static constexpr int64_t kPairBytes = 128;
  template <int H>
  static ERNE_INLINE Vec Get(const unsigned char* pair) {
    return _mm512_loadu_ps(pair + 64 * H);
  }
};
struct F16Weights {
  static constexpr int64_t kPairBytes = 64;
  template <int H>
  static ERNE_INLINE Vec Get(const unsigned char* pair) {
    return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(pair + 32 * H)));
  }
};
struct Bf16Weights {
  static constexpr int64_t kPairBytes = 64;
  template <int H>
  static ERNE_INLINE Vec Get(const unsigned char* pair) {
    const __m512i words = _mm512_loadu_si512(pair);
    if constexpr (H == 0) return _mm512_castsi512_ps(_mm512_slli_epi32(words, 16));
    return _mm512_castsi512_ps(_mm512_and_si512(words, _mm512_set1_epi32(-65536)));
  }
};
// q - 8 of input 2 * pair + H.
struct Int4Weights {
  static constexpr int64_t kPairBytes = 16;
  template <int H>
  static ERNE_INLINE Vec Get(const unsigned char* pair) {
    // The permutation reads the low 4 bits of each index.
    const Vec values = _mm512_setr_ps(-8, -7, -6, -5, -4, -3, -2, -1, 0, 1, 2, 3, 4, 5, 6, 7);
    __m512i q = _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(pair)));
    if constexpr (H == 1) q = _mm512_srli_epi32(q, 4);
    return _mm512_permutexvar_ps(q, values);
  }
};
ERNE_INLINE Vec LoadInt8(const unsigned char* p) {
  return _mm512_cvtepi32_ps(
      _mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))));
}

// The way back, rounded to nearest, ties to even; a NaN stays a NaN. out: [16]
ERNE_INLINE void NarrowF16(Vec v, uint16_t* out) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(out),
                      _mm512_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}
ERNE_INLINE void NarrowBf16(Vec v, uint16_t* out) {
  const __m512i bits = _mm512_castps_si512(v);
  const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
  const __m512i half = _mm512_add_epi32(odd, _mm512_set1_epi32(0x7FFF));
  const __m512i words =
      _mm512_mask_mov_epi32(_mm512_srli_epi32(_mm512_add_epi32(bits, half), 16),
                            _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q), _mm512_set1_epi32(0x7FC0));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(out), _mm512_cvtepi32_epi16(words));
}
// The low byte of each lane.
ERNE_INLINE void NarrowLowBytes(Vec v, int8_t* out) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(out), _mm512_cvtepi32_epi8(_mm512_castps_si512(v)));
}

constexpr const char* kName = "avx512";

}  // namespace
}  // namespace erne::cpu::avx512

#define ERNE_KERNEL_NAMESPACE avx512
#include "executor/cpu/kernels.inc"
