#include "chat/answer_markup.h"

#include <utility>

namespace erne {
namespace {

constexpr std::pair<std::string_view, ToolCallForm> kNames[] = {
    {"none", ToolCallForm::kNone},       {"hermes", ToolCallForm::kHermes},
    {"ernie45", ToolCallForm::kHermes},  {"llama3_json", ToolCallForm::kLlama},
    {"mistral", ToolCallForm::kMistral}, {"json", ToolCallForm::kJson},
};

ToolCallForm ToolCallFormOf(std::string_view source) {
  const auto has = [source](std::string_view text) { return source.find(text) != source.npos; };
  if (has("<tool_call>")) return ToolCallForm::kHermes;
  if (has("[TOOL_CALLS]")) return ToolCallForm::kMistral;
  if (has("<|python_tag|>") || (has("<|start_header_id|>") && has("\"parameters\""))) {
    return ToolCallForm::kLlama;
  }
  return ToolCallForm::kJson;
}

}  // namespace

AnswerMarkup MarkupOfTemplate(std::string_view source) {
  return {.tool_calls = ToolCallFormOf(source),
          .reasoning = source.find("</think>") != source.npos,
          .response_tags = source.find("<response>") != source.npos};
}

std::optional<ToolCallForm> ToolCallFormNamed(std::string_view name) {
  for (const auto& [known, form] : kNames) {
    if (known == name) return form;
  }
  return std::nullopt;
}

std::vector<std::string> ToolCallFormNames() {
  std::vector<std::string> names;
  for (const auto& [name, form] : kNames) names.emplace_back(name);
  return names;
}

std::vector<std::string_view> AnswerMarkers(const AnswerMarkup& markup) {
  std::vector<std::string_view> markers;
  if (markup.reasoning) markers.insert(markers.end(), {"<think>", "</think>"});
  if (markup.response_tags) markers.insert(markers.end(), {"<response>", "</response>"});
  switch (markup.tool_calls) {
    case ToolCallForm::kHermes:
      markers.insert(markers.end(), {"<tool_call>", "</tool_call>"});
      break;
    case ToolCallForm::kLlama:
      markers.emplace_back("<|python_tag|>");
      break;
    case ToolCallForm::kMistral:
      markers.insert(markers.end(), {"[TOOL_CALLS]", "[ARGS]", "[CALL_ID]"});
      break;
    case ToolCallForm::kNone:
    case ToolCallForm::kJson:
      break;
  }
  return markers;
}

}  // namespace erne
