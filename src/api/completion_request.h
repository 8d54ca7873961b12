// POST /v1/completions: from the body to a checked request.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "api/request_options.h"
#include "base/json.h"
#include "base/status.h"

namespace erne {

// A text, or token ids that are taken as they are.
using CompletionPrompt = std::variant<std::string, std::vector<int32_t>>;

// What a client asked for, checked as far as that needs no model.
struct CompletionRequest {
  static constexpr int64_t kDefaultMaxTokens = 16;  // OpenAI's
  static constexpr int64_t kMaxAnswers = 1024;      // of one request: prompts times choices

  RequestOptions options;
  std::vector<CompletionPrompt> prompts;  // not empty; each has a text or ids
  bool is_list = false;                   // prompts have numbers in messages
  bool echo = false;
  bool add_special_tokens = true;

  // The name of prompt `index` in messages: "prompt" or "prompt[3]".
  std::string PromptField(size_t index) const;
};

// Parses and checks a body. Faults are InvalidArguments: bad JSON with the byte offset, bad fields
// with their name as param. Names of fields that are not known go to `unknown`.
Result<CompletionRequest> ParseCompletionRequest(std::string_view body,
                                                 std::vector<std::string>& unknown);

}  // namespace erne
