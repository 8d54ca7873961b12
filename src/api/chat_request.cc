#include "api/chat_request.h"

#include <utility>
#include <vector>

#include "api/answer_form.h"
#include "api/chat_messages.h"
#include "api/schema.h"
#include "base/strings.h"

namespace erne {
namespace {

// Adds the definitions of a function to those of all.
Status AddDefinitions(const Json& of_function, Json& definitions) {
  for (const auto& [name, schema] : of_function.AsObject()) {
    const Json* other = definitions.Find(name);
    if (other != nullptr && *other != schema) {
      return FieldFault("tools", StrCat("two functions define $defs/", name,
                                        " differently, which a forced `tool_choice` cannot serve"));
    }
    definitions.Set(name, schema);
  }
  return {};
}

// A call of a function: its name, and arguments as its parameters say. Definitions that these refer
// to go to `definitions`, as references begin at the root of a schema.
Result<Json> CallSchema(const Json& function, Json& definitions) {
  const Json* parameters = Given(function, "parameters");
  Json arguments = Json::Of({{"type", "object"}});
  if (parameters != nullptr && parameters->is_object()) {
    arguments = Json::MakeObject();
    for (const auto& [key, value] : parameters->AsObject()) {
      if (key != "$defs") arguments.Set(key, value);
    }
    const Json* of_function = Given(*parameters, "$defs");
    if (of_function != nullptr && of_function->is_object())
      ERNE_RETURN_IF_ERROR(AddDefinitions(*of_function, definitions));
  }
  Json required = Json::MakeArray();
  required.Push("name");
  required.Push("arguments");
  return Json::Of(
      {{"type", "object"},
       {"properties", Json::Of({{"name", Json::Of({{"const", function.Find("name")->AsString()}})},
                                {"arguments", std::move(arguments)}})},
       {"required", std::move(required)},
       {"additionalProperties", false}});
}

// The answer is calls of some of `functions` in JSON: one, or with `parallel` one or more.
Result<AnswerForm> FormOfCalls(const std::vector<const Json*>& functions, bool parallel) {
  Json definitions = Json::MakeObject();
  Json calls = Json::MakeArray();
  for (const Json* function : functions) {
    ERNE_ASSIGN_OR_RETURN(Json call, CallSchema(*function, definitions));
    calls.Push(std::move(call));
  }
  Json schema = Json::Of({{"type", "array"},
                          {"minItems", 1},
                          {"items", Json::Of({{"anyOf", std::move(calls)}})},
                          {"$defs", std::move(definitions)}});
  if (!parallel) schema.Set("maxItems", 1);
  return AnswerForm{{grammar::Form::Kind::kJsonSchema, schema.Dump()}, "tools"};
}

// Which calls the model may or must make. body: ReadTools has passed it.
Status ReadToolChoice(const Json& body, ChatRequest& request) {
  const Json* choice = Given(body, "tool_choice");
  const Json& tools = request.conversation.tools;
  const bool has_tools = tools.is_array() && !tools.AsArray().empty();
  const bool none = choice != nullptr && *choice == Json("none");
  request.reads_calls = has_tools && !none;
  if (choice == nullptr || none || *choice == Json("auto")) return {};
  const Json* wanted = choice->is_object() ? Given(*choice, "function") : nullptr;
  const Json* named = wanted != nullptr && wanted->is_object() ? Given(*wanted, "name") : nullptr;
  const std::string name = named != nullptr && named->is_string() ? named->AsString() : "";
  if (*choice != Json("required") && name.empty()) {
    return FieldFault("tool_choice",
                      StrCat("must be \"none\", \"auto\", \"required\" or {\"type\": "
                             "\"function\", \"function\": {\"name\": ...}}, not ",
                             Shown(*choice)));
  }
  std::vector<const Json*> functions;
  for (size_t i = 0; has_tools && i < tools.AsArray().size(); ++i) {
    const Json* function = tools.AsArray()[i].Find("function");
    if (name.empty() || function->Find("name")->AsString() == name) functions.push_back(function);
  }
  if (functions.empty()) {
    return FieldFault("tool_choice", name.empty()
                                         ? "\"required\" needs `tools`"
                                         : StrCat("no tool is called ", Shown(Json(name))));
  }
  if (request.options.form.has_value()) {
    return FieldFault("tool_choice", StrCat("makes the answer a call, and `",
                                            request.options.form->field, "` wants another form"));
  }
  request.forces_calls = true;
  ERNE_ASSIGN_OR_RETURN(request.options.form,
                        FormOfCalls(functions, request.parallel_tool_calls && name.empty()));
  return {};
}

Status ReadTools(const Json& body, Conversation& conversation) {
  const Json* tools = Given(body, "tools");
  if (tools == nullptr || tools->AsArray().empty()) return {};
  for (size_t i = 0; i < tools->AsArray().size(); ++i) {
    const Json& tool = tools->AsArray()[i];
    const std::string place = StrCat("tools[", i, "]");
    if (!tool.is_object()) return FieldFault(place, "must be an object");
    const Json* function = Given(tool, "function");
    if (function == nullptr || !function->is_object()) {
      return FieldFault(place + ".function", "must be an object");
    }
    const Json* name = Given(*function, "name");
    if (name == nullptr || !name->is_string()) {
      return FieldFault(place + ".function.name", "must be a string");
    }
  }
  conversation.tools = *tools;
  return {};
}

// What the prompt ends with.
Status ReadPromptEnd(const Json& body, Conversation& conversation) {
  conversation.continue_final_message = FlagMember(body, "continue_final_message", false);
  conversation.add_generation_prompt =
      FlagMember(body, "add_generation_prompt", !conversation.continue_final_message);
  if (!conversation.continue_final_message) return {};
  if (conversation.add_generation_prompt) {
    return FieldFault("continue_final_message", "is not for `add_generation_prompt`: true");
  }
  if (Strip(conversation.messages.AsArray().back().Find("content")->AsString()).empty()) {
    return FieldFault("continue_final_message", "needs a last message with a text to go on with");
  }
  return {};
}

}  // namespace

Result<Conversation> ReadConversation(const Json& body) {
  Conversation conversation;
  const Json* messages = Given(body, "messages");
  if (messages == nullptr) return FieldFault("messages", "is missing");
  ERNE_ASSIGN_OR_RETURN(conversation.messages, TemplateMessages(*messages));
  ERNE_RETURN_IF_ERROR(ReadTools(body, conversation));
  if (const Json* documents = Given(body, "documents")) conversation.documents = *documents;
  if (const Json* variables = Given(body, "chat_template_kwargs")) {
    for (const char* name : {"messages", "tools", "documents"}) {
      if (variables->Find(name) != nullptr) {
        return FieldFault("chat_template_kwargs", StrCat("must not hold `", name, "`"));
      }
    }
    conversation.template_variables = *variables;
  }
  const Json* effort = Given(body, "reasoning_effort");
  if (effort != nullptr && conversation.template_variables.Find("reasoning_effort") == nullptr) {
    conversation.template_variables.Set("reasoning_effort", *effort);
  }
  conversation.chat_template = TextMember(body, "chat_template");
  ERNE_RETURN_IF_ERROR(ReadPromptEnd(body, conversation));
  conversation.add_special_tokens = FlagMember(body, "add_special_tokens", false);
  return conversation;
}

Result<ChatRequest> ParseChatRequest(std::string_view body, std::vector<std::string>& unknown) {
  ERNE_ASSIGN_OR_RETURN(const Json json, ParseBody(body, Endpoint::kChat, unknown));
  ChatRequest request;
  request.parallel_tool_calls = FlagMember(json, "parallel_tool_calls", true);
  request.include_reasoning = FlagMember(json, "include_reasoning", true);
  ERNE_ASSIGN_OR_RETURN(request.conversation, ReadConversation(json));
  ERNE_ASSIGN_OR_RETURN(request.options, ReadRequestOptions(json, Endpoint::kChat));
  ERNE_RETURN_IF_ERROR(ReadToolChoice(json, request));
  request.echo = FlagMember(json, "echo", false);
  return request;
}

}  // namespace erne
