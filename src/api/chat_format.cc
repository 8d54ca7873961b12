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
  std::string out;
  const bool only_calls = delta.text.empty() && delta.reasoning.empty() && delta.tokens.empty() &&
                          delta.token_ids.empty();
  if (!only_calls) out = TextFrame(index, delta, usage);
  for (const ToolCall& call : delta.calls) {
    out += CallFrame(index, call, /*head=*/true, usage);
    out += CallFrame(index, call, /*head=*/false, usage);
  }
  return out;
}

std::string ChatFormat::TextFrame(int64_t index, const AnswerDelta& delta,
                                  const std::optional<Usage>& usage) const {
  std::string choice = "{\"index\":";
  choice += std::to_string(index);
  choice += ",\"delta\":{";
  if (!delta.reasoning.empty()) {
    AppendReasoning(delta.reasoning, choice);
    if (!delta.text.empty()) choice += ',';
  }
  if (!delta.text.empty() || delta.reasoning.empty()) {
    choice += "\"content\":";
    AppendJsonString(delta.text, choice);
  }
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

// The first piece of a call brings its id and name, the second its arguments.
std::string ChatFormat::CallFrame(int64_t index, const ToolCall& call, bool head,
                                  const std::optional<Usage>& usage) const {
  std::string choice =
      StrCat("{\"index\":", index, R"(,"delta":{"tool_calls":[{"index":)", call.index, ",");
  if (head) {
    AppendCall(call.id, call.name, "", choice);
  } else {
    choice += R"("function":{"arguments":)";
    AppendJsonString(call.arguments, choice);
    choice += '}';
  }
  choice += R"(}]},"logprobs":null,"finish_reason":null})";
  return Frame(choice, usage);
}

// By the name that vLLM gives it now, and by that of DeepSeek's API.
void ChatFormat::AppendReasoning(std::string_view reasoning, std::string& out) {
  out += "\"reasoning\":";
  AppendJsonString(reasoning, out);
  out += ",\"reasoning_content\":";
  AppendJsonString(reasoning, out);
}

void ChatFormat::AppendCall(std::string_view id, std::string_view name, std::string_view arguments,
                            std::string& out) {
  out += "\"id\":";
  AppendJsonString(id, out);
  out += R"(,"type":"function","function":{"name":)";
  AppendJsonString(name, out);
  out += ",\"arguments\":";
  AppendJsonString(arguments, out);
  out += '}';
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
  const AnswerDelta& answer = choice.answer;
  if (answer.text.empty() && !answer.calls.empty()) {
    out += "null";
  } else {
    AppendJsonString(answer.text, out);
  }
  out += R"(,"refusal":null,)";
  if (answer.reasoning.empty()) {
    out += "\"reasoning\":null";
  } else {
    AppendReasoning(answer.reasoning, out);
  }
  for (const ToolCall& call : answer.calls) {
    out += call.index == 0 ? ",\"tool_calls\":[{" : ",{";
    AppendCall(call.id, call.name, call.arguments, out);
    out += '}';
  }
  if (!answer.calls.empty()) out += ']';
  out += '}';
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
