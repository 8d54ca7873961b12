// One token from one row of logits.
//
// The rules, in order (as in transformers and vLLM):
//   1. bans, logit_bias, penalties (logit_adjuster.h);
//   2. temperature 0: the largest logit wins, the lower id on ties. Otherwise logits / temperature;
//   3. top_k: the first k tokens in the order (logit falling, id rising): exactly k, so top_k 1 is
//   the greedy choice;
//   4. weight = exp(logit - largest logit), in fixed point: 2^40 is the largest token's;
//   5. min_p: tokens with at least min_p of the largest weight;
//   6. top_p: of the tokens left, the shortest prefix in the order (weight falling, logit falling,
//   id rising) that holds at
//      least top_p of their weight; never empty. The token that crosses the line is in;
//   7. draw: with r = RandomBitsAt(seed, position) * sum / 2^64, the first token, by rising id, at
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
#include "sampling/logit_adjuster.h"
#include "sampling/params.h"

namespace erne {

struct TokenLogprob {
  int32_t token = -1;
  float logprob = 0.0F;  // natural logarithm; may be minus infinity
};

struct SampledToken {
  int32_t token = -1;
  // Empty unless SamplingParams::logprobs asks for them: the chosen token, then logprob_tokens, or
  // the most probable ones in the order (logit falling, id rising), the chosen one again if it is
  // among them. Of the logits as they came: before bans, biases, penalties and temperature (as vLLM
  // and OpenAI report them).
  std::vector<TokenLogprob> logprobs = {};
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
  std::vector<float> logits;         // [vocab]
  std::vector<uint64_t> block_sums;  // of the weights of a block of tokens each
  std::vector<int32_t> tokens;       // that may be chosen, by rising id: up to [vocab + 1]
  std::vector<uint64_t> weights;     // of `tokens`: up to [vocab]
  std::vector<Candidate> selection;  // up to [vocab], in no order
};

// Where in its sequence a token is chosen.
struct SamplePoint {
  uint64_t position = 0;  // its index, prompt included: the draw depends on (seed, position) alone
  std::span<const int32_t> output = {};  // tokens generated so far
  TokenBans bans = {};  // stop tokens before min_tokens, and what a grammar does not allow
};

// Chooses the tokens of one request: its parameters, and what they make it remember. What comes out
// depends on the parameters, the prompt, the accepted output, the logits and the point alone. Owned
// by the request; one thread at a time.
class RequestSampler {
 public:
  // params: valid (ValidateSampling). prompt: ids within the vocabulary, vocab_size <= 2^23.
  RequestSampler(SamplingParams params, int64_t vocab_size, std::span<const int32_t> prompt);
  RequestSampler(const RequestSampler&) = delete;
  RequestSampler& operator=(const RequestSampler&) = delete;

  // Selects, never sorts the vocabulary: linear in its size, one pass for the greedy choice and two
  // or three light ones otherwise. Allocates nothing but the log-probabilities that are asked for.
  // logits: [vocab]. Errors: Internal names the token whose logit is at fault; InvalidArgument when
  // the request's bans leave no token.
  Result<SampledToken> Sample(std::span<const float> logits, const SamplePoint& point,
                              SamplerScratch& scratch) const;
  // Takes the token into the output.
  void Accept(int32_t token) { adjuster_.Add(token); }
  // Room for an output of that length, so that Accept does not allocate.
  void Reserve(int64_t output_tokens) { adjuster_.Reserve(output_tokens); }

  const SamplingParams& params() const { return params_; }
  const LogitAdjuster& adjuster() const { return adjuster_; }

 private:
  const SamplingParams params_;
  LogitAdjuster adjuster_;
};

// What SampledToken::logprobs says of `token`, for logits [vocab] of which it was not drawn.
// Internal when the logits are not numbers.
Result<std::vector<TokenLogprob>> TokenLogprobs(std::span<const float> logits, int32_t token,
                                                int32_t count, SamplerScratch& scratch);

// The smallest weight that min_p leaves a token, at least 1.
uint64_t LeastWeight(const SamplingParams& params);
// log softmax of a logit: of a row with the largest one `max`, whose weights at temperature 1 sum
// up to `sum`.
float LogprobOf(float logit, float max, uint64_t sum);

// Index of the largest value, the lowest index on ties. values: not empty, no NaN.
int32_t ArgMax(std::span<const float> values);

}  // namespace erne
