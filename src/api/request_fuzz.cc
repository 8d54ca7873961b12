// Any bytes are a request or a fault that says why; never a crash, and never a request that breaks
// its own promises.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "api/chat_request.h"
#include "api/completion_request.h"
#include "base/check.h"

namespace erne {
namespace {

void CheckFault(const Status& status) {
  ERNE_CHECK(status.code() == StatusCode::kInvalidArgument && !status.message().empty());
}

// least_tokens: of max_tokens; a completion that echoes its prompt may ask for none.
void CheckOptions(const RequestOptions& options, int64_t least_tokens) {
  ERNE_CHECK(options.choices >= 1 && options.max_tokens.value_or(1) >= least_tokens);
  ERNE_CHECK(options.min_tokens >= 0 && options.logprobs >= -1 && options.logprobs <= 20);
  ERNE_CHECK(options.temperature.value_or(1) >= 0 && options.repetition_penalty.value_or(1) > 0);
  ERNE_CHECK(options.top_p.value_or(1) > 0 && options.top_p.value_or(1) <= 1);
  ERNE_CHECK(options.min_p.value_or(0) >= 0 && options.min_p.value_or(0) <= 1);
  for (const LogitBias& entry : options.logit_bias) {
    ERNE_CHECK(entry.token >= 0 && entry.bias >= -100 && entry.bias <= 100);
  }
  if (options.repetition) ERNE_CHECK(ValidateRepetition(*options.repetition).ok());
  ERNE_CHECK(options.best_of >= options.choices && options.best_of <= 64);
  ERNE_CHECK(options.best_of == options.choices || !options.stream);
  ERNE_CHECK(options.stream_interval >= 1);
  ERNE_CHECK(options.resumable_seconds >= 0 && options.resumable_seconds <= 60);
  ERNE_CHECK(options.resumable_seconds == 0 || options.stream);
  ERNE_CHECK(options.logprob_token_ids.empty() || options.logprobs >= 0);
  const int64_t most = options.truncate_prompt_tokens.value_or(1);
  ERNE_CHECK(most == RequestOptions::kAsFits || most >= 1);
}

void CheckChat(std::string_view body) {
  std::vector<std::string> unknown;
  const Result<ChatRequest> request = ParseChatRequest(body, unknown);
  if (!request.ok()) return CheckFault(request.status());
  CheckOptions(request->options, 1);
  for (const Json& message : request->conversation.messages.AsArray()) {
    ERNE_CHECK(message.Find("role")->is_string() && message.Find("content")->is_string());
  }
  const Conversation& conversation = request->conversation;
  ERNE_CHECK(!(conversation.continue_final_message && conversation.add_generation_prompt));
}

void CheckCompletion(std::string_view body) {
  std::vector<std::string> unknown;
  const Result<CompletionRequest> request = ParseCompletionRequest(body, unknown);
  if (!request.ok()) return CheckFault(request.status());
  CheckOptions(request->options, request->echo ? 0 : 1);
  ERNE_CHECK(!request->prompts.empty());
  const auto prompts = static_cast<int64_t>(request->prompts.size());
  ERNE_CHECK(prompts * request->options.best_of <= CompletionRequest::kMaxAnswers);
  for (const CompletionPrompt& prompt : request->prompts) {
    const auto* tokens = std::get_if<std::vector<int32_t>>(&prompt);
    if (tokens == nullptr) continue;
    ERNE_CHECK(!tokens->empty());
    for (const int32_t token : *tokens) ERNE_CHECK(token >= 0);
  }
}

}  // namespace
}  // namespace erne

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view body(reinterpret_cast<const char*>(data), size);
  erne::CheckChat(body);
  erne::CheckCompletion(body);
  return 0;
}
