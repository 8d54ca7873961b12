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
#pragma once

#include <algorithm>
#include <cmath>
#include <span>

namespace erne::golden {

inline constexpr double kRelativeBound = 1e-4;
// Half a unit of the last decimal that the files keep: 6 for logits and log sum exp, 4 for margins.
inline constexpr double kLogitRounding = 0.5e-6;
inline constexpr double kMarginRounding = 0.5e-4;

inline double LargestMagnitude(std::span<const float> values) {
  double largest = 0;
  for (const float value : values) largest = std::max(largest, std::abs(double{value}));
  return largest;
}

}  // namespace erne::golden
