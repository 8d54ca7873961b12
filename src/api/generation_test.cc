#include "api/generation.h"

#include <gtest/gtest.h>

#include "api/bad_words.h"
#include "api/test_model.h"
#include "text/test_support.h"

namespace erne {
namespace {

using Tok = TestTokenizer;

class GenerationTest : public testing::Test {
 protected:
  Result<GenerationRequest> Make(const RequestOptions& options) {
    return MakeGeneration(options, *model_, facts_);
  }
  Result<GenerationRequest> MakeWithPrompt(const RequestOptions& options, Ids prompt,
                                           int64_t default_max_tokens = 1 << 20) {
    ERNE_ASSIGN_OR_RETURN(GenerationRequest generation, Make(options));
    const PromptLimit limit{options.max_tokens.value_or(1), "prompt", "max_tokens"};
    ERNE_RETURN_IF_ERROR(
        SetPrompt(std::move(prompt), options, default_max_tokens, limit, *model_, generation));
    return generation;
  }

  std::shared_ptr<ServedModel> model_ = MakeTestModel([](int64_t) { return 'a'; }, 64);
  ModelFacts facts_ = FindModelFacts(*model_);
};

TEST_F(GenerationTest, TheRequestThenTheModelThenOpenAi) {
  const SamplingParams plain = Make({})->sampling;
  EXPECT_EQ(plain.temperature, 1);
  EXPECT_EQ(plain.top_p, 1);
  EXPECT_EQ(plain.min_p, 0);
  EXPECT_EQ(plain.logprobs, -1);
  model_->defaults.temperature = 0.5F;
  model_->defaults.min_p = 0.25F;
  EXPECT_EQ(Make({})->sampling.temperature, 0.5F);
  EXPECT_EQ(Make({})->sampling.min_p, 0.25F);
  EXPECT_EQ(Make({.temperature = 0.75F, .min_p = 0.0F})->sampling.temperature, 0.75F);
  EXPECT_EQ(Make({.min_p = 0.0F})->sampling.min_p, 0);
  EXPECT_EQ(Make({.temperature = 1e-6F})->sampling.temperature, 0) << "greedy";
}

TEST_F(GenerationTest, TheRestIsHandedOn) {
  const GenerationRequest generation = Make({.presence_penalty = 1,
                                             .frequency_penalty = -1,
                                             .logit_bias = {{5, 2.0F}},
                                             .bad_words = {"x"},
                                             .allowed_token_ids = {1, 2},
                                             .seed = 9,
                                             .logprobs = 3,
                                             .prompt_logprobs = 2,
                                             .priority = -1,
                                             .cache_salt = "s",
                                             .timeout_ms = 77,
                                             .min_tokens = 4,
                                             .stop_token_ids = {7}})
                                           .value();
  const SamplingParams& params = generation.sampling;
  EXPECT_EQ(params.presence_penalty, 1);
  EXPECT_EQ(params.frequency_penalty, -1);
  ASSERT_EQ(params.logit_bias.size(), 1u);
  EXPECT_EQ(params.bad_words, (std::vector<Ids>{{'x'}, {' ', 'x'}}));
  EXPECT_EQ(params.allowed_tokens, (Ids{1, 2}));
  EXPECT_EQ(params.seed, 9u);
  EXPECT_EQ(params.logprobs, 3);
  EXPECT_EQ(generation.prompt_logprobs, 2);
  EXPECT_EQ(generation.priority, -1);
  EXPECT_EQ(generation.cache_salt, "s");
  EXPECT_EQ(generation.timeout_ms, 77);
  EXPECT_EQ(generation.min_tokens, 4);
  EXPECT_EQ(generation.stop_tokens, (Ids{7, Tok::kEnd, Tok::kSentence}));
  EXPECT_EQ(Make({.stop_token_ids = {7}, .ignore_eos = true})->stop_tokens, Ids{7});
}

TEST_F(GenerationTest, IdsOutsideTheVocabularyAreFaults) {
  EXPECT_EQ(Make({.logit_bias = {{Tok::kVocabSize, 1.0F}}}).status().param(), "logit_bias");
  EXPECT_EQ(Make({.allowed_token_ids = {Tok::kVocabSize}}).status().param(), "allowed_token_ids");
  EXPECT_EQ(Make({.stop_token_ids = {Tok::kVocabSize}}).status().param(), "stop_token_ids");
  const Status status = MakeWithPrompt({}, {1, Tok::kVocabSize}).status();
  EXPECT_EQ(status.param(), "prompt");
  EXPECT_NE(status.message().find("below 260, not 260"), std::string::npos) << status.message();
}

TEST_F(GenerationTest, RoomForTheAnswer) {
  EXPECT_EQ(MakeWithPrompt({}, Ids(60, 1))->max_tokens, 4);
  EXPECT_EQ(MakeWithPrompt({}, Ids(10, 1), 16)->max_tokens, 16);
  EXPECT_EQ(MakeWithPrompt({.max_tokens = 3}, Ids(10, 1), 16)->max_tokens, 3);
  EXPECT_EQ(MakeWithPrompt({.max_tokens = 5}, Ids(60, 1)).status().param(), "max_tokens");
  EXPECT_EQ(MakeWithPrompt({.max_tokens = 0}, Ids(10, 1))->max_tokens, 1) << "the least there is";
  EXPECT_EQ(MakeWithPrompt({.max_tokens = 0, .min_tokens = 1}, Ids(10, 1)).status().param(),
            "min_tokens");
  EXPECT_EQ(MakeWithPrompt({}, Ids(64, 1)).status().param(), "prompt");
  EXPECT_EQ(MakeWithPrompt({}, {}).status().param(), "prompt");
  EXPECT_EQ(MakeWithPrompt({.min_tokens = 5}, Ids(60, 1)).status().param(), "min_tokens");
  EXPECT_EQ(MakeWithPrompt({.min_tokens = 17}, Ids(10, 1), 16).status().param(), "min_tokens");
}

TEST_F(GenerationTest, PromptsAreCutOnRequestAlone) {
  Ids prompt(100);
  for (size_t i = 0; i < prompt.size(); ++i) prompt[i] = static_cast<int32_t>(i);
  EXPECT_EQ(MakeWithPrompt({}, prompt).status().param(), "prompt");
  EXPECT_EQ(MakeWithPrompt({.truncate_prompt_tokens = 3}, prompt)->prompt, (Ids{97, 98, 99}));
  EXPECT_EQ(MakeWithPrompt({.truncate_prompt_tokens = 3, .truncate_end = true}, prompt)->prompt,
            (Ids{0, 1, 2}));
  EXPECT_EQ(MakeWithPrompt({.truncate_prompt_tokens = 3}, {1, 2})->prompt, (Ids{1, 2}));
  const auto fitted =
      MakeWithPrompt({.truncate_prompt_tokens = RequestOptions::kAsFits, .max_tokens = 10}, prompt);
  EXPECT_EQ(fitted->prompt.size(), 54u) << "a context of 64, less 10";
  EXPECT_EQ(fitted->prompt.back(), 99);
  EXPECT_EQ(MakeWithPrompt({.truncate_prompt_tokens = 65}, prompt).status().param(),
            "truncate_prompt_tokens");
}

class PromptEnd : public GenerationTest {
 protected:
  Result<std::string> Render(const std::string& last, bool continued = true) {
    Conversation conversation;
    conversation.messages = Json(Json::Array{Json::Of({{"role", "user"}, {"content", "q"}}),
                                             Json::Of({{"role", "assistant"}, {"content", last}})});
    conversation.add_generation_prompt = false;
    conversation.continue_final_message = continued;
    conversation.chat_template = template_;
    ERNE_ASSIGN_OR_RETURN(const std::vector<TextPiece> pieces,
                          RenderConversation(conversation, *model_));
    std::string text;
    for (const TextPiece& piece : pieces) text += piece.text;
    return text;
  }
  std::string template_;
};

TEST_F(PromptEnd, IsTheLastMessageWhereTheModelIsToGoOn) {
  EXPECT_TRUE(Render("q ok", /*continued=*/false)->ends_with("<|end_of_sentence|>"));
  EXPECT_TRUE(Render("q ok")->ends_with("Assistant: q ok"));
  EXPECT_TRUE(Render("so, ")->ends_with("Assistant: so, ")) << "its white space stays";
  EXPECT_TRUE(Render("s")->ends_with("Assistant: s")) << "not the one of end_of_sentence";
}

TEST_F(PromptEnd, ATemplateMayStripTheMessageOrLeaveItOut) {
  model_->takes_request_templates = true;
  template_ = "{% for m in messages %}[{{ m.content | trim }}]{% endfor %}";
  EXPECT_EQ(*Render(" so, "), "[q][so,");
  template_ = "{% for m in messages %}[{{ m.role }}]{% endfor %}";
  EXPECT_EQ(Render("so").status().param(), "continue_final_message");
}

TEST_F(PromptEnd, ARequestsTemplateNeedsTrust) {
  template_ = "{{ messages | length }} messages";
  EXPECT_EQ(Render("x", false).status().param(), "chat_template");
  model_->takes_request_templates = true;
  EXPECT_EQ(*Render("x", false), "2 messages");
  template_ = "{% if %}";
  EXPECT_EQ(Render("x", false).status().param(), "chat_template");
}

TEST_F(GenerationTest, OpenEndedAnswersEndWhenTheyLoop) {
  EXPECT_EQ(Make({})->repetition.max_period, kOpenEndedRepetition.max_period);
  EXPECT_TRUE(ValidateRepetition(kOpenEndedRepetition).ok());
  EXPECT_FALSE(Make({.max_tokens = 5})->repetition.enabled()) << "whoever names a length gets it";
  EXPECT_FALSE(Make({.ignore_eos = true})->repetition.enabled());
  EXPECT_FALSE(Make({.repetition = RepetitionRule{}})->repetition.enabled());
  EXPECT_EQ(
      Make({.max_tokens = 5, .repetition = RepetitionRule{.max_period = 3}})->repetition.max_period,
      3);
}

TEST_F(GenerationTest, WhatTheTokenizerPutsBeforeAText) {
  model_->prompt_prefix = {Tok::kBegin};
  const PromptLimit limit{1, "prompt", "max_tokens"};
  const auto encode = [&](std::string text, bool add_special) {
    const TextPiece piece{std::move(text), true};
    return EncodePrompt(std::span(&piece, 1), add_special, limit, *model_, facts_).value();
  };
  EXPECT_EQ(encode("a", true), (Ids{Tok::kBegin, 'a'}));
  EXPECT_EQ(encode("a", false), Ids{'a'});
  EXPECT_EQ(encode("", true), Ids{Tok::kBegin});
  EXPECT_EQ(encode("<|begin_of_sentence|>a", true), (Ids{Tok::kBegin, 'a'})) << "never twice";
}

TEST(BadWords, AreSpelledWithAndWithoutASpace) {
  const TestTokenizer tokenizer;
  EXPECT_EQ(EncodeBadWords({"ab", " ab", "c"}, tokenizer),
            (std::vector<Ids>{{'a', 'b'}, {' ', 'a', 'b'}, {'c'}, {' ', 'c'}}));
  EXPECT_EQ(EncodeBadWords({"</s>"}, tokenizer)[0], (Ids{'<', '/', 's', '>'}))
      << "a typed control token is text";
  EXPECT_TRUE(EncodeBadWords({}, tokenizer).empty());
}

// A tokenizer that puts a space before a text must not hide the spelling without it.
TEST(BadWords, OfTheEmbeddedModel) {
  const auto files = OpenFolder(SourceFolder("models/erne-mini"));
  ASSERT_TRUE(files.ok());
  const auto tokenizer = LoadTokenizer(**files);
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status().message();
  for (const Ids& word : EncodeBadWords({"你好", "Hello"}, **tokenizer)) {
    EXPECT_FALSE(word.empty());
    const std::string text = (*tokenizer)->Decode(word, false);
    EXPECT_TRUE(text.ends_with("你好") || text.ends_with("Hello")) << text;
  }
}

}  // namespace
}  // namespace erne
