// How the next token is chosen. Field names, defaults and ranges follow OpenAI's API and vLLM's extensions.
#pragma once

#include <cstdint>

namespace erne {

struct SamplingParams {
  float temperature = 1.0F;         // 0: the most probable token (ties: the lower id)
  float top_p = 1.0F;               // (0, 1]: smallest set of most probable tokens with at least this mass
  int32_t top_k = 0;                // the k most probable tokens; 0 or -1: all
  float repetition_penalty = 1.0F;  // > 0; Keskar et al. 2019 (CTRL): divides positive, multiplies negative logits of
                                    // tokens that occur in the prompt or the output
  uint64_t seed = 0;                // with the position it keys every random draw; the API draws one when none is given
};

}  // namespace erne
