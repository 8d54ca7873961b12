#include "api/chat_request.h"

#include "api/chat_messages.h"
#include "api/schema.h"
#include "base/strings.h"

namespace erne {
namespace {

// Whether the model may call tools.
Result<bool> ReadToolChoice(const Json& body) {
  const Json* tools = Given(body, "tools");
  const Json* choice = Given(body, "tool_choice");
  const bool none = choice != nullptr && *choice == Json("none");
  if (choice != nullptr && !none && *choice != Json("auto")) {
    return FieldFault("tool_choice", StrCat("must be \"none\" or \"auto\", not ", Shown(*choice)));
  }
  return tools != nullptr && !tools->AsArray().empty() && !none;
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
  ERNE_ASSIGN_OR_RETURN(request.reads_calls, ReadToolChoice(json));
  request.parallel_tool_calls = FlagMember(json, "parallel_tool_calls", true);
  request.include_reasoning = FlagMember(json, "include_reasoning", true);
  ERNE_ASSIGN_OR_RETURN(request.conversation, ReadConversation(json));
  ERNE_ASSIGN_OR_RETURN(request.options, ReadRequestOptions(json, Endpoint::kChat));
  request.echo = FlagMember(json, "echo", false);
  return request;
}

}  // namespace erne
