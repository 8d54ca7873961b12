#include "api/chat_response.h"

#include <utility>

#include "api/errors.h"
#include "base/strings.h"

namespace erne {
namespace {

// Answers of the same build and model are the same for the same seed: the build is the fingerprint.
constexpr const char* kFingerprint = "erne-" ERNE_VERSION;

}  // namespace

const char* FinishReasonName(FinishReason reason) {
  switch (reason) {
    case FinishReason::kStop:
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

Json Usage::ToJson() const {
  return Json::Of({{"prompt_tokens", prompt_tokens},
                   {"total_tokens", prompt_tokens + completion_tokens},
                   {"completion_tokens", completion_tokens}});
}

ChatResponse::ChatResponse(std::string id, int64_t created, std::string model)
    : id_(std::move(id)), created_(created), model_(std::move(model)) {
  std::string head = Json::Of({{"id", id_},
                               {"object", "chat.completion.chunk"},
                               {"created", created_},
                               {"model", model_}})
                         .Dump();
  head.pop_back();  // the object stays open
  chunk_head_ = StrCat("data: ", head, ",\"choices\":[");
}

// `delta` and `finish` are JSON. Built from pieces and not from a Json value: one is made for every
// token.
std::string ChatResponse::Chunk(int64_t index, std::string_view delta, std::string_view finish,
                                const std::optional<Usage>& usage) const {
  std::string out = chunk_head_;
  out += "{\"index\":";
  out += std::to_string(index);
  out += ",\"delta\":";
  out += delta;
  out += ",\"logprobs\":null,\"finish_reason\":";
  out += finish;
  out += "}]";
  if (usage) {
    out += ",\"usage\":";
    usage->ToJson().DumpTo(out);
  }
  out += "}\n\n";
  return out;
}

std::string ChatResponse::RoleChunk(int64_t index, const std::optional<Usage>& usage) const {
  return Chunk(index, R"({"role":"assistant","content":""})", "null", usage);
}

std::string ChatResponse::ContentChunk(int64_t index, std::string_view text,
                                       const std::optional<Usage>& usage) const {
  std::string delta = "{\"content\":";
  AppendJsonString(text, delta);
  delta += '}';
  return Chunk(index, delta, "null", usage);
}

std::string ChatResponse::FinishChunk(int64_t index, const ChoiceEnd& end,
                                      const std::optional<Usage>& usage) const {
  const std::string finish =
      StrCat('"', FinishReasonName(end.reason), "\",\"stop_reason\":", end.stop_reason.Dump());
  return Chunk(index, R"({"content":""})", finish, usage);
}

std::string ChatResponse::UsageChunk(const Usage& usage) const {
  std::string out = chunk_head_ + "],\"usage\":";
  usage.ToJson().DumpTo(out);
  out += ",\"system_fingerprint\":";
  AppendJsonString(kFingerprint, out);
  out += "}\n\n";
  return out;
}

std::string ChatResponse::ErrorFrame(const Status& error) {
  return StrCat("data: ", ErrorBody(error).Dump(), "\n\n");
}

std::string ChatResponse::DoneFrame() { return "data: [DONE]\n\n"; }

std::string ChatResponse::Whole(const std::vector<WholeChoice>& choices, const Usage& usage) const {
  Json list = Json::MakeArray();
  for (size_t i = 0; i < choices.size(); ++i) {
    const WholeChoice& choice = choices[i];
    Json message = Json::Of({{"role", "assistant"},
                             {"content", choice.text},
                             {"refusal", Json()},
                             {"reasoning", Json()}});
    list.Push(Json::Of({{"index", i},
                        {"message", std::move(message)},
                        {"logprobs", Json()},
                        {"finish_reason", FinishReasonName(choice.end.reason)},
                        {"stop_reason", choice.end.stop_reason},
                        {"token_ids", Json()}}));
  }
  return Json::Of({{"id", id_},
                   {"object", "chat.completion"},
                   {"created", created_},
                   {"model", model_},
                   {"choices", std::move(list)},
                   {"service_tier", Json()},
                   {"system_fingerprint", kFingerprint},
                   {"usage", usage.ToJson()},
                   {"prompt_logprobs", Json()},
                   {"kv_transfer_params", Json()}})
      .Dump();
}

}  // namespace erne
