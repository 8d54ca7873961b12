// The loops for any CPU: the compiler's own vectors, lowered to the target's baseline.
#include "bench/peaks.h"
#include "bench/peaks.inc"

namespace erne::bench::portable {
namespace {

constexpr int kChains = 8;
constexpr int64_t kLanes = 4;

struct F32 {
  typedef float Vec __attribute__((vector_size(4 * kLanes)));
  static ERNE_INLINE Vec Start(int i) { return Vec{} + static_cast<float>(i); }
  // Stays near 1e3 for ever.
  static ERNE_INLINE Vec Step(Vec acc) { return acc * 0.999F + 1.0F; }
  static ERNE_INLINE float Sum(Vec acc) { return acc[0] + acc[1] + acc[2] + acc[3]; }
};

float RunF32(int64_t rounds) { return RunChains<F32, kChains>(rounds); }

uint64_t Read(const void* data, int64_t bytes) {
  typedef uint64_t Vec __attribute__((vector_size(64)));
  const auto* p = static_cast<const unsigned char*>(data);
  Vec sum{};
  for (int64_t at = 0; at < bytes; at += 64) {
    Vec v;
    __builtin_memcpy(&v, p + at, sizeof(v));
    sum += v;
  }
  return sum[0] + sum[1] + sum[2] + sum[3] + sum[4] + sum[5] + sum[6] + sum[7];
}

}  // namespace

extern const Peaks kPeaks;
const Peaks kPeaks = {.name = "scalar",
                      .read = Read,
                      .f32 = {"mul and add, 4 lanes", 2 * kChains* kLanes, RunF32},
                      .bf16 = {},
                      .int8 = {}};

}  // namespace erne::bench::portable
