// The rules of sampler.h and logit_adjuster.h for single values: what the samplers of the host and
// of a GPU compute alike, bit for bit. Both compile without contraction (ErneBuild.cmake).
#pragma once

#include <cmath>
#include <cstdint>

#include "base/host_device.h"
#include "sampling/fixed_exp.h"

namespace erne::sampling {

// Kernels know no numeric_limits.
inline constexpr float kLargest = __FLT_MAX__;
inline constexpr float kInfinity = __builtin_inff();

// Overflow stops at the largest float; infinities and NaN pass, for the sampler to judge.
ERNE_HD inline float KeepFinite(float before, float after) {
  if (!(before >= -kLargest && before <= kLargest)) return before;
  if (after > kLargest) return kLargest;
  return after < -kLargest ? -kLargest : after;
}

ERNE_HD inline float Biased(float logit, float bias) { return KeepFinite(logit, logit + bias); }

// Of a token that occurs in the prompt or the output.
ERNE_HD inline float Repeated(float logit, float penalty) {
  return KeepFinite(logit, logit > 0.0F ? logit / penalty : logit * penalty);
}

// Of a token that occurs `count` times in the output.
ERNE_HD inline float Counted(float logit, int32_t count, float frequency, float presence) {
  return KeepFinite(logit, logit - frequency * static_cast<float>(count) - presence);
}

// A bound for logits: what is below it weighs less than `weight`, at least 1, where `max` is the
// largest logit. Not a tight one: rounding, here and in the weights, moves a weight by less than
// 0.5 + 1e-12 of itself.
ERNE_HD inline float LogitFor(uint64_t weight, double max, double temperature) {
  const double least = static_cast<double>(weight) * (1 - 1e-9) - 0.75;
  const double logit = max + temperature * std::log(std::ldexp(least, -kWeightBits));
  if (!(logit > -static_cast<double>(kLargest))) return -kInfinity;
  // Once for the rounding to float, once for that of the sum.
  const float rounded = static_cast<float>(logit);
  return std::nextafter(std::nextafter(rounded, -kInfinity), -kInfinity);
}

// The weight that a nucleus needs of `sum`, at least 1.
ERNE_HD inline uint64_t NucleusWeight(float top_p, uint64_t sum) {
  const double exact = std::ceil(static_cast<double>(top_p) * static_cast<double>(sum));
  const auto needed = static_cast<uint64_t>(exact);
  if (needed < 1) return 1;
  return needed < sum ? needed : sum;
}

// floor(a * b / 2^64).
ERNE_HD inline uint64_t MultiplyHigh(uint64_t a, uint64_t b) {
  const uint64_t a_low = a & 0xFFFFFFFF;
  const uint64_t a_high = a >> 32;
  const uint64_t b_low = b & 0xFFFFFFFF;
  const uint64_t b_high = b >> 32;
  const uint64_t middle = a_high * b_low + ((a_low * b_low) >> 32);
  const uint64_t carry = (middle & 0xFFFFFFFF) + a_low * b_high;
  return a_high * b_high + (middle >> 32) + (carry >> 32);
}

}  // namespace erne::sampling
