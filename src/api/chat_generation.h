// From a checked chat request to what the engine computes: template, tokens, defaults, and the room
// that is left.
#pragma once

#include <cstdint>
#include <vector>

#include "api/chat_request.h"
#include "api/served_model.h"
#include "base/status.h"
#include "engine/request.h"

namespace erne {

// What the service derives from a model once, when it becomes ready.
struct ModelFacts {
  std::vector<int32_t> end_tokens;  // the model's own, the first is the primary one
  int64_t longest_token = 1;        // bytes of the longest token
};
ModelFacts FindModelFacts(const ServedModel& model);

// The engine's request for choice 0. `fallback_seed` is used when the request names none. Errors:
// the prompt does not fit or is empty, the template refuses the messages, ids outside the
// vocabulary.
Result<GenerationRequest> MakeGeneration(const ChatRequest& request, const ServedModel& model,
                                         const ModelFacts& facts, uint64_t fallback_seed);

}  // namespace erne
