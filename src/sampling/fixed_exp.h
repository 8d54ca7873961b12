// From distances in logits to weights: the one exponential of every sampler, on the host and on a
// GPU.
//
// Read by sources compiled for different instruction sets: the function is static, so that each
// keeps its own (see vocab_loops.h).
#pragma once

#include <cstdint>

#include "base/host_device.h"

namespace erne::sampling {

// Weights are fixed point: 2^40 is one, the weight of the largest logit. Fine enough for a token of
// probability 1e-12, and sums over 2^23 tokens stay below 2^64.
inline constexpr int kWeightBits = 40;

// exp(x) * 2^40, rounded to an integer, for x <= 0 (minus infinity gives 0). Not the C library's
// exp, which differs between versions: this one gives the same weights on every machine.
//
// x = k ln2 + r with |r| <= ln2 / 2, so exp(x) = 2^k exp(r). Taylor to degree 11 leaves an error
// below r^12 / 12! = 6.4e-15, a hundredth of the fixed point's unit.
ERNE_HD static inline uint64_t FixedExp(double x) {
  constexpr double kLog2E = 1.4426950408889634;
  constexpr double kLn2 = 0.6931471805599453;
  constexpr double kSmallest = -(kWeightBits + 2) * kLn2;  // what is below rounds to 0
  // Adding 1.5 * 2^52 rounds to an integer and leaves it, in two's complement, in the low bits.
  constexpr double kRounder = 6755399441055744.0;
  const double rounded = x * kLog2E + kRounder;
  const double r = x - (rounded - kRounder) * kLn2;
  // Pairs of terms first (Estrin): a shorter chain than Horner's.
  const double r2 = r * r;
  const double r4 = r2 * r2;
  const double terms_0 = (1.0 + r) + (1.0 / 2.0 + r * (1.0 / 6.0)) * r2;
  const double terms_4 = (1.0 / 24.0 + r * (1.0 / 120.0)) + (1.0 / 720.0 + r * (1.0 / 5040.0)) * r2;
  const double terms_8 =
      (1.0 / 40320.0 + r * (1.0 / 362880.0)) + (1.0 / 3628800.0 + r * (1.0 / 39916800.0)) * r2;
  const double sum = terms_0 + (terms_4 + terms_8 * r4) * r4;
  // 2^(k + 40) by its exponent bits; the bits of `rounded` above k fall out on the left.
  const double scale = __builtin_bit_cast(
      double, (__builtin_bit_cast(uint64_t, rounded) + 1023 + kWeightBits) << 52);
  // Adding 2^52 rounds to an integer and leaves it in the 52 bits of the fraction.
  constexpr double kInteger = 4503599627370496.0;
  const uint64_t weight =
      __builtin_bit_cast(uint64_t, sum * scale + kInteger) - __builtin_bit_cast(uint64_t, kInteger);
  // Below, the bits above mean nothing: masked away, without a branch.
  return weight & (0 - static_cast<uint64_t>(x > kSmallest));
}

}  // namespace erne::sampling
