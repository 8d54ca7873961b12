// One token from one row of logits.
//
// The rules, in order (as in transformers and vLLM):
//   1. repetition penalty on the logits of seen tokens;
//   2. temperature 0: the largest logit wins, the lower id on ties. Otherwise logits / temperature;
//   3. top_k: the first k tokens in the order (logit falling, id rising): exactly k, so top_k 1 is
//   the greedy choice;
//   4. weight = exp(logit - largest logit), in fixed point: 2^40 is the largest token's;
//   5. top_p: of the tokens left, the shortest prefix in the order (weight falling, logit falling,
//   id rising) that
//      holds at least top_p of their weight; never empty. The token that crosses the line is in;
//   6. draw: with r = RandomBitsAt(seed, position) * sum / 2^64, the first token, by rising id, at
//   which the running
//      sum of weights exceeds r.
// Weights are integers, so their sums are exact in every order of summing: the outcome depends on
// the rules alone, not on how tokens were selected, on the instruction set or on the C library. A
// token more than 2^41 times less probable than the largest has weight 0 and is never drawn.
//
// Logits may be minus infinity (a banned token, never drawn). NaN, plus infinity, or nothing but
// minus infinity is an error.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/status.h"
#include "sampling/params.h"

namespace erne {

// Which tokens a request has seen: a bitmap over the vocabulary for the repetition penalty. Owned
// by the request.
class SeenTokens {
 public:
  explicit SeenTokens(int64_t vocab_size) : bits_((vocab_size + 63) / 64) {}
  void Add(int32_t token) { bits_[token >> 6] |= uint64_t{1} << (token & 63); }
  bool Has(int32_t token) const { return ((bits_[token >> 6] >> (token & 63)) & 1) != 0; }
  std::span<const uint64_t> words() const { return bits_; }

 private:
  std::vector<uint64_t> bits_;
};

// Buffers that a sampler call needs; reused so that a decode step allocates nothing. One per
// thread.
struct SamplerScratch {
  explicit SamplerScratch(int64_t vocab_size);

  struct Candidate {
    uint64_t weight;
    float logit;
    int32_t token;
  };
  std::vector<float> logits;          // [vocab]
  std::vector<Candidate> candidates;  // up to [vocab], by rising token id
  std::vector<Candidate> selection;   // up to [vocab], in no order
};

// `position` is the index of the token being chosen in its sequence (prompt included), so the draw
// depends on (seed, position) alone; the result depends on nothing but the arguments. Selects,
// never sorts the vocabulary: linear in its size. logits: [vocab], vocab <= 2^23. `params` are
// valid (ValidateSampling). `seen` is read only when repetition_penalty is not 1 (it may be of size
// 0 otherwise).
Result<int32_t> SampleToken(std::span<const float> logits, const SamplingParams& params,
                            const SeenTokens& seen, uint64_t position, SamplerScratch& scratch);

// Index of the largest value, the lowest index on ties. values: not empty, no NaN.
int32_t ArgMax(std::span<const float> values);

}  // namespace erne
