// Requests with a grammar, among others, with guesses, and in a pool so small that they give way.
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "engine/engine_test_util.h"
#include "grammar/grammar_compiler.h"
#include "grammar/matcher.h"

namespace erne {
namespace {

constexpr int32_t kVocab = 64;
constexpr int32_t kStop = 63;

// Token t is the character ' ' + t, but for the stop token, which is no text.
std::string TextOf(int32_t token) {
  return token == kStop ? "" : std::string(1, static_cast<char>(' ' + token));
}

std::shared_ptr<const grammar::CompiledGrammar> Compile(grammar::Form::Kind kind,
                                                        const std::string& text) {
  static grammar::GrammarCompiler compiler(
      [] {
        std::vector<std::string> texts;
        for (int32_t token = 0; token < kVocab; ++token) texts.push_back(TextOf(token));
        return texts;
      },
      kVocab);
  return compiler.Compile({kind, text}).value();
}

std::vector<GenerationRequest> Requests() {
  std::vector<GenerationRequest> requests;
  for (int32_t i = 0; i < 24; ++i) {
    GenerationRequest& request = requests.emplace_back();
    request.prompt = {i, 3, i % 5, 3, i % 5};
    request.max_tokens = 60 + i;
    request.sampling.temperature = i % 4 == 0 ? 0.0F : 1.0F;
    request.sampling.seed = static_cast<uint64_t>(i);
    request.stop_tokens = {kStop};
    if (i % 3 == 0) request.grammar = Compile(grammar::Form::Kind::kRegex, "(AB|[0-9]{3}){4,9}");
    if (i % 3 == 1) {
      request.grammar =
          Compile(grammar::Form::Kind::kEbnf, R"G(root ::= "(" root ")" root | [0-9] "+"?)G");
    }
  }
  return requests;
}

struct Outcome {
  std::vector<Answer> answers;
  EngineStats stats;
};

Outcome AnswerAll(const FakeExecutorOptions& executor, const EngineOptions& options) {
  const auto engine = MakeEngine(executor, options);
  std::vector<std::shared_ptr<TokenStream>> streams;
  for (const GenerationRequest& request : Requests()) {
    streams.push_back(MakeStream());
    EXPECT_TRUE(engine->Submit(request, streams.back()).ok());
  }
  Outcome outcome;
  for (const auto& stream : streams) outcome.answers.push_back(WaitForAnswer(*stream));
  outcome.stats = engine->stats();
  return outcome;
}

TEST(Grammar, CompanyGuessesAndPreemptionChangeNoToken) {
  FakeExecutorOptions executor;
  executor.vocab_size = kVocab;
  const Outcome alone = AnswerAll(executor, {.max_num_seqs = 1});
  const Outcome together = AnswerAll(executor, {.max_num_seqs = 16});
  const Outcome guessing = AnswerAll(
      executor, {.max_num_seqs = 8, .speculation = {.max_draft_tokens = 4, .measured = false}});
  executor.limits.num_blocks = 6;
  executor.limits.max_context = 6 * kKvBlockSize;
  const Outcome crowded = AnswerAll(executor, {.max_num_seqs = 16});
  EXPECT_GT(guessing.stats.drafted_tokens, 0);
  EXPECT_GT(crowded.stats.preemptions, 0);
  const std::vector<GenerationRequest> requests = Requests();
  for (size_t i = 0; i < requests.size(); ++i) {
    const Answer& answer = alone.answers[i];
    EXPECT_EQ(together.answers[i].tokens, answer.tokens) << i;
    EXPECT_EQ(guessing.answers[i].tokens, answer.tokens) << i;
    EXPECT_EQ(crowded.answers[i].tokens, answer.tokens) << i;
    if (requests[i].grammar == nullptr) continue;
    std::string text;
    for (const int32_t token : answer.tokens) text += TextOf(token);
    grammar::Matcher matcher(requests[i].grammar, {}, 1000);
    for (const int32_t token : answer.tokens) {
      if (token != kStop) matcher.Accept(token, 1000);
    }
    EXPECT_TRUE(matcher.may_end()) << text;
    EXPECT_TRUE(answer.finish == FinishReason::kComplete || answer.finish == FinishReason::kStop ||
                answer.finish == FinishReason::kLength);
  }
}

TEST(Grammar, AnAnswerIsRefusedThatCannotFit) {
  FakeExecutorOptions executor;
  executor.vocab_size = kVocab;
  const auto engine = MakeEngine(executor, {});
  GenerationRequest request;
  request.prompt = {1};
  request.max_tokens = 4;
  request.grammar = Compile(grammar::Form::Kind::kRegex, "A{5}");
  const Status status = engine->Submit(request, MakeStream());
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(status.param(), "max_tokens");
  request.max_tokens = 5;
  const auto stream = MakeStream();
  ASSERT_TRUE(engine->Submit(request, stream).ok());
  const Answer answer = WaitForAnswer(*stream);
  EXPECT_EQ(answer.tokens, std::vector<int32_t>(5, 'A' - ' '));
  EXPECT_EQ(answer.finish, FinishReason::kComplete);
}

}  // namespace
}  // namespace erne
