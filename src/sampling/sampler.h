// One token from one row of logits.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sampling/params.h"

namespace erne {

// Uniform in [0, 1), 24 bits: a pure function of (seed, position). Philox-4x32-10 (Salmon et al., "Parallel random
// numbers: as easy as 1, 2, 3", SC 2011), key = seed, counter = position.
float UniformAt(uint64_t seed, uint64_t position);

// Scratch that one sampler call needs; reused so that a decode step allocates nothing once warm. One per thread.
struct SamplerScratch {
  explicit SamplerScratch(int64_t vocab_size);
  std::vector<float> logits;        // [vocab]
  std::vector<int32_t> candidates;  // [vocab]
};

// Which tokens a request has seen: a bitmap over the vocabulary for the repetition penalty. Owned by the request.
class SeenTokens {
 public:
  explicit SeenTokens(int64_t vocab_size) : bits_((vocab_size + 63) / 64) {}
  void Add(int32_t token) { bits_[token >> 6] |= uint64_t{1} << (token & 63); }
  bool Has(int32_t token) const { return ((bits_[token >> 6] >> (token & 63)) & 1) != 0; }
  std::span<const uint64_t> words() const { return bits_; }

 private:
  std::vector<uint64_t> bits_;
};

// Order as in transformers and vLLM: repetition penalty, temperature, top-k, top-p, draw. `position` is the index of the
// token being chosen in its sequence (prompt included), so the draw depends on (seed, position) alone. The result depends
// on nothing but the arguments. Selects, never sorts the whole vocabulary. logits: [vocab], finite.
int32_t SampleToken(std::span<const float> logits, const SamplingParams& params, const SeenTokens& seen,
                    uint64_t position, SamplerScratch& scratch);

// Index of the largest value, the lowest index on ties.
int32_t ArgMax(std::span<const float> values);

}  // namespace erne
