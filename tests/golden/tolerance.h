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
// Activations that are rounded before a product (ActivationDType; on a GPU f16, too) have the same
// e, as a float or as int8 of a group: of 32 to 128 inputs the largest is about 3 times their root
// mean square as well. The rounding of the inputs is independent from product to product. A layer
// then has: e in the values, e in queries and in keys, which move a score by sqrt(2) 2.5 e, and e
// before the output product: sqrt(1 + 2 * 2.5^2 + 1) = 3.8 e for attention; e in gate and up each
// and e before the down product: sqrt(3) e for the MLP. Together 4.2 e a layer, 4.2 sqrt(L) e of
// the stream, and e before the head.
//
// Such an error can also tip a router's choice between two experts, and then the position and all
// that see it compute something else. f16 tips none in these models. With bf16 and int8 all
// positions before the first tipped one are judged, found by comparing the experts with those of
// the same executor over float32 keys, values and activations, which the bound above has judged.
//
// Positions are judged by their distributions, too. Logits that move by independent d_i of variance
// s^2 move a distribution by KL = Var_p(d) / 2 + O(d^3), s^2 / 2 on average. s is e with the gains
// above, a quarter of the bound, of the size of the logits: of their standard deviation, for their
// mean does not matter to a softmax. Twice that s is allowed, and for
// a mixture of experts twice the variance: its routers err as well and weight the experts
// otherwise. Where a router tips at the very first position, as int8 activations make one of
// erne-mini's do, nothing lies before it; then the mean over all positions has to keep that bound,
// tipped choices and all.
#pragma once

#include <algorithm>
#include <cmath>
#include <span>
#include <string>

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

// The same for activations, by ExecutorInfo::activation_type.
inline double ActivationRoundingError(const std::string& type) {
  if (type.find("int8") != std::string::npos) return 3.0 / 440;
  if (type.find("bf16") != std::string::npos) return 0.425 * 0x1p-8;
  if (type.find("f16") != std::string::npos) return 0.425 * 0x1p-11;
  return 0;
}

// The bound of max |d logit| / max |logit| for an executor with such keys, values and activations.
inline double RelativeBound(KvDType dtype, const std::string& activations, int64_t layers) {
  constexpr double kSigmas = 4;
  constexpr double kKvPerLayer = 2.7;
  constexpr double kActivationsPerLayer = 4.2;
  const double depth = std::sqrt(static_cast<double>(layers));
  return kRelativeBound +
         kSigmas * (kKvPerLayer * depth * KvRoundingError(dtype) +
                    (kActivationsPerLayer * depth + 1) * ActivationRoundingError(activations));
}

// The bound of the mean KL divergence, in nats, that follows from a RelativeBound.
inline double DivergenceBound(double relative_bound, bool experts, std::span<const float> logits) {
  double mean = 0;
  double squares = 0;
  const auto count = static_cast<double>(logits.size());
  for (const float logit : logits) mean += logit / count;
  for (const float logit : logits) squares += (logit - mean) * (logit - mean) / count;
  return (experts ? 2 : 1) * 0.5 * squares * relative_bound * relative_bound / 4;
}

inline double LargestMagnitude(std::span<const float> values) {
  double largest = 0;
  for (const float value : values) largest = std::max(largest, std::abs(double{value}));
  return largest;
}

}  // namespace erne::golden
