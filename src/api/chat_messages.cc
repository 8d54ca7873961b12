#include "api/chat_messages.h"

#include <string>
#include <string_view>
#include <utility>

#include "api/schema.h"
#include "base/strings.h"

namespace erne {
namespace {

Status Fault(const std::string& place, std::string_view what) {
  return InvalidArgument(StrCat("`", place, "` ", what), place);
}

// What a part that is no text carries, by the names that OpenAI's API and vLLM give to parts; ""
// when it is text.
std::string_view MediumOf(std::string_view type) {
  if (type.find("image") != std::string_view::npos) return "an image";
  if (type.find("audio") != std::string_view::npos) return "audio";
  if (type.find("video") != std::string_view::npos) return "a video";
  if (type.find("file") != std::string_view::npos) return "a file";
  return "";
}

Result<std::string> PartText(const Json& part, const std::string& place) {
  if (part.is_string()) return part.AsString();
  if (!part.is_object()) return Fault(place, StrCat("must be a text part, not ", part.KindName()));
  const Json* type = Given(part, "type");
  if (type == nullptr || !type->is_string())
    return Fault(place + ".type", "must be a string: \"text\"");
  const std::string& name = type->AsString();
  if (const std::string_view medium = MediumOf(name); !medium.empty()) {
    return Fault(place, StrCat("is ", medium, " (", Shown(*type), "): this model reads text only"));
  }
  if (name != "text" && name != "input_text" && name != "output_text") {
    return Fault(place + ".type", StrCat("must be \"text\", not ", Shown(*type)));
  }
  const Json* text = Given(part, "text");
  if (text == nullptr) return Fault(place + ".text", "is missing");
  if (!text->is_string())
    return Fault(place + ".text", StrCat("must be a string, not ", text->KindName()));
  return text->AsString();
}

Result<std::string> ContentText(const Json* content, bool may_be_absent, const std::string& place) {
  if (content == nullptr) {
    if (may_be_absent) return std::string();
    return Fault(place, "is missing: a string or an array of text parts is needed");
  }
  if (content->is_string()) return content->AsString();
  if (!content->is_array()) {
    return Fault(place,
                 StrCat("must be a string or an array of text parts, not ", content->KindName()));
  }
  std::string text;
  const Json::Array& parts = content->AsArray();
  for (size_t i = 0; i < parts.size(); ++i) {
    ERNE_ASSIGN_OR_RETURN(const std::string part, PartText(parts[i], StrCat(place, "[", i, "]")));
    if (i > 0) text += '\n';
    text += part;
  }
  return text;
}

Result<Json> TemplateToolCall(const Json& call, const std::string& place) {
  const Json* function = Given(call, "function");
  if (!call.is_object() || function == nullptr || !function->is_object()) {
    return Fault(place + ".function", "must be an object");
  }
  const Json* name = Given(*function, "name");
  if (name == nullptr || !name->is_string())
    return Fault(place + ".function.name", "must be a string");
  Json arguments = Json::MakeObject();
  if (const Json* given = Given(*function, "arguments")) {
    if (given->is_object()) {
      arguments = *given;
    } else if (!given->is_string()) {
      return Fault(place + ".function.arguments", "must be JSON in a string");
    } else if (!Strip(given->AsString()).empty()) {
      Result<Json> parsed = Json::Parse(given->AsString());
      if (!parsed.ok())
        return Fault(place + ".function.arguments", StrCat("is ", parsed.status().message()));
      arguments = *std::move(parsed);
    }
  }
  Json result = call;
  Json described = *function;
  described.Set("arguments", std::move(arguments));
  result.Set("function", std::move(described));
  return result;
}

Status AddToolCalls(const Json& message, const std::string& place, Json& out) {
  const Json* calls = Given(message, "tool_calls");
  if (calls == nullptr) return {};
  if (!calls->is_array()) return Fault(place + ".tool_calls", "must be an array");
  Json result = Json::MakeArray();
  for (size_t i = 0; i < calls->AsArray().size(); ++i) {
    ERNE_ASSIGN_OR_RETURN(
        Json call, TemplateToolCall(calls->AsArray()[i], StrCat(place, ".tool_calls[", i, "]")));
    result.Push(std::move(call));
  }
  if (!result.AsArray().empty()) out.Set("tool_calls", std::move(result));
  return {};
}

Result<Json> TemplateMessage(const Json& message, const std::string& place) {
  if (!message.is_object())
    return Fault(place, StrCat("must be an object, not ", message.KindName()));
  const Json* role = Given(message, "role");
  if (role == nullptr) return Fault(place + ".role", "is missing");
  if (!role->is_string())
    return Fault(place + ".role", StrCat("must be a string, not ", role->KindName()));
  const std::string& name = role->AsString();
  if (name != "system" && name != "developer" && name != "user" && name != "assistant" &&
      name != "tool") {
    return Fault(place + ".role",
                 StrCat("must be system, developer, user, assistant or tool, not ", Shown(*role)));
  }
  Json out = Json::Of({{"role", name == "developer" ? "system" : name}});
  ERNE_ASSIGN_OR_RETURN(std::string content, ContentText(Given(message, "content"),
                                                         name == "assistant", place + ".content"));
  out.Set("content", std::move(content));
  for (const char* member : {"name", "tool_call_id", "reasoning", "reasoning_content"}) {
    const Json* value = Given(message, member);
    if (value == nullptr) continue;
    if (!value->is_string()) {
      return Fault(StrCat(place, ".", member), StrCat("must be a string, not ", value->KindName()));
    }
    out.Set(member, *value);
  }
  ERNE_RETURN_IF_ERROR(AddToolCalls(message, place, out));
  return out;
}

}  // namespace

Result<Json> TemplateMessages(const Json& messages) {
  const Json::Array& given = messages.AsArray();
  if (given.empty()) return Fault("messages", "must not be empty");
  Json out = Json::MakeArray();
  for (size_t i = 0; i < given.size(); ++i) {
    ERNE_ASSIGN_OR_RETURN(Json message, TemplateMessage(given[i], StrCat("messages[", i, "]")));
    out.Push(std::move(message));
  }
  return out;
}

}  // namespace erne
