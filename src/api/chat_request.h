// POST /v1/chat/completions: from the body to a checked request.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/status.h"

namespace erne {

// What a client asked for, checked as far as that needs no model. An empty optional means: not
// said, the model's default.
struct ChatRequest {
  std::string model;  // "": not said
  std::string request_id;
  int64_t choices = 1;

  // For the template.
  Json messages;                                 // array, see TemplateMessages
  Json tools;                                    // array or null
  Json documents;                                // array or null
  Json template_variables = Json::MakeObject();  // chat_template_kwargs and the like
  bool add_generation_prompt = true;

  std::optional<float> temperature;
  std::optional<float> top_p;
  std::optional<int32_t> top_k;
  std::optional<float> repetition_penalty;
  std::optional<uint64_t> seed;

  std::optional<int64_t> max_tokens;
  std::string max_tokens_field = "max_tokens";  // the field that said it, for messages
  std::vector<std::string> stop;
  std::vector<int32_t> stop_token_ids;
  bool include_stop = false;
  bool ignore_eos = false;
  bool skip_special_tokens = true;

  bool stream = false;
  bool include_usage = false;
  bool continuous_usage = false;
};

// Parses and checks a body. Faults are InvalidArguments: bad JSON with the byte offset, bad fields
// with their name as param. Names of fields that are not known go to `unknown`.
Result<ChatRequest> ParseChatRequest(std::string_view body, std::vector<std::string>& unknown);

}  // namespace erne
