#include "chat/answer_parser.h"

#include <algorithm>
#include <iterator>
#include <ostream>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace erne {

// For failure messages.
static void PrintTo(const ParsedPiece& piece, std::ostream* out) {
  *out << "reasoning '" << piece.reasoning << "' content '" << piece.content << "'";
  for (const ParsedCall& call : piece.calls) *out << " " << call.name << call.arguments;
}

namespace {

using enum ToolCallForm;

void Append(ParsedPiece more, ParsedPiece& to) {
  to.reasoning += more.reasoning;
  to.content += more.content;
  std::move(more.calls.begin(), more.calls.end(), std::back_inserter(to.calls));
}

// What the pieces of `text` add up to; each is of at most `most` bytes, drawn by `seed`.
ParsedPiece InPieces(const AnswerParserOptions& options, std::string_view text, size_t most,
                     unsigned seed) {
  AnswerParser parser(options);
  std::minstd_rand draw(seed + 1);
  ParsedPiece sum;
  while (!text.empty()) {
    const size_t size = std::min(text.size(), 1 + draw() % most);
    Append(parser.Add(text.substr(0, size)), sum);
    text.remove_prefix(size);
  }
  Append(parser.Finish(), sum);
  return sum;
}

// The same however it is cut.
ParsedPiece Parse(const AnswerParserOptions& options, std::string_view text) {
  const ParsedPiece whole = InPieces(options, text, text.size() + 1, 0);
  EXPECT_EQ(InPieces(options, text, 1, 0), whole) << text;
  for (unsigned seed = 0; seed < 50; ++seed) {
    EXPECT_EQ(InPieces(options, text, 12, seed), whole) << text;
  }
  AnswerParser at_once(options);
  ParsedPiece sum = at_once.Add(text);
  Append(at_once.Finish(), sum);
  EXPECT_EQ(sum, whole) << text;
  return whole;
}

AnswerParserOptions Tools(ToolCallForm form) {
  return {.markup = {.tool_calls = form}, .tools = {"f", "g"}};
}

AnswerParserOptions Thinking(bool in_reasoning) {
  return {.markup = {.reasoning = true}, .in_reasoning = in_reasoning};
}

TEST(AnswerParser, SplitsReasoning) {
  const ParsedPiece split = {.reasoning = "想 a\n\nb", .content = "好👩‍👩‍👧\n"};
  EXPECT_EQ(Parse(Thinking(false), "<think>\n想 a\n\nb\n</think>\n\n好👩‍👩‍👧\n"),
            split);
  EXPECT_EQ(Parse(Thinking(true), "\n想 a\n\nb\n</think>\n\n好👩‍👩‍👧\n"), split);
}

TEST(AnswerParser, ReasoningThatDoesNotEndIsReasoning) {
  EXPECT_EQ(Parse(Thinking(true), "still </thi"), (ParsedPiece{.reasoning = "still </thi"}));
  EXPECT_EQ(Parse(Thinking(false), "<think>still "), (ParsedPiece{.reasoning = "still"}));
}

TEST(AnswerParser, ThinkIsAMarkerInFrontAlone) {
  for (const char* text : {"Say <think>x</think> for it", " \n<thin", "", "  ", "</think>a"}) {
    EXPECT_EQ(Parse(Thinking(false), text), (ParsedPiece{.content = text}));
  }
}

TEST(AnswerParser, ErnieThinking) {
  const AnswerParserOptions ernie = {
      .markup = {.tool_calls = kHermes, .reasoning = true, .response_tags = true},
      .in_reasoning = true};
  EXPECT_EQ(Parse(ernie, "a\n</think>\n\n<response>\nb <i>\n</response>\n"),
            (ParsedPiece{.reasoning = "a", .content = "b <i>"}));
  EXPECT_EQ(Parse(ernie,
                  "a\n</think>\n\n<response>\nb\n</response>\n\n<tool_call>\n{\"name\": \"f\", "
                  "\"arguments\": {\"城市\": \"</tool_call>\"}}\n</tool_call>\n\n<tool_call>\n"
                  "{\"name\": \"g\", \"arguments\": {}}\n</tool_call>\n"),
            (ParsedPiece{.reasoning = "a",
                         .content = "b",
                         .calls = {{"f", R"({"城市":"</tool_call>"})"}, {"g", "{}"}}}));
  EXPECT_EQ(Parse(ernie, "</think>no </response> tags"),
            (ParsedPiece{.content = "no </response> tags"}));
}

TEST(AnswerParser, Hermes) {
  EXPECT_EQ(Parse(Tools(kHermes),
                  "I look.\n<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": \"x\\\"}\"}}\n"
                  "</tool_call>\n<tool_call>{\"name\":\"unknown\"}</tool_call> done"),
            (ParsedPiece{.content = "I look.done",
                         .calls = {{"f", R"({"a":"x\"}"})"}, {"unknown", "{}"}}}));
}

TEST(AnswerParser, HermesWithoutAnEndMarker) {
  EXPECT_EQ(Parse(Tools(kHermes), R"(<tool_call>{"name":"f","arguments":"{\"a\": 1}"})"),
            (ParsedPiece{.calls = {{"f", R"({"a": 1})"}}}));
}

TEST(AnswerParser, WhatIsNoCallIsContent) {
  for (const char* text : {
           "<tool_call>",
           "<tool_call>\n ",
           "<tool_call>\nf(1)\n</tool_call>",
           "<tool_call>{\"name\": \"f\", \"argum",
           "<tool_call>{\"name\": \"f\", \"arguments\": 3}</tool_call> ",
           "<tool_call>{\"name\": 5}</tool_call>",
           "<tool_call>{name: f}</tool_call>",
           "<tool_call>[]</tool_call>",
           "a <tool_c",
           "a < b",
       }) {
    EXPECT_EQ(Parse(Tools(kHermes), text), (ParsedPiece{.content = text}));
  }
}

TEST(AnswerParser, ACallBehindAMalformedOne) {
  EXPECT_EQ(
      Parse(Tools(kHermes),
            "<tool_call>{\"name: 1}\n</tool_call>\n<tool_call>{\"name\":\"g\"}</tool_call>"),
      (ParsedPiece{.content = "<tool_call>{\"name: 1}\n</tool_call>", .calls = {{"g", "{}"}}}));
}

TEST(AnswerParser, Llama) {
  EXPECT_EQ(Parse(Tools(kLlama), R"({"name": "f", "parameters": {"a": [1, {"b": null}]}})"),
            (ParsedPiece{.calls = {{"f", R"({"a":[1,{"b":null}]})"}}}));
  EXPECT_EQ(Parse(Tools(kLlama),
                  "<|python_tag|>{\"name\":\"f\",\"parameters\":{}}; "
                  "{\"name\":\"g\",\"parameters\":{}}"),
            (ParsedPiece{.calls = {{"f", "{}"}, {"g", "{}"}}}));
  EXPECT_EQ(Parse(Tools(kLlama), "{\"name\":\"f\",\"parameters\":{}}; and"),
            (ParsedPiece{.content = "; and", .calls = {{"f", "{}"}}}));
  EXPECT_EQ(Parse(Tools(kLlama), "<|python_tag|>print(1)"),
            (ParsedPiece{.content = "<|python_tag|>print(1)"}));
}

TEST(AnswerParser, JsonThatIsNoCallIsTheAnswer) {
  for (const ToolCallForm form : {kLlama, kJson}) {
    for (const char* text :
         {R"({"name": "Anna", "parameters": {}})", R"({"name": "f"})", R"([1, 2])", R"({"a": )",
          R"(Use {"name":"f","arguments":{}})", " {} "}) {
      EXPECT_EQ(Parse(Tools(form), text), (ParsedPiece{.content = text}));
    }
  }
}

TEST(AnswerParser, Json) {
  EXPECT_EQ(
      Parse(Tools(kJson), R"( [{"name":"f","arguments":{"a":1}},{"name":"g","parameters":{}}] )"),
      (ParsedPiece{.calls = {{"f", R"({"a":1})"}, {"g", "{}"}}}));
}

TEST(AnswerParser, Mistral) {
  EXPECT_EQ(
      Parse(Tools(kMistral),
            R"(Hm [TOOL_CALLS][{"name":"f","arguments":{"a":"]"}},{"name":"g","arguments":{}}])"),
      (ParsedPiece{.content = "Hm", .calls = {{"f", R"({"a":"]"})"}, {"g", "{}"}}}));
  EXPECT_EQ(
      Parse(Tools(kMistral), R"([TOOL_CALLS]f[ARGS]{"a": 1}[TOOL_CALLS]g[CALL_ID]x1[ARGS]{})"),
      (ParsedPiece{.calls = {{"f", R"({"a": 1})"}, {"g", "{}"}}}));
  const std::string long_name = "[TOOL_CALLS]" + std::string(300, 'f') + "{}";
  for (const std::string& text :
       {std::string("[TOOL_CALLS]no call"), std::string("[TOOL_CALLS]a b{}"), long_name,
        std::string("[TOOL_CALLS]f[ARGS]{\"a\"")}) {
    EXPECT_EQ(Parse(Tools(kMistral), text), (ParsedPiece{.content = text}));
  }
}

TEST(AnswerParser, WithoutToolsMarkersAreText) {
  const char* text = "<tool_call>{\"name\":\"f\"}</tool_call> [TOOL_CALLS][]";
  EXPECT_EQ(Parse(Tools(kNone), text), (ParsedPiece{.content = text}));
}

TEST(AnswerParser, SaysAtOnceWhatIsNoMarker) {
  AnswerParser parser(Tools(kHermes));
  EXPECT_EQ(parser.Add("a <tool_cal").content, "a");
  EXPECT_EQ(parser.Add("m").content, " <tool_calm");
  EXPECT_EQ(parser.Finish(), ParsedPiece());
}

TEST(AnswerParser, TellsWhatTokensAreReasoning) {
  AnswerParser parser(Thinking(true));
  EXPECT_TRUE(parser.in_reasoning());
  parser.Add("a</think>");
  EXPECT_FALSE(parser.in_reasoning());
}

}  // namespace
}  // namespace erne
