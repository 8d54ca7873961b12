#include "api/answer_format.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "api/errors.h"
#include "base/strings.h"

namespace erne {
namespace {

// Answers of the same build and model are the same for the same seed: the build is the fingerprint.
constexpr const char* kFingerprint = "erne-" ERNE_VERSION;

void AppendTrace(const std::optional<Json>& expert_trace, std::string& out) {
  if (!expert_trace) return;
  out += ",\"expert_trace\":";
  expert_trace->DumpTo(out);
}

}  // namespace

const char* FinishReasonName(FinishReason reason) {
  switch (reason) {
    case FinishReason::kStop:
    case FinishReason::kComplete:
      return "stop";
    case FinishReason::kRepetition:
      return "stop";  // clients know no other word for an end before the limit
    case FinishReason::kLength:
      return "length";
    case FinishReason::kAbort:
      return "abort";
  }
  return "abort";
}

std::string FinishMembers(const ChoiceEnd& end) {
  const bool by_itself = end.reason == FinishReason::kStop || end.reason == FinishReason::kComplete;
  const bool calls = end.has_calls && by_itself;
  return StrCat('"', calls ? "tool_calls" : FinishReasonName(end.reason),
                "\",\"stop_reason\":", end.stop_reason.Dump());
}

void AnswerDelta::Append(AnswerDelta more) {
  text += more.text;
  std::move(more.tokens.begin(), more.tokens.end(), std::back_inserter(tokens));
  token_ids.insert(token_ids.end(), more.token_ids.begin(), more.token_ids.end());
  reasoning += more.reasoning;
  std::move(more.calls.begin(), more.calls.end(), std::back_inserter(calls));
}

Json Usage::ToJson() const {
  Json json = Json::Of({{"prompt_tokens", prompt_tokens},
                        {"total_tokens", prompt_tokens + completion_tokens},
                        {"completion_tokens", completion_tokens}});
  if (cached_tokens) {
    json.Set("prompt_tokens_details", Json::Of({{"cached_tokens", *cached_tokens}}));
  }
  if (reasoning_tokens) {
    json.Set("completion_tokens_details", Json::Of({{"reasoning_tokens", *reasoning_tokens}}));
  }
  return json;
}

AnswerFormat::AnswerFormat(Head head)
    : head_(std::move(head)), frame_head_("data: " + Opened(head_.chunk_object)) {}

// Up to the choices, with the object and the array open.
std::string AnswerFormat::Opened(std::string_view object) const {
  std::string text = Json::Of({{"id", head_.id},
                               {"object", object},
                               {"created", head_.created},
                               {"model", head_.model}})
                         .Dump();
  text.pop_back();
  return text + ",\"choices\":[";
}

// Built from pieces and not from a Json value: one is made for every token.
std::string AnswerFormat::Frame(std::string_view choice, const std::optional<Usage>& usage,
                                std::string_view members) const {
  std::string out = frame_head_;
  out += choice;
  out += ']';
  out += members;
  if (usage) {
    out += ",\"usage\":";
    usage->ToJson().DumpTo(out);
  }
  out += "}\n\n";
  return out;
}

std::string AnswerFormat::LastFrame(const std::optional<Usage>& usage,
                                    const std::optional<Json>& expert_trace) const {
  std::string out = frame_head_ + "]";
  if (usage) {
    out += ",\"usage\":";
    usage->ToJson().DumpTo(out);
  }
  out += ",\"system_fingerprint\":";
  AppendJsonString(kFingerprint, out);
  AppendTrace(expert_trace, out);
  out += "}\n\n";
  return out;
}

void AnswerFormat::AppendIds(std::string_view name, const std::vector<int32_t>* ids,
                             std::string& out) {
  AppendJsonString(name, out);
  out += ':';
  if (ids == nullptr) {
    out += "null";
    return;
  }
  out += '[';
  for (size_t i = 0; i < ids->size(); ++i) {
    if (i > 0) out += ',';
    out += std::to_string((*ids)[i]);
  }
  out += ']';
}

std::string AnswerFormat::ErrorFrame(const Status& error) {
  return StrCat("data: ", ErrorBody(error).Dump(), "\n\n");
}

std::string AnswerFormat::DoneFrame() { return "data: [DONE]\n\n"; }

std::string AnswerFormat::Whole(const std::vector<WholeChoice>& choices, const Usage& usage,
                                const std::optional<Json>& expert_trace) const {
  std::string out = Opened(head_.object);
  for (size_t i = 0; i < choices.size(); ++i) {
    if (i > 0) out += ',';
    AppendChoice(static_cast<int64_t>(i), choices[i], out);
  }
  out += "],\"service_tier\":null,\"system_fingerprint\":";
  AppendJsonString(kFingerprint, out);
  out += ",\"usage\":";
  usage.ToJson().DumpTo(out);
  AppendLastMembers(choices, out);
  AppendTrace(expert_trace, out);
  out += '}';
  return out;
}

}  // namespace erne
