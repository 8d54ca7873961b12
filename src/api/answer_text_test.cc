#include "api/answer_text.h"

#include <gtest/gtest.h>

#include "api/test_model.h"

namespace erne {
namespace {

using Tok = TestTokenizer;

TEST(AnswerTextTest, TextComesAsEarlyAsItMay) {
  const TestTokenizer tokenizer;
  AnswerText answer(tokenizer, {.stop = {"bc"}});
  EXPECT_EQ(answer.Add({.token = 'a'}).text, "a");
  EXPECT_EQ(answer.Add({.token = 'b'}).text, "");  // may become the stop
  EXPECT_EQ(answer.Add({.token = 'x'}).text, "bx");
  EXPECT_EQ(answer.Add({.token = 0xe4}).text, "");  // the beginning of a character
  EXPECT_FALSE(answer.ended());
  EXPECT_EQ(answer.tokens(), 4);
}

TEST(AnswerTextTest, AStopStringEndsItBeforeTheEngineDoes) {
  const TestTokenizer tokenizer;
  AnswerText answer(tokenizer, {.stop = {"bc"}});
  EXPECT_EQ(answer.Add({.token = 'b'}).text, "");
  EXPECT_EQ(answer.Add({.token = 'c'}).text, "");
  ASSERT_TRUE(answer.ended());
  EXPECT_EQ(answer.end().reason, FinishReason::kStop);
  EXPECT_EQ(answer.end().stop_reason, Json("bc"));
}

TEST(AnswerTextTest, EndTokensAreCountedAndNotShown) {
  const TestTokenizer tokenizer;
  for (const int32_t primary : {Tok::kEnd, Tok::kSentence}) {
    AnswerText answer(tokenizer, {.primary_end_token = primary});
    const AnswerText::Step step =
        answer.Add({.token = Tok::kEnd, .finish = FinishReason::kStop, .stop_token = Tok::kEnd});
    EXPECT_EQ(step.text, "");
    EXPECT_FALSE(step.shown);
    EXPECT_TRUE(answer.ended());
    EXPECT_EQ(answer.tokens(), 1);
    EXPECT_EQ(answer.end().stop_reason.is_null(), primary == Tok::kEnd);
  }
}

TEST(AnswerTextTest, WhatWasHeldBackComesAtTheEnd) {
  const TestTokenizer tokenizer;
  AnswerText answer(tokenizer, {.stop = {"abc"}});
  EXPECT_EQ(answer.Add({.token = 'a'}).text, "");
  EXPECT_EQ(answer.Add({.token = 'b', .finish = FinishReason::kLength}).text, "ab");
  EXPECT_EQ(answer.end().reason, FinishReason::kLength);
}

TEST(AnswerTextTest, OffsetsCountCharactersBehindWhatIsShownBefore) {
  const TestTokenizer tokenizer;
  AnswerText answer(tokenizer, {}, /*characters=*/5);
  EXPECT_EQ(answer.Add({.token = Tok::kHello}).text_offset, 5);
  EXPECT_EQ(answer.Add({.token = 'a'}).text_offset, 7);
}

TEST(AnswerTextTest, MinTokensHoldStopStringsOff) {
  const TestTokenizer tokenizer;
  AnswerText answer(tokenizer, {.stop = {"a"}, .min_tokens = 1});
  EXPECT_EQ(answer.Add({.token = 'a'}).text, "a");
  EXPECT_FALSE(answer.ended());
  answer.Add({.token = 'a'});
  EXPECT_TRUE(answer.ended());
}

}  // namespace
}  // namespace erne
