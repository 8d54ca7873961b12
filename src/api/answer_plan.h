// What is to be computed for one request, and how its answer is told.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "api/answer_session.h"
#include "api/chat_request.h"
#include "api/completion_prompt.h"
#include "api/generation.h"
#include "api/logprobs.h"
#include "api/request_options.h"
#include "api/served_model.h"
#include "chat/answer_parser.h"
#include "engine/request.h"

namespace erne {

// What is to be computed for one request.
struct AnswerPlan {
  RequestOptions options;
  std::string id;      // of the answer
  int64_t owner = -1;  // of a resumable stream: the number of the API key
  bool is_chat = false;
  struct Prompt {
    GenerationRequest generation;
    std::shared_ptr<const Echo> echo = nullptr;  // null: none
  };
  std::vector<Prompt> prompts;
  // Of a chat: how its answers are parsed; nullopt: all of them is content.
  std::optional<AnswerParserOptions> parser = {};
  bool hides_reasoning = false;
  bool one_call = false;  // of the calls in an answer only the first is told
};

// The session that answers it.
AnswerSessionOptions SessionOptions(const AnswerPlan& plan, const ModelFacts& facts,
                                    const ServedModel& model);

LogprobWriter LogprobsFor(const RequestOptions& options, const ServedModel& model);

// How the answers to a chat are parsed; nullopt: the model marks nothing that is asked for.
std::optional<AnswerParserOptions> ParserOf(const ChatRequest& chat,
                                            const GenerationRequest& generation,
                                            const ServedModel& model);

// What a chat's answer begins with; null: nothing.
std::shared_ptr<const Echo> EchoOf(const ChatRequest& chat);

}  // namespace erne
