#include "cli/chat_conversation.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "api/chat_request.h"
#include "api/request_id.h"
#include "api/schema.h"
#include "base/strings.h"

namespace erne {
namespace {

// An answer gets at least this much room, or a quarter of the context where that is less.
constexpr int64_t kLeastRoom = 256;

// Fields that are honoured and belong to the conversation or to the wire.
constexpr std::string_view kNotSettings[] = {"model",
                                             "messages",
                                             "stream",
                                             "stream_options",
                                             "stream_interval",
                                             "n",
                                             "best_of",
                                             "tools",
                                             "tool_choice",
                                             "documents",
                                             "logprobs",
                                             "top_logprobs",
                                             "logprob_token_ids",
                                             "echo",
                                             "return_token_ids",
                                             "return_tokens_as_token_ids",
                                             "return_prompt_text",
                                             "show_expert_trace",
                                             "chat_template",
                                             "continue_final_message",
                                             "request_id",
                                             "response_format",
                                             "add_generation_prompt",
                                             "add_special_tokens"};

const RequestField* FindSetting(std::string_view name) {
  for (const RequestField& field : RequestFields()) {
    // Members of a field ("stream_options.include_usage") are not set one by one.
    if (field.name == name && name.find('.') == name.npos && field.IsFor(Endpoint::kChat) &&
        field.use == FieldUse::kHonoured &&
        std::find(std::begin(kNotSettings), std::end(kNotSettings), name) ==
            std::end(kNotSettings)) {
      return &field;
    }
  }
  return nullptr;
}

Status NoSuchSetting(const std::string& name) {
  std::vector<std::string> names;
  for (const RequestField& field : RequestFields()) {
    if (FindSetting(field.name) == &field) names.emplace_back(field.name);
  }
  const std::string nearest = Nearest(name, names);
  return InvalidArgument(StrCat("there is no setting '", name, "'",
                                nearest.empty() ? StrCat("; there are ", Join(names, ", "))
                                                : StrCat("; did you mean ", nearest, "?")));
}

Json OneMessage(std::string_view role, std::string_view content) {
  return Json::Of({{"role", role}, {"content", content}});
}

// A whole request with `settings`, parsed and checked.
Result<ChatRequest> MakeRequest(const Json& settings, Json messages) {
  Json body = settings;
  body.Set("messages", std::move(messages));
  std::vector<std::string> unknown;  // there are none: settings come out of the table
  return ParseChatRequest(body.Dump(), unknown);
}

}  // namespace

Result<Json::Member> ParseChatSetting(const std::string& name, const std::string& value) {
  std::string field_name = name;
  std::replace(field_name.begin(), field_name.end(), '-', '_');
  const RequestField* field = FindSetting(field_name);
  if (field == nullptr) return NoSuchSetting(field_name);
  if (value == "default") return Json::Member{field_name, Json()};
  Json parsed(value);
  const bool may_be_text =
      field->kind == FieldKind::kString || field->kind == FieldKind::kStringOrArray;
  const bool looks_like_json = !value.empty() && (value[0] == '[' || value[0] == '"');
  if (!may_be_text || looks_like_json) {
    // What is no JSON stays a text, and the check below says what the field takes instead.
    if (auto json = Json::Parse(value); json.ok()) parsed = *std::move(json);
  }
  Json settings = Json::MakeObject();
  settings.Set(field_name, parsed);
  const auto request = MakeRequest(settings, Json(Json::Array{OneMessage("user", "a")}));
  if (!request.ok()) return request.status();
  return Json::Member{field_name, std::move(parsed)};
}

ChatConversation::ChatConversation(std::shared_ptr<const ServedModel> model)
    : model_(std::move(model)), facts_(FindModelFacts(*model_)) {}

Status ChatConversation::Set(const Json::Member& setting) {
  Json settings = Json::MakeObject();
  for (const auto& [name, value] : settings_.AsObject()) {
    if (name != setting.first) settings.Set(name, value);
  }
  if (!setting.second.is_null()) settings.Set(setting.first, setting.second);
  ERNE_ASSIGN_OR_RETURN(const ChatRequest request,
                        MakeRequest(settings, Json(Json::Array{OneMessage("user", "a")})));
  const auto generation = MakeGeneration(request.options, *model_, facts_);
  if (!generation.ok()) return generation.status();
  settings_ = std::move(settings);
  return {};
}

Json ChatConversation::Messages(size_t first) const {
  Json messages = Json::MakeArray();
  if (!system_.empty()) messages.Push(OneMessage("system", system_));
  for (size_t i = first; i < turns_.size(); ++i) {
    messages.Push(OneMessage("user", turns_[i].user));
    // A question may have got no answer (it failed); the last one is about to get its own.
    const bool answered = i + 1 < turns_.size() && turns_[i].assistant.has_value();
    if (answered) messages.Push(OneMessage("assistant", *turns_[i].assistant));
  }
  return messages;
}

Result<ChatConversation::Question> ChatConversation::Build(size_t first) const {
  ERNE_ASSIGN_OR_RETURN(const ChatRequest request, MakeRequest(settings_, Messages(first)));
  const RequestOptions& options = request.options;
  Question question;
  ERNE_ASSIGN_OR_RETURN(question.generation, MakeChatGeneration(request, *model_, facts_));
  uint64_t& seed = question.generation.sampling.seed;
  seed = options.seed ? *options.seed + repeats_ : RandomBits();
  question.text = {.stop = options.stop,
                   .min_tokens = options.min_tokens,
                   .include_stop = options.include_stop,
                   .primary_end_token = facts_.end_tokens.empty() ? -1 : facts_.end_tokens.front(),
                   .skip_special_tokens = options.skip_special_tokens};
  question.dropped = static_cast<int64_t>(first);
  return question;
}

Result<ChatConversation::Question> ChatConversation::Fit() {
  const int64_t context = model_->engine->max_context();
  const int64_t least_room = std::min(kLeastRoom, context / 4);
  for (size_t first = 0;; ++first) {
    const bool last = first + 1 == turns_.size();
    Result<Question> question = Build(first);
    if (question.ok()) {
      const auto prompt = static_cast<int64_t>(question->generation.prompt.size());
      if (!last && context - prompt < least_room) continue;
      turns_.erase(turns_.begin(), turns_.begin() + static_cast<std::ptrdiff_t>(first));
      return question;
    }
    const std::string& param = question.status().param();
    const bool overflow =
        param == "messages" || param == "max_tokens" || param == "max_completion_tokens";
    if (!overflow || last) return question;
  }
}

Result<ChatConversation::Question> ChatConversation::Ask(const std::string& message) {
  repeats_ = 0;
  turns_.push_back({message, std::nullopt});
  Result<Question> question = Fit();
  if (!question.ok()) turns_.pop_back();
  return question;
}

Result<ChatConversation::Question> ChatConversation::AskAgain() {
  if (turns_.empty()) return InvalidArgument("nothing was asked yet");
  ++repeats_;
  return Fit();
}

void ChatConversation::SetAnswer(const std::string& text) {
  if (!text.empty()) {
    turns_.back().assistant = text;
  } else if (!turns_.back().assistant) {
    turns_.pop_back();
  }
}

std::string ChatConversation::Save() const {
  std::string out = "{\"model\":";
  AppendJsonString(model_->names.front(), out);
  for (const auto& [name, value] : settings_.AsObject()) {
    out += ",";
    AppendJsonString(name, out);
    out += ":";
    out += value.Dump();
  }
  out += ",\n\"messages\":[";
  Json messages = Messages(0);
  if (!turns_.empty() && turns_.back().assistant) {
    messages.Push(OneMessage("assistant", *turns_.back().assistant));
  }
  const char* separator = "\n";
  for (const Json& message : messages.AsArray()) {
    out += separator;
    out += message.Dump();
    separator = ",\n";
  }
  return out + "\n]}\n";
}

}  // namespace erne
