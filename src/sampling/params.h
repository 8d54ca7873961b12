// How the next token is chosen. Field names, defaults and ranges follow OpenAI's API and vLLM's
// extensions.
#pragma once

#include <cstdint>

#include "base/status.h"

namespace erne {

struct SamplingParams {
  // 0: the most probable token (ties: the lower id), and the fields below but repetition_penalty
  // have no effect.
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
};

// InvalidArgument, with the field as param, when a value is outside its range above (or not
// finite).
Status ValidateSampling(const SamplingParams& params);

}  // namespace erne
