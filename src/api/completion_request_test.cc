#include "api/completion_request.h"

#include <gtest/gtest.h>

#include "base/strings.h"

namespace erne {
namespace {

using Ids = std::vector<int32_t>;

Result<CompletionRequest> Parse(std::string_view body) {
  std::vector<std::string> unknown;
  return ParseCompletionRequest(body, unknown);
}
Result<CompletionRequest> With(std::string_view members) {
  return Parse(StrCat(R"({"prompt":"hi",)", members, "}"));
}

TEST(CompletionRequest, FourFormsOfAPrompt) {
  EXPECT_EQ(Parse(R"({"prompt":"hi"})")->prompts, (std::vector<CompletionPrompt>{"hi"}));
  EXPECT_EQ(Parse(R"({"prompt":["a","b"]})")->prompts, (std::vector<CompletionPrompt>{"a", "b"}));
  EXPECT_EQ(Parse(R"({"prompt":[1,2.0]})")->prompts, (std::vector<CompletionPrompt>{Ids{1, 2}}));
  EXPECT_EQ(Parse(R"({"prompt":[[1],[2,3]]})")->prompts,
            (std::vector<CompletionPrompt>{Ids{1}, Ids{2, 3}}));
  EXPECT_EQ(Parse(R"({"prompt":["a",[2,3]]})")->prompts,
            (std::vector<CompletionPrompt>{"a", Ids{2, 3}}));
  EXPECT_EQ(Parse(R"({"prompt":""})")->prompts, (std::vector<CompletionPrompt>{""}))
      << "which may be bos alone";
}

TEST(CompletionRequest, Options) {
  const Result<CompletionRequest> plain = Parse(R"({"prompt":"hi"})");
  ASSERT_TRUE(plain.ok()) << plain.status().message();
  EXPECT_FALSE(plain->echo || plain->options.max_tokens);
  EXPECT_TRUE(plain->add_special_tokens);
  EXPECT_EQ(plain->options.logprobs, -1);
  const Result<CompletionRequest> request = With(
      R"("model":"m","echo":true,"add_special_tokens":false,"max_tokens":7,"n":2,"suffix":null,"user":"u")");
  ASSERT_TRUE(request.ok()) << request.status().message();
  EXPECT_TRUE(request->echo);
  EXPECT_FALSE(request->add_special_tokens);
  EXPECT_EQ(request->options.max_tokens, 7);
  EXPECT_EQ(request->options.choices, 2);
  EXPECT_EQ(With(R"("logprobs":5)")->options.logprobs, 5);
  EXPECT_EQ(With(R"("logprobs":0)")->options.logprobs, 0);
  EXPECT_EQ(With(R"("prompt_logprobs":0)")->options.prompt_logprobs, 0);
  EXPECT_EQ(With(R"("echo":true,"logprobs":1,"max_tokens":0)")->options.max_tokens, 0);
}

// A chat field here is an unknown one: accepted, whatever it holds, and not read by what both
// endpoints share.
TEST(CompletionRequest, FieldsOfOtherEndpointsAreNotRead) {
  for (const char* value : {"0", "\"x\"", "[]", "5"}) {
    const auto request = With(StrCat("\"max_completion_tokens\":", value));
    ASSERT_TRUE(request.ok()) << request.status().message();
    EXPECT_FALSE(request->options.max_tokens) << value;
  }
}

TEST(CompletionRequest, FaultsNameTheFieldAndWhatWasFound) {
  struct Case {
    const char* body;
    const char* param;
    const char* says;
  };
  const Case cases[] = {
      {"{}", "prompt", "missing"},
      {R"({"prompt":null})", "prompt", "missing"},
      {R"({"prompt":5})", "prompt", "integer"},
      {R"({"prompt":{}})", "prompt", "array of token ids"},
      {R"({"prompt":[]})", "prompt", "empty"},
      {R"({"prompt":[[1],[]]})", "prompt[1]", "empty"},
      {R"({"prompt":[1,"a"]})", "prompt[1]", "\"a\""},
      {R"({"prompt":[1,-2]})", "prompt[1]", "-2"},
      {R"({"prompt":[[1,2],[3,1.5]]})", "prompt[1][1]", "1.5"},
      {R"({"prompt":["a",5]})", "prompt[1]", "integer"},
      {R"({"prompt":["a",null]})", "prompt[1]", "null"},
      {R"({"prompt":"a","suffix":"b"})", "suffix", "not supported"},
      {R"({"prompt":"a","n":2,"best_of":1})", "best_of", "at least `n` (2)"},
      {R"({"prompt":"a","logprobs":true})", "logprobs", "boolean"},
      {R"({"prompt":"a","logprobs":21})", "logprobs", "at most 20"},
      {R"({"prompt":"a","logprobs":-1})", "logprobs", "at least 0"},
      {R"({"prompt":"a","max_tokens":0})", "max_tokens", "at least 1"},
      {R"({"prompt":"a","max_tokens":-1,"echo":true})", "max_tokens", "at least 0"},
      {R"({"prompt":"a","prompt_logprobs":21})", "prompt_logprobs", "at most 20"},
      {R"({"prompt":"a","prompt_logprobs":1,"stream":true})", "prompt_logprobs", "stream"},
  };
  for (const Case& one : cases) {
    const Result<CompletionRequest> request = Parse(one.body);
    ASSERT_FALSE(request.ok()) << one.body;
    EXPECT_EQ(request.status().code(), StatusCode::kInvalidArgument);
    EXPECT_EQ(request.status().param(), one.param) << request.status().message();
    EXPECT_NE(request.status().message().find(one.says), std::string::npos)
        << request.status().message();
  }
}

TEST(CompletionRequest, AnswersAreBounded) {
  std::string prompts = R"("a")";
  for (int i = 1; i < 1024; ++i) prompts += R"(,"a")";
  EXPECT_TRUE(Parse(StrCat(R"({"prompt":[)", prompts, "]}")).ok());
  EXPECT_EQ(Parse(StrCat(R"({"prompt":[)", prompts, R"(],"n":2})")).status().param(), "prompt");
  EXPECT_EQ(Parse(StrCat(R"({"prompt":[)", prompts, R"(,"a"]})")).status().param(), "prompt");
}

}  // namespace
}  // namespace erne
