#include "api/completion_prompt.h"

#include <gtest/gtest.h>

#include "api/test_model.h"

namespace erne {
namespace {

using Tok = TestTokenizer;
using Ids = std::vector<int32_t>;
using Offsets = std::vector<int64_t>;

class CompletionPromptTest : public testing::Test {
 protected:
  // The prompt's tokens and its echo.
  Echo Of(CompletionPrompt prompt, bool skip_special = true, int32_t logprobs = 0) {
    CompletionRequest request;
    request.prompts = {std::move(prompt)};
    request.options.logprobs = logprobs;
    request.options.skip_special_tokens = skip_special;
    const PromptLimit limit{1, "prompt", "max_tokens"};
    const Ids ids =
        EncodeCompletionPrompt(request, 0, limit, *model_, FindModelFacts(*model_)).value();
    return MakeEcho(request, 0, ids, /*truncated=*/false, *model_);
  }
  static Offsets OffsetsOf(const Echo& echo) {
    Offsets offsets;
    for (const Echo::Token& token : echo.tokens) offsets.push_back(token.text_offset);
    return offsets;
  }

  std::shared_ptr<ServedModel> model_ = MakeTestModel([](int64_t) { return 'a'; });
};

TEST_F(CompletionPromptTest, OffsetsCountCharacters) {
  const Echo echo = Of("a你b");  // 你: three tokens
  EXPECT_EQ(echo.text, "a你b");
  EXPECT_EQ(OffsetsOf(echo), (Offsets{0, 1, 1, 1, 2}));
  EXPECT_EQ(echo.tokens[1].id, 0xe4);
}

TEST_F(CompletionPromptTest, OfACutTextTheRestIsShown) {
  CompletionRequest request;
  request.prompts = {"a你b"};
  request.options.logprobs = 0;
  const Echo echo = MakeEcho(request, 0, Ids{0xbd, 0xa0, 'b'}, /*truncated=*/true, *model_);
  EXPECT_TRUE(echo.text.ends_with('b') && !echo.text.starts_with('a')) << echo.text;
  EXPECT_EQ(echo.tokens.size(), 3u);
}

TEST_F(CompletionPromptTest, IdsShowTheirText) {
  const Echo echo = Of(Ids{Tok::kBegin, 'a', Tok::kHello, Tok::kEnd, 'b'});
  EXPECT_EQ(echo.text, "a你好b");
  EXPECT_EQ(OffsetsOf(echo), (Offsets{0, 0, 1, 3, 3}));
  const Echo all = Of(Ids{Tok::kEnd, 'b'}, /*skip_special=*/false);
  EXPECT_EQ(all.text, "</s>b");
  EXPECT_EQ(OffsetsOf(all), (Offsets{0, 4}));
}

TEST_F(CompletionPromptTest, ATextShowsTheControlTokensInIt) {
  const Echo echo = Of("a</s>b");
  EXPECT_EQ(echo.text, "a</s>b");
  EXPECT_EQ(OffsetsOf(echo), (Offsets{0, 1, 5}));
}

TEST_F(CompletionPromptTest, WhatTheTokenizerPutsFirstIsNotInTheText) {
  model_->prompt_prefix = {Tok::kBegin};
  EXPECT_EQ(OffsetsOf(Of("ab")), (Offsets{0, 0, 1}));
  EXPECT_EQ(OffsetsOf(Of("<|begin_of_sentence|>ab")), (Offsets{0, 21, 22})) << "it was written";
}

TEST_F(CompletionPromptTest, HalfACharacterStaysWithinTheText) {
  const Echo echo = Of(Ids{'a', 0xe4, 0xbd});
  EXPECT_EQ(echo.text, "a\uFFFD");
  EXPECT_EQ(OffsetsOf(echo), (Offsets{0, 1, 1}));
}

TEST_F(CompletionPromptTest, TokensAreListedOnlyWithLogprobs) {
  EXPECT_TRUE(Of("ab", true, -1).tokens.empty());
  EXPECT_EQ(Of("ab", true, -1).text, "ab");
}

}  // namespace
}  // namespace erne
