#include "engine/step_sampler.h"

#include <memory>
#include <vector>

#include <gtest/gtest.h>

#include "engine/engine_test_util.h"

namespace erne {
namespace {

constexpr int64_t kVocab = 64;

// Answers of many requests side by side are those of each alone; one sequence fails among them.
void ExpectAnswersOfEachAlone(FakeExecutorOptions executor) {
  executor.nan_after_token = 63;
  const auto engine =
      MakeEngine(executor, {.max_num_seqs = 16, .speculation = {.max_draft_tokens = 2}});
  std::vector<GenerationRequest> requests;
  std::vector<std::shared_ptr<TokenStream>> streams;
  for (int32_t i = 0; i < 40; ++i) {
    requests.emplace_back();
    requests.back().prompt = {i, 5, i % 7};
    requests.back().max_tokens = 10 + i % 5;
    SamplingParams& sampling = requests.back().sampling;
    sampling.temperature = i % 3 == 0 ? 0.0F : 0.9F;
    sampling.top_p = i % 4 == 0 ? 0.7F : 1.0F;
    sampling.repetition_penalty = i % 5 == 0 ? 1.2F : 1.0F;
    sampling.seed = static_cast<uint64_t>(i);
    // The one that fails does so at once, the others never come across that token.
    sampling.logit_bias = {{63, -100.0F}};
    requests.back().min_tokens = i % 6;
    requests.back().stop_tokens = {7, 9};
    requests.back().prompt_logprobs = i % 10 == 3 ? 1 : -1;
    if (i == 20) requests.back().prompt.back() = 63;
    streams.push_back(MakeStream());
    ASSERT_TRUE(engine->Submit(requests.back(), streams.back()).ok());
  }
  for (size_t i = 0; i < requests.size(); ++i) {
    const Answer answer = WaitForAnswer(*streams[i]);
    if (i == 20) {
      EXPECT_EQ(answer.error.code(), StatusCode::kInternal);
    } else {
      EXPECT_EQ(answer.tokens, ExpectedAnswer(requests[i], kVocab).tokens) << i;
    }
  }
}

// Tokens are chosen by several threads, each for sequences of its own.
TEST(StepSampler, ThreadsChangeNoToken) {
  FakeExecutorOptions executor;
  executor.threads = 4;
  ExpectAnswersOfEachAlone(executor);
}

// The executor chooses where it is asked for nothing else: not behind guesses and not where a
// prompt's log-probabilities are wanted.
TEST(StepSampler, AnExecutorThatChoosesChangesNoToken) {
  int tokens = 0;
  int logits = 0;
  FakeExecutorOptions executor;
  executor.chooses_tokens = true;
  executor.meanwhile_last = true;
  executor.on_run = [&](const Batch& batch) {
    for (const SequenceRows& rows : batch) {
      ++(rows.logits == SequenceRows::Logits::kToken ? tokens : logits);
    }
    return Status();
  };
  ExpectAnswersOfEachAlone(executor);
  EXPECT_GT(tokens, logits);
  EXPECT_GT(logits, 0);
}

}  // namespace
}  // namespace erne
