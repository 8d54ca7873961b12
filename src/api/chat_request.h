// POST /v1/chat/completions: from the body to a checked request.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "api/request_options.h"
#include "base/json.h"
#include "base/status.h"

namespace erne {

// A conversation, for the chat template.
struct Conversation {
  Json messages;                                 // array, see TemplateMessages
  Json tools;                                    // array or null
  Json documents;                                // array or null
  Json template_variables = Json::MakeObject();  // chat_template_kwargs and the like
  std::string chat_template;                     // the request's own; "": the model's
  bool add_generation_prompt = true;
  bool continue_final_message = false;  // the prompt ends with the last message's text
  bool add_special_tokens = false;
};

// Reads it out of a body that CheckFields has passed (chat or tokenize). Faults are
// InvalidArguments with the field as param.
Result<Conversation> ReadConversation(const Json& body);

// What a client asked for, checked as far as that needs no model.
struct ChatRequest {
  RequestOptions options;
  Conversation conversation;
  bool reads_calls = false;   // there are tools, and the model may call them
  bool forces_calls = false;  // it must, and calls are all of its answer (options.form)
  bool parallel_tool_calls = true;
  bool include_reasoning = true;  // split off; false: it is not told
  bool echo = false;              // the answer begins with the assistant's last message
};

// Parses and checks a body. Faults are InvalidArguments: bad JSON with the byte offset, bad fields
// with their name as param. Names of fields that are not known go to `unknown`.
Result<ChatRequest> ParseChatRequest(std::string_view body, std::vector<std::string>& unknown);

}  // namespace erne
