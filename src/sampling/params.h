// How the next token is chosen. Field names, defaults and ranges follow OpenAI's API and vLLM's
// extensions.
#pragma once

#include <cstdint>
#include <vector>

#include "base/status.h"

namespace erne {

// Added to the logit of one token.
struct LogitBias {
  int32_t token = 0;
  float bias = 0.0F;
};

struct SamplingParams {
  // 0: the most probable token (ties: the lower id); min_p, top_k and top_p then have no effect.
  float temperature = 1.0F;
  // (0, 1]: the smallest set of most probable tokens with at least this mass; 1: all.
  float top_p = 1.0F;
  // The k most probable tokens; 0 or -1: all.
  int32_t top_k = 0;
  // > 0; Keskar et al. 2019 (CTRL): divides positive, multiplies negative logits of tokens that
  // occur in the prompt or the output; 1: off.
  float repetition_penalty = 1.0F;
  // With the position it keys every random draw; the API draws one when none is given.
  uint64_t seed = 0;

  // [0, 1]: drops tokens less probable than min_p times the most probable one; 0: off.
  float min_p = 0.0F;
  // [-2, 2]; as OpenAI defines them, over the output alone: a token that occurs c times there loses
  // presence_penalty * (c > 0) + frequency_penalty * c from its logit.
  float presence_penalty = 0.0F;
  float frequency_penalty = 0.0F;
  std::vector<LogitBias> logit_bias = {};  // finite; a token may occur once
  // Token sequences, none empty: where the output ends with all of one but its last token, that
  // last token is banned.
  std::vector<std::vector<int32_t>> bad_words = {};
  // The only tokens that may be chosen; empty: all. Stop tokens too come only if they are here.
  std::vector<int32_t> allowed_tokens = {};
  // -1: none. Otherwise the chosen token's log-probability comes with it, and those of the
  // `logprobs` most probable tokens.
  int32_t logprobs = -1;
  // With logprobs, not empty: those of these tokens, in this order, instead of the most probable.
  std::vector<int32_t> logprob_tokens = {};
};

// InvalidArgument, with the field as param, when a value is outside its range above (or not
// finite).
Status ValidateSampling(const SamplingParams& params, int64_t vocab_size);

}  // namespace erne
