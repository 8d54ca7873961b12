// Rotary position embedding (Su et al. 2021, "RoFormer"): one piece of code for every executor on
// the host.
//
// Use: build a Rope once; per row of a batch call Angles once (it is the same for all layers and
// heads), then Rotate for each head of q and k. Everything is float32, and computed as transformers
// computes it (modeling_rope_utils.py): the golden files depend on the rounding of the frequencies,
// because an angle is frequency times position.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "model/model_spec.h"

namespace erne {

// Immutable after construction; thread-safe.
class Rope {
 public:
  // head_dim must be even.
  Rope(const RopeSpec& spec, int64_t head_dim);

  // Pairs of a head: head_dim / 2.
  int64_t pairs() const { return static_cast<int64_t>(frequencies_.size()); }
  // Radians per position of each pair, scaling applied. [pairs]
  std::span<const float> frequencies() const { return frequencies_; }

  // cos and sin of position * frequency. cos, sin: [pairs]
  void Angles(int64_t position, std::span<float> cos, std::span<float> sin) const;

  // Rotates one head in place by the angles of its position. head: [head_dim]; cos, sin: [pairs]
  void Rotate(std::span<const float> cos, std::span<const float> sin, std::span<float> head) const;

 private:
  RopeStyle style_;
  std::vector<float> frequencies_;  // [pairs]
};

}  // namespace erne
