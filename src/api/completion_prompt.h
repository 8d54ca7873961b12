// The prompt of a completion: its token ids, and how the answer shows it again (`echo`).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "api/completion_request.h"
#include "api/generation.h"
#include "api/served_model.h"
#include "base/status.h"

namespace erne {

// What stands before the answer.
struct Echo {
  struct Token {
    int32_t id = -1;
    int64_t text_offset = 0;  // characters of `text` before it
  };
  std::string text;
  std::vector<Token> tokens = {};  // of the prompt; only when their log-probabilities are told
};

// The ids of prompt `index`. Errors as EncodePrompt's.
Result<std::vector<int32_t>> EncodeCompletionPrompt(const CompletionRequest& request, size_t index,
                                                    const PromptLimit& limit,
                                                    const ServedModel& model,
                                                    const ModelFacts& facts);

// Prompt `index`, whose ids are `tokens`, as the answer begins with it: a text as it was given, ids
// and what is left of a text as the text of the ids.
Echo MakeEcho(const CompletionRequest& request, size_t index, std::span<const int32_t> tokens,
              bool truncated, const ServedModel& model);

}  // namespace erne
