#include "api/logprobs.h"

#include <limits>

#include <gtest/gtest.h>

#include "api/test_model.h"
#include "base/json.h"

namespace erne {
namespace {

using Tok = TestTokenizer;

constexpr float kInfinity = std::numeric_limits<float>::infinity();

std::string Chat(const std::vector<ScoredToken>& tokens, bool skip_special = true) {
  const TestTokenizer tokenizer;
  std::string out;
  LogprobWriter(tokenizer, skip_special).AppendChat(tokens, out);
  EXPECT_TRUE(Json::Parse(out).ok()) << out;
  return out;
}
std::string Completion(const std::vector<ScoredToken>& tokens) {
  const TestTokenizer tokenizer;
  std::string out;
  LogprobWriter(tokenizer, true).AppendCompletion(tokens, out);
  EXPECT_TRUE(Json::Parse(out).ok()) << out;
  return out;
}

TEST(LogprobWriter, ChatIsOpenAisFormByteForByte) {
  EXPECT_EQ(
      Chat({{.logprobs = {{Tok::kHello, -0.5F}, {'a', -0.25F}, {Tok::kHello, -0.5F}}},
            {.logprobs = {{'"', 0.0F}}}}),
      R"({"content":[{"token":"你好","logprob":-0.5,"bytes":[228,189,160,229,165,189],"top_logprobs":[)"
      R"({"token":"a","logprob":-0.25,"bytes":[97]},)"
      R"({"token":"你好","logprob":-0.5,"bytes":[228,189,160,229,165,189]}]},)"
      R"({"token":"\"","logprob":0,"bytes":[34],"top_logprobs":[]}],"refusal":null})");
}

TEST(LogprobWriter, WhatIsNotShownHasNoBytes) {
  const std::vector<ScoredToken> end = {
      {.logprobs = {{Tok::kEnd, -1.0F}, {Tok::kEnd, -1.0F}}, .shown = false}};
  EXPECT_EQ(
      Chat(end),
      R"({"content":[{"token":"</s>","logprob":-1,"bytes":null,"top_logprobs":[{"token":"</s>","logprob":-1,"bytes":null}]}],"refusal":null})");
  EXPECT_NE(Chat(end, /*skip_special=*/false).find(R"("bytes":[60,47,115,62]}]})"),
            std::string::npos);
}

TEST(LogprobWriter, HalfCharactersAreToldByTheirBytes) {
  EXPECT_NE(
      Chat({{.logprobs = {{0xe4, -1.0F}}}}).find(R"({"token":"\\xe4","logprob":-1,"bytes":[228])"),
      std::string::npos);
  EXPECT_NE(Completion({{.logprobs = {{0xe4, -1.0F}}}}).find(R"("tokens":["bytes:\\xe4"])"),
            std::string::npos);
}

TEST(LogprobWriter, JsonKnowsNoInfinity) {
  EXPECT_NE(Chat({{.logprobs = {{'a', -kInfinity}}}}).find(R"("logprob":-9999,)"),
            std::string::npos);
}

TEST(LogprobWriter, CompletionsHaveParallelLists) {
  EXPECT_EQ(Completion({{.logprobs = {{'c', -3.0F}, {'a', -0.25F}, {'b', -0.5F}}, .text_offset = 4},
                        {.logprobs = {{'a', -0.5F}, {'a', -0.5F}}, .text_offset = 5},
                        {.logprobs = {{'b', -0.5F}}, .text_offset = 6}}),
            R"({"text_offset":[4,5,6],"token_logprobs":[-3,-0.5,-0.5],"tokens":["c","a","b"],)"
            R"("top_logprobs":[{"a":-0.25,"b":-0.5,"c":-3},{"a":-0.5},{"b":-0.5}]})");
}

TEST(LogprobWriter, WhatNothingStandsBeforeIsNull) {
  EXPECT_EQ(Completion({{.logprobs = {{'c'}}, .scored = false},
                        {.logprobs = {{'a', -0.5F}, {'a', -0.5F}}, .text_offset = 1}}),
            R"({"text_offset":[0,1],"token_logprobs":[null,-0.5],"tokens":["c","a"],)"
            R"("top_logprobs":[null,{"a":-0.5}]})");
}

TEST(LogprobWriter, PromptsHaveVllmsForm) {
  const TestTokenizer tokenizer;
  const auto prompt = [&](const PromptScores& scores) {
    std::string out;
    LogprobWriter(tokenizer, true).AppendPrompt(scores, out);
    EXPECT_TRUE(Json::Parse(out).ok()) << out;
    return out;
  };
  EXPECT_EQ(prompt({}), "[null]") << "of one token";
  EXPECT_EQ(prompt({{{'c', -3.0F}, {'a', -0.25F}, {'"', -0.5F}},
                    {{'b', -0.5F}, {'a', -0.25F}, {'b', -0.5F}},
                    {{Tok::kEnd, -kInfinity}}}),
            R"([null,{"99":{"logprob":-3,"rank":null,"decoded_token":"c"},)"
            R"("97":{"logprob":-0.25,"rank":1,"decoded_token":"a"},)"
            R"("34":{"logprob":-0.5,"rank":2,"decoded_token":"\""}},)"
            R"({"98":{"logprob":-0.5,"rank":2,"decoded_token":"b"},)"
            R"("97":{"logprob":-0.25,"rank":1,"decoded_token":"a"}},)"
            R"({"256":{"logprob":-9999,"rank":null,"decoded_token":"</s>"}}])");
}

}  // namespace
}  // namespace erne
