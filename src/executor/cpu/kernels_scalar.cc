// The portable kernels: a vector is the compiler's own 16-float type, lowered to whatever the
// target's baseline has (SSE2, NEON, plain scalar code).
#include "executor/cpu/kernels.h"

#define ERNE_INLINE inline __attribute__((always_inline))

namespace erne::cpu::scalar {
namespace {

typedef float Vec __attribute__((vector_size(64)));
typedef uint32_t Words __attribute__((vector_size(64)));

// Panels multiplied at once with R rows: few registers to go round.
template <int R>
inline constexpr int kPanelsOf = 1;

// Rows multiplied at once.
constexpr int64_t kBlockRows = 2;

ERNE_INLINE Vec Zero() { return Vec{}; }
ERNE_INLINE Vec Set1(float value) { return Vec{} + value; }
ERNE_INLINE Vec Load(const float* p) {
  Vec v;
  __builtin_memcpy(&v, p, sizeof(v));
  return v;
}
ERNE_INLINE void Store(float* p, Vec v) { __builtin_memcpy(p, &v, sizeof(v)); }
// The first n lanes, the others zero.
ERNE_INLINE Vec LoadN(const float* p, int64_t n) {
  Vec v = Zero();
  for (int64_t i = 0; i < n; ++i) v[i] = p[i];
  return v;
}
ERNE_INLINE void StoreN(float* p, Vec v, int64_t n) {
  for (int64_t i = 0; i < n; ++i) p[i] = v[i];
}
ERNE_INLINE Vec Fma(Vec a, Vec b, Vec c) {
#ifdef __FP_FAST_FMAF
  for (int64_t i = 0; i < kLanes; ++i) c[i] = __builtin_fmaf(a[i], b[i], c[i]);
  return c;
#else
  return a * b + c;  // rounds twice: a fused one would be a library call per lane
#endif
}
ERNE_INLINE Vec Add(Vec a, Vec b) { return a + b; }
ERNE_INLINE Vec Sub(Vec a, Vec b) { return a - b; }
ERNE_INLINE Vec Mul(Vec a, Vec b) { return a * b; }
ERNE_INLINE Vec Div(Vec a, Vec b) { return a / b; }
ERNE_INLINE Vec Sqrt(Vec a) {
  for (int64_t i = 0; i < kLanes; ++i) a[i] = __builtin_sqrtf(a[i]);
  return a;
}
// a < b ? a : b and a > b ? a : b, lane by lane: a NaN in either gives b.
ERNE_INLINE Vec Min(Vec a, Vec b) { return a < b ? a : b; }
ERNE_INLINE Vec Max(Vec a, Vec b) { return a > b ? a : b; }
// Lanes below n from a, the others from b.
ERNE_INLINE Vec SelectFirst(int64_t n, Vec a, Vec b) {
  for (int64_t i = 0; i < n; ++i) b[i] = a[i];
  return b;
}
// x < limit ? a : b
ERNE_INLINE Vec SelectLess(Vec x, Vec limit, Vec a, Vec b) { return x < limit ? a : b; }
// p * 2^n, where n is in the low bits of t: the exponent fields are added.
ERNE_INLINE Vec ScaleByPower(Vec p, Vec t) {
  return reinterpret_cast<Vec>(reinterpret_cast<Words>(p) + (reinterpret_cast<Words>(t) << 23));
}
// Lane i meets lane i + 8, then i + 4, i + 2, i + 1.
ERNE_INLINE float ReduceAdd(Vec v) {
  for (int64_t half = kLanes / 2; half > 0; half /= 2) {
    for (int64_t i = 0; i < half; ++i) v[i] += v[i + half];
  }
  return v[0];
}
ERNE_INLINE float ReduceMax(Vec v) {
  for (int64_t half = kLanes / 2; half > 0; half /= 2) {
    for (int64_t i = 0; i < half; ++i) v[i] = v[i] > v[i + half] ? v[i] : v[i + half];
  }
  return v[0];
}

ERNE_INLINE float FromBits(uint32_t bits) {
  float value;
  __builtin_memcpy(&value, &bits, sizeof(value));
  return value;
}
ERNE_INLINE float WidenHalf(uint16_t half) {
  const uint32_t sign = static_cast<uint32_t>(half & 0x8000) << 16;
  const uint32_t magnitude = half & 0x7FFF;
  // Infinities and NaNs keep an exponent of ones; subnormals are their mantissa times 2^-24.
  if (magnitude >= 0x7C00) return FromBits(sign | 0x7F800000 | (magnitude & 0x3FF) << 13);
  if (magnitude < 0x400) {
    const float value = static_cast<float>(magnitude) * 0x1p-24f;
    return sign != 0 ? -value : value;
  }
  return FromBits(sign | ((magnitude << 13) + (112u << 23)));
}

// Weights of input 2 * pair + H of a panel.
struct F32Weights {
  static constexpr int64_t kPairBytes = 128;
  template <int H>
  static ERNE_INLINE Vec Get(const unsigned char* pair) {
    Vec v;
    __builtin_memcpy(&v, pair + 64 * H, sizeof(v));
    return v;
  }
};
struct F16Weights {
  static constexpr int64_t kPairBytes = 64;
  template <int H>
  static ERNE_INLINE Vec Get(const unsigned char* pair) {
    uint16_t halves[kLanes];
    __builtin_memcpy(halves, pair + 32 * H, sizeof(halves));
    Vec v;
    for (int64_t i = 0; i < kLanes; ++i) v[i] = WidenHalf(halves[i]);
    return v;
  }
};
struct Bf16Weights {
  static constexpr int64_t kPairBytes = 64;
  template <int H>
  static ERNE_INLINE Vec Get(const unsigned char* pair) {
    Words words;
    __builtin_memcpy(&words, pair, sizeof(words));
    return reinterpret_cast<Vec>(H == 0 ? words << 16 : words & 0xFFFF0000u);
  }
};
ERNE_INLINE Vec LoadInt8(const unsigned char* p) {
  Vec v;
  for (int64_t i = 0; i < kLanes; ++i) v[i] = static_cast<float>(static_cast<signed char>(p[i]));
  return v;
}

ERNE_INLINE uint32_t Bits(float value) {
  uint32_t bits;
  __builtin_memcpy(&bits, &value, sizeof(bits));
  return bits;
}
// The way back, rounded to nearest, ties to even; a NaN stays a NaN. out: [16]
// |v| <= 65504, or NaN.
ERNE_INLINE void NarrowF16(Vec v, uint16_t* out) {
  for (int64_t i = 0; i < kLanes; ++i) {
    const uint32_t bits = Bits(v[i]);
    const uint32_t magnitude = bits & 0x7FFFFFFF;
    uint32_t half = 0;
    if (magnitude > 0x7F800000) {
      half = 0x7E00;
    } else if (magnitude < 0x38800000) {
      // Below 2^-14 halves are multiples of 2^-24, the last place of floats in [0.5, 1): adding 0.5
      // rounds to one.
      half = Bits(FromBits(magnitude) + 0.5f) - 0x3F000000;
    } else {
      const uint32_t rebased = magnitude - (112u << 23);
      half = (rebased + 0xFFF + ((rebased >> 13) & 1)) >> 13;
    }
    out[i] = static_cast<uint16_t>((bits >> 16 & 0x8000) | half);
  }
}
ERNE_INLINE void NarrowBf16(Vec v, uint16_t* out) {
  for (int64_t i = 0; i < kLanes; ++i) {
    const uint32_t bits = Bits(v[i]);
    const bool nan = (bits & 0x7FFFFFFF) > 0x7F800000;
    out[i] = static_cast<uint16_t>(nan ? 0x7FC0 : (bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
  }
}
// The low byte of each lane.
ERNE_INLINE void NarrowLowBytes(Vec v, int8_t* out) {
  const Words words = reinterpret_cast<Words>(v);
  for (int64_t i = 0; i < kLanes; ++i) out[i] = static_cast<int8_t>(words[i] & 0xFF);
}

// 64 bytes, and 16 integers of 32 bits.
typedef int32_t Line __attribute__((vector_size(64)));
using Ints = Line;

ERNE_INLINE Ints ZeroInts() { return Line{}; }
ERNE_INLINE Line LoadLine(const unsigned char* p) {
  Line line;
  __builtin_memcpy(&line, p, sizeof(line));
  return line;
}
ERNE_INLINE void StoreLine(unsigned char* p, Line line) {
  __builtin_memcpy(p, &line, sizeof(line));
}
// The 4 bytes at p in every lane.
ERNE_INLINE Line BroadcastWord(const unsigned char* p) {
  int32_t word;
  __builtin_memcpy(&word, p, sizeof(word));
  return Line{} + word;
}
ERNE_INLINE Line LowNibbles(Line line) { return line & 0x0F0F0F0F; }
ERNE_INLINE Line HighNibbles(Line line) { return line >> 4 & 0x0F0F0F0F; }
ERNE_INLINE Vec ToFloat(Ints integers) { return __builtin_convertvector(integers, Vec); }
// Byte I of every lane, 0..255.
template <int I>
ERNE_INLINE Ints ByteOf(Line line) {
  return line >> (8 * I) & 255;
}
// Nibble I of every lane, less 8.
template <int I>
ERNE_INLINE Vec NibbleOf(Line line) {
  return ToFloat((line >> (4 * I) & 15) - 8);
}
// Lane by lane, acc + the four products of unsigned bytes of w with signed bytes of x.
ERNE_INLINE Ints AddByteProducts(Ints acc, Line w, Line x) {
  acc += ByteOf<0>(w) * (x << 24 >> 24);
  acc += ByteOf<1>(w) * (x << 16 >> 24);
  acc += ByteOf<2>(w) * (x << 8 >> 24);
  acc += ByteOf<3>(w) * (x >> 24);
  return acc;
}

}  // namespace
}  // namespace erne::cpu::scalar

#define ERNE_KERNEL_NAMESPACE scalar
#include "executor/cpu/kernels.inc"
