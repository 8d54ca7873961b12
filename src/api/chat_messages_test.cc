#include "api/chat_messages.h"

#include <gtest/gtest.h>

namespace erne {
namespace {

Result<Json> Of(std::string_view text) { return TemplateMessages(Json::Parse(text).value()); }

std::string Good(std::string_view text) {
  const Result<Json> messages = Of(text);
  EXPECT_TRUE(messages.ok()) << messages.status().message();
  return messages.ok() ? messages->Dump() : "";
}

TEST(ChatMessages, RolesAndContent) {
  EXPECT_EQ(
      Good(R"([{"role":"developer","content":"s"},{"role":"user","content":"u","name":"Li"}])"),
      R"([{"role":"system","content":"s"},{"role":"user","content":"u","name":"Li"}])");
  EXPECT_EQ(
      Good(
          R"([{"role":"user","content":[{"type":"text","text":"你"},"好",{"type":"input_text","text":"!"}]}])"),
      R"([{"role":"user","content":"你\n好\n!"}])");
  EXPECT_EQ(Good(R"([{"role":"user","content":[]}])"), R"([{"role":"user","content":""}])");
  EXPECT_EQ(Good(R"([{"role":"assistant","content":null},{"role":"assistant"}])"),
            R"([{"role":"assistant","content":""},{"role":"assistant","content":""}])");
  EXPECT_EQ(
      Good(
          R"([{"role":"assistant","content":"a","reasoning_content":"r","audio":{"id":"x"},"tool_calls":[]}])"),
      R"([{"role":"assistant","content":"a","reasoning_content":"r"}])");
}

TEST(ChatMessages, ToolCallsOfEarlierTurns) {
  EXPECT_EQ(
      Good(R"([{"role":"assistant","content":null,"tool_calls":[
            {"id":"c1","type":"function","function":{"name":"f","arguments":"{\"a\": 1}"}},
            {"id":"c2","type":"function","function":{"name":"g","arguments":""}}]},
            {"role":"tool","tool_call_id":"c1","content":"4"}])"),
      R"([{"role":"assistant","content":"","tool_calls":[{"id":"c1","type":"function","function":{"name":"f","arguments":{"a":1}}},)"
      R"({"id":"c2","type":"function","function":{"name":"g","arguments":{}}}]},{"role":"tool","content":"4","tool_call_id":"c1"}])");
}

TEST(ChatMessages, FaultsNameThePlace) {
  struct Case {
    const char* text;
    const char* param;
    const char* says;
  };
  const Case cases[] = {
      {R"([])", "messages", "empty"},
      {R"([1])", "messages[0]", "integer"},
      {R"([{"content":"x"}])", "messages[0].role", "missing"},
      {R"([{"role":3,"content":"x"}])", "messages[0].role", "integer"},
      {R"([{"role":"user","content":"x"},{"role":"wizard","content":"x"}])", "messages[1].role",
       "\"wizard\""},
      {R"([{"role":"user"}])", "messages[0].content", "missing"},
      {R"([{"role":"tool","content":null}])", "messages[0].content", "missing"},
      {R"([{"role":"user","content":{"text":"x"}}])", "messages[0].content", "object"},
      {R"([{"role":"user","content":[{"type":"text"}]}])", "messages[0].content[0].text",
       "missing"},
      {R"([{"role":"user","content":["a",{"type":"image_url","image_url":{"url":"x"}}]}])",
       "messages[0].content[1]", "is an image"},
      {R"([{"role":"user","content":[{"type":"input_audio"}]}])", "messages[0].content[0]",
       "text only"},
      {R"([{"role":"user","content":[{"type":"video_url"}]}])", "messages[0].content[0]",
       "a video"},
      {R"([{"role":"user","content":[{"type":"smell","text":"x"}]}])",
       "messages[0].content[0].type", "\"smell\""},
      {R"([{"role":"user","content":"x","name":5}])", "messages[0].name", "integer"},
      {R"([{"role":"assistant","tool_calls":{}}])", "messages[0].tool_calls", "array"},
      {R"([{"role":"assistant","tool_calls":[{"id":"c"}]}])", "messages[0].tool_calls[0].function",
       "object"},
      {R"([{"role":"assistant","tool_calls":[{"function":{"name":"f","arguments":"{"}}]}])",
       "messages[0].tool_calls[0].function.arguments", "byte 1"},
  };
  for (const Case& one : cases) {
    const Result<Json> messages = Of(one.text);
    ASSERT_FALSE(messages.ok()) << one.text;
    EXPECT_EQ(messages.status().code(), StatusCode::kInvalidArgument);
    EXPECT_EQ(messages.status().param(), one.param) << messages.status().message();
    EXPECT_NE(messages.status().message().find(one.says), std::string::npos)
        << messages.status().message();
  }
}

}  // namespace
}  // namespace erne
