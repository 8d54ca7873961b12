// How far a float32 executor may be from the golden files, and why.
//
// The measure is max |d logit| / max |logit| of a row. Let u = 2^-24, the rounding of float32. A
// sum of n products is off by about sqrt(n) u of its size when its roundings are independent, and
// by at most n u of the sum of magnitudes (Higham, "Accuracy and Stability of Numerical
// Algorithms", 2nd ed., 4.2). The tiny models add n <= 128 terms: sqrt(n) u = 7e-7. A row meets
// about 4 such sums or roundings of similar size in sequence per block (norm, product,
// non-linearity, product), 2 blocks a layer, up to 5 layers, and the head: some 42. Were all of
// them off the same way, they would add up to 3e-5. The golden run in torch has errors of the same
// kind, so the two may differ by 6e-5; the angles of rope, rounded once per position (150 u = 9e-6
// at the longest prompt), make it 7e-5. The bound is the next round number.
//
// erne-mini is judged by a float64 run, which has no error of its own: n <= 1024, sqrt(n) u
// = 1.9e-6, 8 layers and so 66 roundings in sequence; independent ones add up to sqrt(66) * 1.9e-6
// = 1.6e-5, at four sigma (the worst of thousands of logits) 6e-5: the same bound holds.
//
// What follows from |d logit| <= t = bound * max |logit|:
//   - the larger of two logits stays the larger when they are more than 2 t apart: else the step is
//   undecided;
//   - log sum exp moves by at most t, because its gradient is a probability distribution;
//   - a router's logits z come from the same kind of sums, so |dz| <= bound * max |z|. Its softmax
//   moves by
//     |dp_i| = p_i |dz_i - sum_j p_j dz_j| <= 2 p_i (1 - p_i) max |dz| <= max |dz| / 2, so that two
//     scores further apart than max |dz| keep their order; the correction bias is a constant.
//
// Keys and values that are kept in fewer bits (KvDType) add an error of their own, far above those.
// Let e be the root mean square of the relative error of an element.
//   - A float of p bits: uniform within half a unit in the last place, which is at most u = 2^-p of
//     the value; with significands spread as 1 / m over [1, 2), e = u / sqrt(3) * sqrt(E[1 / m^2])
//     = 0.425 u. bf16 has 8 bits, f16 has 11.
//   - int8: uniform within half of max |x| / 127, so max |x| / (127 sqrt(12)) = max |x| / 440; the
//     largest of the 32 or 128 elements of a head is about 3 times their root mean square: e = 3 /
//     440.
// Independent errors e of the values move the output of attention by e of its size. Errors of the
// keys move a score by e sqrt(sum of (q_d k_d)^2 / head_dim), measured as 2.2 to 2.5 e in the
// reference models and erne-mini, and the output by as much; both together by sqrt(1 + 2.5^2) = 2.7
// e. That passes into the residual stream with no gain, for the norms before each block undo any; L
// layers of independent errors add up to 2.7 sqrt(L) e of the stream, and so of the logits. The
// worst of thousands of logits is four sigma out. Divided by the largest logit instead of the root
// mean square it is smaller still, by 3 or so, which is the slack of this bound.
//
// Such an error can also tip a router's choice between two experts, and then the position and all
// that see it compute something else. f16 tips none in these models. With bf16 and int8 all
// positions before the first tipped one are judged, found by comparing the experts with those of
// the same executor over float32 keys and values, which the bound above has judged.
#pragma once

#include <algorithm>
#include <cmath>
#include <span>

#include "kv/kv_dtype.h"

namespace erne::golden {

inline constexpr double kRelativeBound = 1e-4;
// Half a unit of the last decimal that the files keep: 6 for logits and log sum exp, 4 for margins.
inline constexpr double kLogitRounding = 0.5e-6;
inline constexpr double kMarginRounding = 0.5e-4;

// e of the comment above.
inline double KvRoundingError(KvDType dtype) {
  switch (dtype) {
    case KvDType::kF32:
      return 0;
    case KvDType::kBF16:
      return 0.425 * 0x1p-8;
    case KvDType::kF16:
      return 0.425 * 0x1p-11;
    case KvDType::kInt8:
      return 3.0 / 440;
  }
  return 0;
}

// The bound of max |d logit| / max |logit| for an executor with such keys and values.
inline double RelativeBound(KvDType dtype, int64_t layers) {
  constexpr double kSigmas = 4;
  constexpr double kPerLayer = 2.7;
  return kRelativeBound +
         kSigmas * kPerLayer * std::sqrt(static_cast<double>(layers)) * KvRoundingError(dtype);
}

inline double LargestMagnitude(std::span<const float> values) {
  double largest = 0;
  for (const float value : values) largest = std::max(largest, std::abs(double{value}));
  return largest;
}

}  // namespace erne::golden
