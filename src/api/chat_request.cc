#include "api/chat_request.h"

#include <algorithm>
#include <limits>

#include "api/chat_messages.h"
#include "api/request_id.h"
#include "api/schema.h"
#include "base/strings.h"

namespace erne {
namespace {

// Stop texts are compared with every piece of an answer, so there is a bound; OpenAI allows 4, vLLM
// any number.
constexpr size_t kMaxStops = 64;
constexpr size_t kMaxStopBytes = 16 * 1024;
constexpr size_t kMaxStopTokens = 1024;

Status Fault(std::string_view field, std::string_view what) {
  return InvalidArgument(StrCat("`", field, "` ", what), std::string(field));
}

bool Flag(const Json& body, std::string_view name, bool fallback) {
  const Json* value = Given(body, name);
  return value == nullptr ? fallback : value->AsBool();
}

std::optional<float> Number(const Json& body, std::string_view name) {
  const Json* value = Given(body, name);
  if (value == nullptr) return std::nullopt;
  return static_cast<float>(value->AsDouble());
}

std::string Text(const Json& body, std::string_view name) {
  const Json* value = Given(body, name);
  return value == nullptr ? std::string() : value->AsString();
}

void ReadSampling(const Json& body, ChatRequest& request) {
  request.temperature = Number(body, "temperature");
  // A positive double may be no positive float; the smallest one keeps it within its limits.
  constexpr float kSmallest = std::numeric_limits<float>::min();
  if (const auto top_p = Number(body, "top_p")) request.top_p = std::max(*top_p, kSmallest);
  if (const auto penalty = Number(body, "repetition_penalty")) {
    request.repetition_penalty = std::max(*penalty, kSmallest);
  }
  if (const Json* top_k = Given(body, "top_k")) {
    // More than any vocabulary holds is all of it.
    request.top_k = static_cast<int32_t>(
        std::min<int64_t>(WholeValue(*top_k), std::numeric_limits<int32_t>::max()));
  }
  if (const Json* seed = Given(body, "seed"))
    request.seed = static_cast<uint64_t>(WholeValue(*seed));
  if (const Json* n = Given(body, "n")) request.choices = WholeValue(*n);
  for (const char* field : {"max_tokens", "max_completion_tokens"}) {
    if (const Json* value = Given(body, field)) {
      request.max_tokens = WholeValue(*value);
      request.max_tokens_field = field;
    }
  }
  request.ignore_eos = Flag(body, "ignore_eos", false);
}

Status ReadStops(const Json& body, ChatRequest& request) {
  request.include_stop = Flag(body, "include_stop_str_in_output", false);
  request.skip_special_tokens = Flag(body, "skip_special_tokens", true);
  if (const Json* stop = Given(body, "stop")) {
    const Json::Array one = {*stop};
    const Json::Array& texts = stop->is_array() ? stop->AsArray() : one;
    if (texts.size() > kMaxStops) {
      return Fault("stop", StrCat("must hold at most ", kMaxStops, " strings, not ", texts.size()));
    }
    size_t bytes = 0;
    for (const Json& text : texts) {
      if (!text.is_string())
        return Fault("stop", StrCat("must hold strings only, not ", text.KindName()));
      if (text.AsString().empty()) return Fault("stop", "must not hold an empty string");
      bytes += text.AsString().size();
      request.stop.push_back(text.AsString());
    }
    if (bytes > kMaxStopBytes) {
      return Fault("stop",
                   StrCat("must be at most ", kMaxStopBytes, " bytes together, not ", bytes));
    }
  }
  if (const Json* ids = Given(body, "stop_token_ids")) {
    if (ids->AsArray().size() > kMaxStopTokens) {
      return Fault("stop_token_ids", StrCat("must hold at most ", kMaxStopTokens, " ids, not ",
                                            ids->AsArray().size()));
    }
    for (const Json& id : ids->AsArray()) {
      if (!IsWhole(id) || WholeValue(id) < 0 ||
          WholeValue(id) > std::numeric_limits<int32_t>::max()) {
        return Fault("stop_token_ids", StrCat("must hold token ids only, not ", Shown(id)));
      }
      request.stop_token_ids.push_back(static_cast<int32_t>(WholeValue(id)));
    }
  }
  return {};
}

Status ReadStreaming(const Json& body, ChatRequest& request) {
  request.stream = Flag(body, "stream", false);
  const Json* options = Given(body, "stream_options");
  if (options == nullptr) return {};
  if (!request.stream) return Fault("stream_options", "is for `stream`: true only");
  for (const char* name : {"include_usage", "continuous_usage_stats"}) {
    const Json* value = Given(*options, name);
    if (value != nullptr && !value->is_bool()) {
      return Fault(StrCat("stream_options.", name),
                   StrCat("must be true or false, not ", value->KindName()));
    }
  }
  request.include_usage = Flag(*options, "include_usage", false);
  request.continuous_usage =
      request.include_usage && Flag(*options, "continuous_usage_stats", false);
  return {};
}

// Tools may be described to the model; that it calls them is not read out of its answers yet.
Status ReadTools(const Json& body, ChatRequest& request) {
  const Json* tools = Given(body, "tools");
  const Json* choice = Given(body, "tool_choice");
  const bool none = choice != nullptr && *choice == Json("none");
  const bool has_tools = tools != nullptr && !tools->AsArray().empty();
  if (has_tools && !none) {
    return Fault("tools",
                 "with a `tool_choice` other than \"none\" are not supported yet: leave them out");
  }
  if (choice != nullptr && !none && *choice != Json("auto")) {
    return Fault("tool_choice", StrCat("must be \"none\" or \"auto\", not ", Shown(*choice)));
  }
  if (!has_tools) return {};
  for (size_t i = 0; i < tools->AsArray().size(); ++i) {
    if (!tools->AsArray()[i].is_object())
      return Fault(StrCat("tools[", i, "]"), "must be an object");
  }
  request.tools = *tools;
  return {};
}

Status ReadPrompt(const Json& body, ChatRequest& request) {
  const Json* messages = Given(body, "messages");
  if (messages == nullptr) return Fault("messages", "is missing");
  ERNE_ASSIGN_OR_RETURN(request.messages, TemplateMessages(*messages));
  ERNE_RETURN_IF_ERROR(ReadTools(body, request));
  if (const Json* documents = Given(body, "documents")) request.documents = *documents;
  if (const Json* variables = Given(body, "chat_template_kwargs")) {
    for (const char* name : {"messages", "tools", "documents"}) {
      if (variables->Find(name) != nullptr) {
        return Fault("chat_template_kwargs", StrCat("must not hold `", name, "`"));
      }
    }
    request.template_variables = *variables;
  }
  const Json* effort = Given(body, "reasoning_effort");
  if (effort != nullptr && request.template_variables.Find("reasoning_effort") == nullptr) {
    request.template_variables.Set("reasoning_effort", *effort);
  }
  request.add_generation_prompt = Flag(body, "add_generation_prompt", true);
  return {};
}

Status CheckResponseFormat(const Json& body) {
  const Json* format = Given(body, "response_format");
  if (format == nullptr) return {};
  const Json* type = Given(*format, "type");
  if (type != nullptr && *type == Json("text")) return {};
  return Fault("response_format", StrCat("of type ", type == nullptr ? "null" : Shown(*type),
                                         " is not supported yet: only {\"type\":\"text\"} is"));
}

}  // namespace

Result<ChatRequest> ParseChatRequest(std::string_view body, std::vector<std::string>& unknown) {
  ERNE_ASSIGN_OR_RETURN(const Json json, Json::Parse(body));
  if (!json.is_object()) {
    return InvalidArgument(StrCat("the body must be a JSON object, not ", json.KindName()));
  }
  ERNE_RETURN_IF_ERROR(CheckFields(json, ChatRequestFields(), unknown));
  ChatRequest request;
  request.model = Text(json, "model");
  request.request_id = Text(json, "request_id");
  if (Given(json, "request_id") != nullptr && !IsUsableId(request.request_id)) {
    return Fault("request_id", "must be 1 to 128 letters, digits, '-', '_', '.' or ':'");
  }
  ERNE_RETURN_IF_ERROR(ReadPrompt(json, request));
  ReadSampling(json, request);
  ERNE_RETURN_IF_ERROR(ReadStops(json, request));
  ERNE_RETURN_IF_ERROR(ReadStreaming(json, request));
  ERNE_RETURN_IF_ERROR(CheckResponseFormat(json));
  return request;
}

}  // namespace erne
