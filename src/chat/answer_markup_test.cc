#include "chat/answer_markup.h"

#include <optional>
#include <string>

#include <gtest/gtest.h>

namespace erne {
namespace {

TEST(AnswerMarkup, OfWhatTemplatesShow) {
  const AnswerMarkup ernie = MarkupOfTemplate("<tool_call> <think></think> <response>");
  EXPECT_EQ(ernie.tool_calls, ToolCallForm::kHermes);
  EXPECT_TRUE(ernie.reasoning);
  EXPECT_TRUE(ernie.response_tags);
  EXPECT_EQ(MarkupOfTemplate("[TOOL_CALLS][").tool_calls, ToolCallForm::kMistral);
  EXPECT_EQ(MarkupOfTemplate("<|python_tag|>").tool_calls, ToolCallForm::kLlama);
  EXPECT_EQ(MarkupOfTemplate("<|start_header_id|> {\"parameters\": }").tool_calls,
            ToolCallForm::kLlama);
  const AnswerMarkup plain = MarkupOfTemplate("{{ messages[0].content }}");
  EXPECT_EQ(plain.tool_calls, ToolCallForm::kJson);
  EXPECT_FALSE(plain.reasoning);
  EXPECT_FALSE(plain.response_tags);
}

TEST(AnswerMarkup, HasNames) {
  for (const std::string& name : ToolCallFormNames()) {
    EXPECT_TRUE(ToolCallFormNamed(name).has_value()) << name;
  }
  EXPECT_EQ(ToolCallFormNamed("llama3_json"), ToolCallForm::kLlama);
  EXPECT_EQ(ToolCallFormNamed("ernie45"), ToolCallForm::kHermes);
  EXPECT_EQ(ToolCallFormNamed("auto"), std::nullopt);
}

}  // namespace
}  // namespace erne
