#include "api/chat_format.h"

#include <utility>

#include "base/strings.h"

namespace erne {

ChatFormat::ChatFormat(std::string id, int64_t created, std::string model, LogprobWriter logprobs)
    : AnswerFormat({.id = std::move(id),
                    .object = "chat.completion",
                    .chunk_object = "chat.completion.chunk",
                    .created = created,
                    .model = std::move(model)}),
      logprobs_(logprobs) {}

void ChatFormat::AppendLogprobs(const AnswerDelta& delta, std::string& out) const {
  out += ",\"logprobs\":";
  if (delta.tokens.empty()) {
    out += "null";
  } else {
    logprobs_.AppendChat(delta.tokens, out);
  }
  out += ",\"finish_reason\":";
}

void ChatFormat::AppendPrompt(const ToldPrompt& prompt, std::string& out) {
  if (prompt.token_ids) {
    out += ',';
    AppendIds("prompt_token_ids", &*prompt.token_ids, out);
  }
  if (prompt.text) {
    out += ",\"prompt_text\":";
    AppendJsonString(*prompt.text, out);
  }
}

std::string ChatFormat::BeginFrame(int64_t index, const ToldPrompt* prompt,
                                   const std::optional<Usage>& usage) const {
  std::string members;
  if (prompt != nullptr) AppendPrompt(*prompt, members);
  return Frame(
      StrCat("{\"index\":", index, R"(,"delta":{"role":"assistant","content":""},"logprobs":null,)",
             "\"finish_reason\":null}"),
      usage, members);
}

std::string ChatFormat::DeltaFrame(int64_t index, const AnswerDelta& delta,
                                   const std::optional<Usage>& usage) const {
  std::string choice = "{\"index\":";
  choice += std::to_string(index);
  choice += ",\"delta\":{\"content\":";
  AppendJsonString(delta.text, choice);
  choice += '}';
  AppendLogprobs(delta, choice);
  choice += "null";
  if (!delta.token_ids.empty()) {
    choice += ',';
    AppendIds("token_ids", &delta.token_ids, choice);
  }
  choice += '}';
  return Frame(choice, usage);
}

std::string ChatFormat::FinishFrame(int64_t index, const ChoiceEnd& end,
                                    const std::optional<Usage>& usage) const {
  return Frame(StrCat("{\"index\":", index, R"(,"delta":{"content":""},"logprobs":null,)",
                      "\"finish_reason\":", FinishMembers(end), "}"),
               usage);
}

void ChatFormat::AppendChoice(int64_t index, const WholeChoice& choice, std::string& out) const {
  out += "{\"index\":";
  out += std::to_string(index);
  out += R"(,"message":{"role":"assistant","content":)";
  AppendJsonString(choice.answer.text, out);
  out += R"(,"refusal":null,"reasoning":null})";
  AppendLogprobs(choice.answer, out);
  out += FinishMembers(choice.end);
  out += ',';
  AppendIds("token_ids", choice.TokenIds(), out);
  out += '}';
}

// The choices have one prompt, and the first one tells of it.
void ChatFormat::AppendLastMembers(const std::vector<WholeChoice>& choices,
                                   std::string& out) const {
  out += ",\"prompt_logprobs\":";
  if (!choices.empty() && choices[0].prompt_scores) {
    logprobs_.AppendPrompt(*choices[0].prompt_scores, out);
  } else {
    out += "null";
  }
  if (!choices.empty() && choices[0].prompt != nullptr) AppendPrompt(*choices[0].prompt, out);
  out += ",\"kv_transfer_params\":null";
}

}  // namespace erne
