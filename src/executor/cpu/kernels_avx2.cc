// The kernels for AVX2 with FMA and F16C: a vector is a pair of registers.
#include <immintrin.h>

#include "executor/cpu/kernels.h"

#define ERNE_INLINE inline __attribute__((always_inline))

namespace erne::cpu::avx2 {
namespace {

struct Vec {
  __m256 a, b;  // lanes 0-7, 8-15
};

// Panels multiplied at once with R rows: at most 12 of the 16 registers hold accumulators.
template <int R>
inline constexpr int kPanelsOf = R == 1   ? 4
                                 : R == 2 ? 2
                                          : 1;

// Rows multiplied at once.
constexpr int64_t kBlockRows = 4;

ERNE_INLINE Vec Zero() { return {_mm256_setzero_ps(), _mm256_setzero_ps()}; }
ERNE_INLINE Vec Set1(float value) {
  const __m256 v = _mm256_set1_ps(value);
  return {v, v};
}
ERNE_INLINE Vec Load(const float* p) { return {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)}; }
ERNE_INLINE void Store(float* p, Vec v) {
  _mm256_storeu_ps(p, v.a);
  _mm256_storeu_ps(p + 8, v.b);
}
// All ones in lanes below n - first.
ERNE_INLINE __m256i First(int64_t n, int first) {
  const __m256i lane =
      _mm256_add_epi32(_mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7), _mm256_set1_epi32(first));
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(n)), lane);
}
// The first n lanes, the others zero.
ERNE_INLINE Vec LoadN(const float* p, int64_t n) {
  return {_mm256_maskload_ps(p, First(n, 0)), _mm256_maskload_ps(p + 8, First(n, 8))};
}
ERNE_INLINE void StoreN(float* p, Vec v, int64_t n) {
  _mm256_maskstore_ps(p, First(n, 0), v.a);
  _mm256_maskstore_ps(p + 8, First(n, 8), v.b);
}
ERNE_INLINE Vec Fma(Vec x, Vec y, Vec z) {
  return {_mm256_fmadd_ps(x.a, y.a, z.a), _mm256_fmadd_ps(x.b, y.b, z.b)};
}
ERNE_INLINE Vec Add(Vec x, Vec y) { return {_mm256_add_ps(x.a, y.a), _mm256_add_ps(x.b, y.b)}; }
ERNE_INLINE Vec Sub(Vec x, Vec y) { return {_mm256_sub_ps(x.a, y.a), _mm256_sub_ps(x.b, y.b)}; }
ERNE_INLINE Vec Mul(Vec x, Vec y) { return {_mm256_mul_ps(x.a, y.a), _mm256_mul_ps(x.b, y.b)}; }
ERNE_INLINE Vec Div(Vec x, Vec y) { return {_mm256_div_ps(x.a, y.a), _mm256_div_ps(x.b, y.b)}; }
ERNE_INLINE Vec Sqrt(Vec x) { return {_mm256_sqrt_ps(x.a), _mm256_sqrt_ps(x.b)}; }
// x < y ? x : y and x > y ? x : y, lane by lane: a NaN in either gives y.
ERNE_INLINE Vec Min(Vec x, Vec y) { return {_mm256_min_ps(x.a, y.a), _mm256_min_ps(x.b, y.b)}; }
ERNE_INLINE Vec Max(Vec x, Vec y) { return {_mm256_max_ps(x.a, y.a), _mm256_max_ps(x.b, y.b)}; }
// Lanes below n from x, the others from y.
ERNE_INLINE Vec SelectFirst(int64_t n, Vec x, Vec y) {
  return {_mm256_blendv_ps(y.a, x.a, _mm256_castsi256_ps(First(n, 0))),
          _mm256_blendv_ps(y.b, x.b, _mm256_castsi256_ps(First(n, 8)))};
}
// v < limit ? x : y
ERNE_INLINE Vec SelectLess(Vec v, Vec limit, Vec x, Vec y) {
  return {_mm256_blendv_ps(y.a, x.a, _mm256_cmp_ps(v.a, limit.a, _CMP_LT_OQ)),
          _mm256_blendv_ps(y.b, x.b, _mm256_cmp_ps(v.b, limit.b, _CMP_LT_OQ))};
}
ERNE_INLINE __m256 ScaleByPower(__m256 p, __m256 t) {
  const __m256i shifted = _mm256_slli_epi32(_mm256_castps_si256(t), 23);
  return _mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(p), shifted));
}
// p * 2^n, where n is in the low bits of t: the exponent fields are added.
ERNE_INLINE Vec ScaleByPower(Vec p, Vec t) {
  return {ScaleByPower(p.a, t.a), ScaleByPower(p.b, t.b)};
}
// Lane i meets lane i + 8, then i + 4, i + 2, i + 1.
ERNE_INLINE float ReduceAdd(Vec v) {
  const __m256 a = _mm256_add_ps(v.a, v.b);
  const __m128 b = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
  const __m128 c = _mm_add_ps(b, _mm_movehl_ps(b, b));
  return _mm_cvtss_f32(_mm_add_ss(c, _mm_movehdup_ps(c)));
}
ERNE_INLINE float ReduceMax(Vec v) {
  const __m256 a = _mm256_max_ps(v.a, v.b);
  const __m128 b = _mm_max_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
  const __m128 c = _mm_max_ps(b, _mm_movehl_ps(b, b));
  return _mm_cvtss_f32(_mm_max_ss(c, _mm_movehdup_ps(c)));
}

ERNE_INLINE __m128i Load128(const unsigned char* p) {
  return _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
}
ERNE_INLINE __m256i Load256(const unsigned char* p) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
}

// Weights of input 2 * pair + H of a panel.
struct F32Weights {
  static constexpr int64_t kPairBytes = 128;
  template <int H>
  static ERNE_INLINE Vec Get(const unsigned char* pair) {
    return {_mm256_castsi256_ps(Load256(pair + 64 * H)),
            _mm256_castsi256_ps(Load256(pair + 64 * H + 32))};
  }
};
struct F16Weights {
  static constexpr int64_t kPairBytes = 64;
  template <int H>
  static ERNE_INLINE Vec Get(const unsigned char* pair) {
    return {_mm256_cvtph_ps(Load128(pair + 32 * H)), _mm256_cvtph_ps(Load128(pair + 32 * H + 16))};
  }
};
struct Bf16Weights {
  static constexpr int64_t kPairBytes = 64;
  template <int H>
  static ERNE_INLINE __m256 Widen(__m256i words) {
    if constexpr (H == 0) return _mm256_castsi256_ps(_mm256_slli_epi32(words, 16));
    return _mm256_castsi256_ps(_mm256_and_si256(words, _mm256_set1_epi32(-65536)));
  }
  template <int H>
  static ERNE_INLINE Vec Get(const unsigned char* pair) {
    return {Widen<H>(Load256(pair)), Widen<H>(Load256(pair + 32))};
  }
};
ERNE_INLINE Vec LoadInt8(const unsigned char* p) {
  const __m128i bytes = Load128(p);
  return {_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(bytes)),
          _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_unpackhi_epi64(bytes, bytes)))};
}

// The way back, rounded to nearest, ties to even; a NaN stays a NaN. out: [16]
ERNE_INLINE void NarrowF16(Vec v, uint16_t* out) {
  constexpr int kNearest = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
  _mm_storeu_si128(reinterpret_cast<__m128i*>(out), _mm256_cvtps_ph(v.a, kNearest));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(out + 8), _mm256_cvtps_ph(v.b, kNearest));
}
// Lanes of 32 bits, all below 2^16, as 16 lanes of 16 bits.
ERNE_INLINE __m256i Pack(__m256i a, __m256i b) {
  return _mm256_permute4x64_epi64(_mm256_packus_epi32(a, b), 0xD8);
}
ERNE_INLINE __m256i NarrowBf16(__m256 v) {
  const __m256i bits = _mm256_castps_si256(v);
  const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
  const __m256i half = _mm256_add_epi32(odd, _mm256_set1_epi32(0x7FFF));
  return _mm256_blendv_epi8(_mm256_srli_epi32(_mm256_add_epi32(bits, half), 16),
                            _mm256_set1_epi32(0x7FC0),
                            _mm256_castps_si256(_mm256_cmp_ps(v, v, _CMP_UNORD_Q)));
}
ERNE_INLINE void NarrowBf16(Vec v, uint16_t* out) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(out), Pack(NarrowBf16(v.a), NarrowBf16(v.b)));
}
// The low byte of each lane.
ERNE_INLINE void NarrowLowBytes(Vec v, int8_t* out) {
  const __m256i low = _mm256_set1_epi32(0xFF);
  const __m256i words = Pack(_mm256_and_si256(_mm256_castps_si256(v.a), low),
                             _mm256_and_si256(_mm256_castps_si256(v.b), low));
  _mm_storeu_si128(
      reinterpret_cast<__m128i*>(out),
      _mm_packus_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1)));
}

// 64 bytes, and 16 integers of 32 bits.
struct Line {
  __m256i a, b;
};
using Ints = Line;

ERNE_INLINE Ints ZeroInts() { return {_mm256_setzero_si256(), _mm256_setzero_si256()}; }
ERNE_INLINE Line LoadLine(const unsigned char* p) { return {Load256(p), Load256(p + 32)}; }
ERNE_INLINE void StoreLine(unsigned char* p, Line line) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), line.a);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p + 32), line.b);
}
// The 4 bytes at p in every lane.
ERNE_INLINE Line BroadcastWord(const unsigned char* p) {
  int32_t word;
  __builtin_memcpy(&word, p, sizeof(word));
  const __m256i words = _mm256_set1_epi32(word);
  return {words, words};
}
ERNE_INLINE Line LowNibbles(Line line) {
  const __m256i mask = _mm256_set1_epi8(15);
  return {_mm256_and_si256(line.a, mask), _mm256_and_si256(line.b, mask)};
}
ERNE_INLINE Line HighNibbles(Line line) {
  return LowNibbles({_mm256_srli_epi16(line.a, 4), _mm256_srli_epi16(line.b, 4)});
}
ERNE_INLINE Vec ToFloat(Ints integers) {
  return {_mm256_cvtepi32_ps(integers.a), _mm256_cvtepi32_ps(integers.b)};
}
// Byte I of every lane, 0..255.
template <int I>
ERNE_INLINE Ints ByteOf(Line line) {
  const __m256i mask = _mm256_set1_epi32(255);
  return {_mm256_and_si256(_mm256_srli_epi32(line.a, 8 * I), mask),
          _mm256_and_si256(_mm256_srli_epi32(line.b, 8 * I), mask)};
}
// Nibble I of every lane, less 8.
template <int I>
ERNE_INLINE __m256 NibbleOf(__m256i line) {
  const __m256i nibble = _mm256_and_si256(_mm256_srli_epi32(line, 4 * I), _mm256_set1_epi32(15));
  return _mm256_cvtepi32_ps(_mm256_sub_epi32(nibble, _mm256_set1_epi32(8)));
}
template <int I>
ERNE_INLINE Vec NibbleOf(Line line) {
  return {NibbleOf<I>(line.a), NibbleOf<I>(line.b)};
}
// Lane by lane, acc + the four products of unsigned bytes of w with signed bytes of x; exact: even
// and odd bytes as 16 bits, whose products are added in pairs.
ERNE_INLINE __m256i AddByteProducts(__m256i acc, __m256i w, __m256i x) {
  const __m256i even = _mm256_madd_epi16(_mm256_and_si256(w, _mm256_set1_epi16(255)),
                                         _mm256_srai_epi16(_mm256_slli_epi16(x, 8), 8));
  const __m256i odd = _mm256_madd_epi16(_mm256_srli_epi16(w, 8), _mm256_srai_epi16(x, 8));
  return _mm256_add_epi32(_mm256_add_epi32(acc, even), odd);
}
ERNE_INLINE Ints AddByteProducts(Ints acc, Line w, Line x) {
  return {AddByteProducts(acc.a, w.a, x.a), AddByteProducts(acc.b, w.b, x.b)};
}

}  // namespace
}  // namespace erne::cpu::avx2

#define ERNE_KERNEL_NAMESPACE avx2
#include "executor/cpu/kernels.inc"
