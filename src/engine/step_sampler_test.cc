#include "engine/step_sampler.h"

#include <memory>
#include <vector>

#include <gtest/gtest.h>

#include "engine/engine_test_util.h"

namespace erne {
namespace {

constexpr int64_t kVocab = 64;

// Tokens are chosen by several threads, each for sequences of its own; one sequence fails among
// them.
TEST(StepSampler, ThreadsChangeNoToken) {
  FakeExecutorOptions executor;
  executor.threads = 4;
  executor.nan_after_token = 63;
  const auto engine = MakeEngine(executor, {.max_num_seqs = 16});
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

}  // namespace
}  // namespace erne
