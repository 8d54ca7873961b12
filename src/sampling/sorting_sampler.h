// The rules of sampler.h done the slow and obvious way, by sorting the vocabulary: the oracle of
// tests and benchmarks.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <span>
#include <vector>

#include "sampling/params.h"
#include "sampling/philox.h"

namespace erne {

// Of logits without bans, biases and penalties, of which one at least is finite. Weights are those
// of the C library's exp: a draw on the very edge between two tokens could go the other way.
inline int32_t SampleBySorting(std::span<const float> logits, const SamplingParams& params,
                               uint64_t position) {
  const auto logit = [&](int32_t token) { return logits[static_cast<size_t>(token)]; };
  std::vector<int32_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](int32_t a, int32_t b) { return logit(a) > logit(b); });
  if (params.temperature == 0) return order[0];
  const double largest = logit(order[0]);
  const auto weight = [&](int32_t token) {
    const double x = (static_cast<double>(logit(token)) - largest) / params.temperature;
    return std::floor(std::ldexp(std::exp(x), 40) + 0.5);
  };
  if (params.top_k > 0) order.resize(std::min(order.size(), static_cast<size_t>(params.top_k)));
  const double least = std::max(1.0, std::ldexp(static_cast<double>(params.min_p), 40));
  while (weight(order.back()) < least) order.pop_back();
  const auto sum = [&] {
    double all = 0;
    for (const int32_t token : order) all += weight(token);
    return all;
  };
  if (params.top_p < 1) {
    const double needed = std::ceil(static_cast<double>(params.top_p) * sum());
    double kept = 0;
    size_t count = 0;
    while (count < 1 || kept < needed) kept += weight(order[count++]);
    order.resize(count);
  }
  const double bits = static_cast<double>(RandomBitsAt(params.seed, position));
  double remaining = std::floor(std::ldexp(bits, -64) * sum());
  std::sort(order.begin(), order.end());
  for (const int32_t token : order) {
    remaining -= weight(token);
    if (remaining < 0) return token;
  }
  return order.back();
}

}  // namespace erne
