// The engine's promise of determinism: whatever runs beside a request, however its prompt is cut,
// whatever of it is in the prefix cache, whether it guesses, whether it is preempted, its tokens
// are those that it gets alone. The fake executor checks every block table on the way. (The same
// over real models: tests/determinism.)
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "engine/engine_test_util.h"

namespace erne {
namespace {

class RandomRound {
 public:
  explicit RandomRound(uint32_t seed) : random_(seed) {
    executor_.vocab_size = Uniform(2, 100);
    executor_.limits.max_rows = Uniform(1, 64);
    executor_.limits.max_sequences = Uniform(1, 8);
    executor_.limits.max_logit_rows = Uniform(1, 8);
    executor_.limits.num_blocks = Uniform(1, 12);
    options_.max_num_seqs = Uniform(1, 8);
    options_.max_num_batched_tokens = Uniform(1, 64);
    options_.enable_prefix_caching = Uniform(0, 3) > 0;
    executor_.threads = static_cast<int>(Uniform(1, 3));
    options_.speculation = {.max_draft_tokens = Uniform(0, 5),
                            .rule = {.max_ngram = 2, .min_ngram = 1},
                            .measured = Uniform(0, 3) == 0};
    for (int64_t i = 0; i < 100; ++i) common_.push_back(RandomToken());
  }

  void Run() {
    auto engine = MakeEngine(executor_, options_);
    const int64_t count = Uniform(1, 12);
    std::vector<GenerationRequest> requests;
    std::vector<std::shared_ptr<TokenStream>> streams;
    std::vector<bool> cancelled;
    for (int64_t i = 0; i < count; ++i) {
      requests.push_back(RandomRequest(engine->max_context()));
      streams.push_back(MakeStream());
      cancelled.push_back(Uniform(0, 5) == 0);
      ASSERT_TRUE(engine->Submit(requests.back(), streams.back()).ok());
      if (Uniform(0, 3) == 0) {  // let it get ahead
        std::vector<TokenEvent> events;
        streams.front()->WaitAndTake(events);
        early_.insert(early_.end(), events.begin(), events.end());
      }
      if (cancelled.back() && i > 0) streams.back()->Cancel();
    }
    cancelled[0] = false;
    for (size_t i = 0; i < requests.size(); ++i) {
      if (!cancelled[i])
        ExpectAnswer(requests[i], *streams[i], i == 0 ? early_ : std::vector<TokenEvent>());
    }
    stats_ = engine->stats();
    engine->Shutdown(60000);
    EXPECT_EQ(engine->stats().kv_blocks_used, 0);
    EXPECT_EQ(engine->stats().running + engine->stats().waiting, 0);
  }

  const EngineStats& stats() const { return stats_; }

 private:
  int64_t Uniform(int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(random_);
  }

  int32_t RandomToken() { return static_cast<int32_t>(Uniform(0, executor_.vocab_size - 1)); }

  GenerationRequest RandomRequest(int64_t context) {
    const int64_t total = Uniform(2, std::min<int64_t>(context, 120));
    const int64_t prompt = Uniform(1, total - 1);
    GenerationRequest request;
    const int64_t shared = Uniform(0, std::min<int64_t>(prompt, 100));
    request.prompt.assign(common_.begin(), common_.begin() + shared);
    for (int64_t i = shared; i < prompt; ++i) request.prompt.push_back(RandomToken());
    request.priority = Uniform(0, 2);
    if (Uniform(0, 3) == 0) request.cache_salt = "salt";
    if (Uniform(0, 3) == 0) request.prompt_logprobs = static_cast<int32_t>(Uniform(0, 1));
    request.max_tokens = total - prompt;
    if (Uniform(0, 1) == 0) request.stop_tokens = {RandomToken()};
    SamplingParams& sampling = request.sampling;
    sampling.temperature = static_cast<float>(Uniform(0, 4)) * 0.4F;
    if (Uniform(0, 1) == 0) sampling.top_p = static_cast<float>(Uniform(1, 10)) * 0.1F;
    if (Uniform(0, 1) == 0) sampling.top_k = static_cast<int32_t>(Uniform(-1, 20));
    if (Uniform(0, 1) == 0) sampling.repetition_penalty = static_cast<float>(Uniform(5, 20)) * 0.1F;
    sampling.seed = random_();
    if (Uniform(0, 1) == 0) sampling.min_p = static_cast<float>(Uniform(0, 10)) * 0.05F;
    if (Uniform(0, 1) == 0) sampling.presence_penalty = static_cast<float>(Uniform(-20, 20)) * 0.1F;
    if (Uniform(0, 1) == 0)
      sampling.frequency_penalty = static_cast<float>(Uniform(-20, 20)) * 0.1F;
    if (Uniform(0, 2) == 0) sampling.logit_bias = {{0, 1.5F}};
    if (Uniform(0, 2) == 0) sampling.bad_words = {{1, 0}};
    if (Uniform(0, 2) == 0) request.min_tokens = Uniform(0, request.max_tokens);
    return request;
  }

  void ExpectAnswer(const GenerationRequest& request, TokenStream& stream,
                    std::vector<TokenEvent> events) {
    while (events.empty() || !events.back().finish.has_value()) stream.WaitAndTake(events);
    const Answer answer = ToAnswer(events);
    const Answer expected = ExpectedAnswer(request, executor_.vocab_size);
    EXPECT_EQ(answer.tokens, expected.tokens);
    EXPECT_EQ(answer.finish, expected.finish);
    EXPECT_EQ(answer.stop_token, expected.stop_token);
    EXPECT_TRUE(answer.error.ok()) << answer.error.message();
    ASSERT_EQ(events.front().prompt_logprobs.size(),
              request.prompt_logprobs < 0 ? 0 : request.prompt.size() - 1);
    for (size_t i = 0; i < events.front().prompt_logprobs.size(); ++i) {
      EXPECT_EQ(events.front().prompt_logprobs[i].front().token, request.prompt[i + 1]);
    }
  }

  std::mt19937 random_;
  FakeExecutorOptions executor_;
  EngineOptions options_;
  std::vector<TokenEvent> early_;  // of the first request
  std::vector<int32_t> common_;    // prompts begin with some of it
  EngineStats stats_;
};

TEST(EngineDeterminism, SameTokensInEveryCompanyChunkingAndPool) {
  int64_t preemptions = 0;
  int64_t hits = 0;
  int64_t right = 0;
  int64_t wrong = 0;
  for (uint32_t seed = 0; seed < 600; ++seed) {
    SCOPED_TRACE(seed);
    RandomRound round(seed);
    round.Run();
    if (HasFailure()) return;
    preemptions += round.stats().preemptions;
    hits += round.stats().prefix_hits;
    right += round.stats().accepted_tokens;
    wrong += round.stats().drafted_tokens - round.stats().accepted_tokens;
  }
  // The rounds did reach it all.
  EXPECT_GT(preemptions, 100);
  EXPECT_GT(hits, 1000);
  EXPECT_GT(right, 100);
  EXPECT_GT(wrong, 100);
}

}  // namespace
}  // namespace erne
