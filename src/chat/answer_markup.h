// How a model marks reasoning and tool calls in its answers, as far as its chat template shows.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace erne {

enum class ToolCallForm {
  kNone,    // calls are not looked for
  kHermes,  // <tool_call>{"name":..., "arguments":...}</tool_call>, as Qwen and ERNIE write them
  // The answer is {"name":..., "parameters":...}, more of them behind ';'; or anywhere behind
  // <|python_tag|>.
  kLlama,
  kMistral,  // [TOOL_CALLS][{"name":..., "arguments":...}], or [TOOL_CALLS]name[ARGS]{...}
  kJson,     // the answer is a call as JSON, or an array of calls
};

struct AnswerMarkup {
  ToolCallForm tool_calls = ToolCallForm::kNone;
  bool reasoning = false;      // in front, up to </think>
  bool response_tags = false;  // then the answer between <response> and </response>
};

// The form that the source of a chat template shows. What shows none may call tools in JSON.
AnswerMarkup MarkupOfTemplate(std::string_view source);

// The forms by the names of their parsers, those of vLLM among them; nullopt: no such name. "auto"
// is no form.
std::optional<ToolCallForm> ToolCallFormNamed(std::string_view name);
std::vector<std::string> ToolCallFormNames();

// The markers that any of the forms reads: where a tokenizer has them as control tokens, they are
// part of the text that is parsed.
std::vector<std::string_view> AnswerMarkers(const AnswerMarkup& markup);

}  // namespace erne
