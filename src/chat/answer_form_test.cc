#include "chat/answer_form.h"

#include <optional>
#include <string>

#include <gtest/gtest.h>

namespace erne {
namespace {

TEST(AnswerForm, OfWhatTemplatesShow) {
  const AnswerForm ernie = FormOfTemplate("<tool_call> <think></think> <response>");
  EXPECT_EQ(ernie.tool_calls, ToolCallForm::kHermes);
  EXPECT_TRUE(ernie.reasoning);
  EXPECT_TRUE(ernie.response_tags);
  EXPECT_EQ(FormOfTemplate("[TOOL_CALLS][").tool_calls, ToolCallForm::kMistral);
  EXPECT_EQ(FormOfTemplate("<|python_tag|>").tool_calls, ToolCallForm::kLlama);
  EXPECT_EQ(FormOfTemplate("<|start_header_id|> {\"parameters\": }").tool_calls,
            ToolCallForm::kLlama);
  const AnswerForm plain = FormOfTemplate("{{ messages[0].content }}");
  EXPECT_EQ(plain.tool_calls, ToolCallForm::kJson);
  EXPECT_FALSE(plain.reasoning);
  EXPECT_FALSE(plain.response_tags);
}

TEST(AnswerForm, HasNames) {
  for (const std::string& name : ToolCallFormNames()) {
    EXPECT_TRUE(ToolCallFormNamed(name).has_value()) << name;
  }
  EXPECT_EQ(ToolCallFormNamed("llama3_json"), ToolCallForm::kLlama);
  EXPECT_EQ(ToolCallFormNamed("ernie45"), ToolCallForm::kHermes);
  EXPECT_EQ(ToolCallFormNamed("auto"), std::nullopt);
}

}  // namespace
}  // namespace erne
