#include "api/completion_format.h"

#include <utility>

namespace erne {

CompletionFormat::CompletionFormat(std::string id, int64_t created, std::string model,
                                   LogprobWriter logprobs)
    : AnswerFormat({.id = std::move(id),
                    .object = "text_completion",
                    .chunk_object = "text_completion",
                    .created = created,
                    .model = std::move(model)}),
      logprobs_(logprobs) {}

void CompletionFormat::AppendOpened(int64_t index, const AnswerDelta& delta,
                                    std::string& out) const {
  out += "{\"index\":";
  out += std::to_string(index);
  out += ",\"text\":";
  AppendJsonString(delta.text, out);
  out += ",\"logprobs\":";
  if (delta.tokens.empty()) {
    out += "null";
  } else {
    logprobs_.AppendCompletion(delta.tokens, out);
  }
  out += ",\"finish_reason\":";
}

std::string CompletionFormat::BeginFrame(int64_t index, const ToldPrompt* prompt,
                                         const std::optional<Usage>& usage) const {
  if (prompt == nullptr || !prompt->token_ids) return "";
  std::string choice;
  AppendOpened(index, {}, choice);
  choice += "null,\"stop_reason\":null,";
  AppendIds("prompt_token_ids", &*prompt->token_ids, choice);
  choice += '}';
  return Frame(choice, usage);
}

std::string CompletionFormat::DeltaFrame(int64_t index, const AnswerDelta& delta,
                                         const std::optional<Usage>& usage) const {
  std::string choice;
  AppendOpened(index, delta, choice);
  choice += "null,\"stop_reason\":null";
  if (!delta.token_ids.empty()) {
    choice += ',';
    AppendIds("token_ids", &delta.token_ids, choice);
  }
  choice += '}';
  return Frame(choice, usage);
}

std::string CompletionFormat::FinishFrame(int64_t index, const ChoiceEnd& end,
                                          const std::optional<Usage>& usage) const {
  std::string choice;
  AppendOpened(index, {}, choice);
  choice += FinishMembers(end);
  choice += '}';
  return Frame(choice, usage);
}

void CompletionFormat::AppendChoice(int64_t index, const WholeChoice& choice,
                                    std::string& out) const {
  AppendOpened(index, choice.answer, out);
  out += FinishMembers(choice.end);
  out += ',';
  AppendIds("token_ids", choice.TokenIds(), out);
  out += ",\"prompt_logprobs\":";
  if (choice.prompt_scores) {
    logprobs_.AppendPrompt(*choice.prompt_scores, out);
  } else {
    out += "null";
  }
  out += ',';
  const bool told = choice.prompt != nullptr && choice.prompt->token_ids;
  AppendIds("prompt_token_ids", told ? &*choice.prompt->token_ids : nullptr, out);
  out += '}';
}

void CompletionFormat::AppendLastMembers(const std::vector<WholeChoice>&, std::string& out) const {
  out += ",\"kv_transfer_params\":null";
}

}  // namespace erne
