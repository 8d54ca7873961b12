#include "engine/engine.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <limits>
#include <mutex>
#include <new>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "engine/engine_test_util.h"
#include "engine/scheduler.h"

// Counts allocations of the calling thread. Sanitizers bring their own operator new, which does not
// count.
namespace {
thread_local int64_t allocations = 0;
}  // namespace

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define ERNE_COUNTS_ALLOCATIONS
[[gnu::noinline]] void* operator new(size_t size) {
  ++allocations;
  if (void* memory = std::malloc(size == 0 ? 1 : size)) return memory;
  throw std::bad_alloc();
}
// Not inlined: g++ would take the free for a mistake.
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, size_t) noexcept { std::free(memory); }
#endif

namespace erne {
namespace {

constexpr int64_t kVocab = 64;

// Holds the engine's steps: Run waits for a permit.
class Gate {
 public:
  // For FakeExecutorOptions::on_run.
  Status Pass(const Batch& batch) {
    std::unique_lock<std::mutex> lock(mutex_);
    ++arrived_;
    sequences_ = static_cast<int64_t>(batch.size());
    changed_.notify_all();
    changed_.wait(lock, [this] { return open_ || permits_ > 0; });
    if (!open_) --permits_;
    return {};
  }
  // Waits until the n-th step (from 1) stands at the gate, and returns the number of its sequences.
  int64_t WaitForStep(int64_t n) {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [&] { return arrived_ >= n; });
    return sequences_;
  }
  void LetPass(int64_t steps) {
    const std::lock_guard<std::mutex> lock(mutex_);
    permits_ += steps;
    changed_.notify_all();
  }
  void Open() {
    const std::lock_guard<std::mutex> lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int64_t arrived_ = 0;
  int64_t permits_ = 0;
  int64_t sequences_ = 0;
  bool open_ = false;
};

FakeExecutorOptions Gated(Gate& gate) {
  FakeExecutorOptions options;
  options.on_run = [&gate](const Batch& batch) { return gate.Pass(batch); };
  return options;
}

GenerationRequest Request(std::vector<int32_t> prompt, int64_t max_tokens) {
  GenerationRequest request;
  request.prompt = std::move(prompt);
  request.max_tokens = max_tokens;
  request.sampling.temperature = 0.0F;
  return request;
}

TEST(Engine, AnswersARequest) {
  const auto engine = MakeEngine({}, {});
  const GenerationRequest request = Request({1, 2, 3}, 20);
  const auto stream = MakeStream();
  ASSERT_TRUE(engine->Submit(request, stream).ok());
  const Answer answer = WaitForAnswer(*stream);
  EXPECT_EQ(answer.tokens, ExpectedAnswer(request, kVocab).tokens);
  EXPECT_EQ(answer.tokens.size(), 20U);
  EXPECT_EQ(answer.finish, FinishReason::kLength);
  EXPECT_EQ(answer.stop_token, -1);
  EXPECT_TRUE(answer.error.ok());
  const EngineStats stats = engine->stats();
  EXPECT_EQ(stats.running, 0);
  EXPECT_EQ(stats.waiting, 0);
  EXPECT_EQ(stats.kv_blocks_used, 0);
  EXPECT_EQ(stats.kv_blocks_total, 64);
  EXPECT_EQ(stats.prompt_tokens, 3);
  EXPECT_EQ(stats.generated_tokens, 20);
  EXPECT_EQ(stats.steps, 20);
}

TEST(Engine, FillsTheWholeContextAndTheWholePool) {
  FakeExecutorOptions executor;
  executor.limits.num_blocks = 4;
  const auto engine = MakeEngine(executor, {});
  EXPECT_EQ(engine->max_context(), 4 * kKvBlockSize);
  const GenerationRequest request = Request(std::vector<int32_t>(40, 7), 24);
  const auto stream = MakeStream();
  ASSERT_TRUE(engine->Submit(request, stream).ok());
  EXPECT_EQ(WaitForAnswer(*stream).tokens, ExpectedAnswer(request, kVocab).tokens);
}

TEST(Engine, StopTokenEndsItAndIsReported) {
  const auto engine = MakeEngine({}, {});
  GenerationRequest request = Request({5}, 30);
  const std::vector<int32_t> free_run = ExpectedAnswer(request, kVocab).tokens;
  request.stop_tokens = {-1, 100272, free_run[4]};
  const Answer expected = ExpectedAnswer(request, kVocab);
  ASSERT_LE(expected.tokens.size(), 5U);
  const auto stream = MakeStream();
  ASSERT_TRUE(engine->Submit(request, stream).ok());
  const Answer answer = WaitForAnswer(*stream);
  EXPECT_EQ(answer.tokens, expected.tokens);
  EXPECT_EQ(answer.tokens.back(), answer.stop_token);
  EXPECT_EQ(answer.finish, FinishReason::kStop);
}

TEST(Engine, StopWinsOverLength) {
  const auto engine = MakeEngine({}, {});
  GenerationRequest request = Request({5}, 1);
  request.stop_tokens = ExpectedAnswer(request, kVocab).tokens;
  const auto stream = MakeStream();
  ASSERT_TRUE(engine->Submit(request, stream).ok());
  EXPECT_EQ(WaitForAnswer(*stream).finish, FinishReason::kStop);
}

TEST(Engine, MinTokensHoldsStopTokensBack) {
  const auto engine = MakeEngine({}, {});
  GenerationRequest request = Request({5}, 30);
  request.stop_tokens = ExpectedAnswer(request, kVocab).tokens;  // nearly every token would end it
  request.min_tokens = 10;
  const auto stream = MakeStream();
  ASSERT_TRUE(engine->Submit(request, stream).ok());
  const Answer answer = WaitForAnswer(*stream);
  EXPECT_EQ(answer.tokens, ExpectedAnswer(request, kVocab).tokens);
  EXPECT_GT(answer.tokens.size(), 10U);
  for (size_t i = 0; i < 10; ++i) {
    EXPECT_EQ(std::count(request.stop_tokens.begin(), request.stop_tokens.end(), answer.tokens[i]),
              0)
        << i;
  }
}

TEST(Engine, ALoopEndsItWhenAskedFor) {
  const auto engine = MakeEngine({}, {});
  GenerationRequest request = Request({5}, 30);
  request.sampling.allowed_tokens = {9};
  const auto run = [&] {
    const auto stream = MakeStream();
    EXPECT_TRUE(engine->Submit(request, stream).ok());
    return WaitForAnswer(*stream);
  };
  EXPECT_EQ(run().finish, FinishReason::kLength);
  request.repetition = {.max_period = 4, .min_count = 3, .min_tokens = 6};
  Answer answer = run();
  EXPECT_EQ(answer.finish, FinishReason::kRepetition);
  EXPECT_EQ(answer.tokens, std::vector<int32_t>(6, 9));
  request.min_tokens = 11;
  EXPECT_EQ(run().tokens.size(), 11U);
  request.max_tokens = 11;
  EXPECT_EQ(run().finish, FinishReason::kRepetition) << "the loop is the reason that is known";
  request.repetition.min_count = 1;
  EXPECT_EQ(engine->Submit(request, MakeStream()).param(), "repetition_detection");
}

TEST(Engine, LogprobsComeWithEachToken) {
  const auto engine = MakeEngine({}, {});
  GenerationRequest request = Request({5}, 4);
  request.sampling.logprobs = 3;
  const auto stream = MakeStream();
  ASSERT_TRUE(engine->Submit(request, stream).ok());
  std::vector<TokenEvent> events;
  while (events.empty() || !events.back().finish.has_value()) stream->WaitAndTake(events);
  ASSERT_EQ(events.size(), 4U);
  for (const TokenEvent& event : events) {
    ASSERT_EQ(event.logprobs.size(), 4U);
    EXPECT_EQ(event.logprobs[0].token, event.token);
    EXPECT_EQ(event.logprobs[1].token, event.token);  // greedy: it is the most probable one
  }
}

TEST(Engine, RefusesWhatCanNeverRun) {
  const auto engine = MakeEngine({}, {});
  const auto refused = [&](GenerationRequest request) {
    const Status status = engine->Submit(std::move(request), MakeStream());
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << status.message();
    return status;
  };
  EXPECT_EQ(refused(Request({}, 1)).param(), "prompt");
  EXPECT_EQ(refused(Request({-1}, 1)).param(), "prompt");
  EXPECT_EQ(refused(Request({kVocab}, 1)).param(), "prompt");
  EXPECT_EQ(refused(Request({1}, 0)).param(), "max_tokens");
  EXPECT_EQ(refused(Request({1}, std::numeric_limits<int64_t>::max())).param(), "max_tokens");
  EXPECT_EQ(refused(Request(std::vector<int32_t>(256, 1), 1)).param(), "prompt");
  const Status status = refused(Request(std::vector<int32_t>(200, 1), 57));
  EXPECT_EQ(status.message(),
            "the prompt has 200 tokens and max_tokens is 57; the context holds 256 in all");
  GenerationRequest minimum = Request({1}, 5);
  minimum.min_tokens = 6;
  EXPECT_EQ(refused(minimum).param(), "min_tokens");
  GenerationRequest hot = Request({1}, 1);
  hot.sampling.temperature = -1.0F;
  EXPECT_EQ(refused(hot).param(), "temperature");
  EXPECT_TRUE(engine->Submit(Request(std::vector<int32_t>(200, 1), 56), MakeStream()).ok());
}

TEST(Engine, RefusesWhenTheQueueIsFull) {
  Gate gate;
  const auto engine = MakeEngine(Gated(gate), {.max_num_seqs = 2, .max_num_queued_reqs = 3});
  std::vector<std::shared_ptr<TokenStream>> streams;
  for (int i = 0; i < 5; ++i) {
    streams.push_back(MakeStream());
    ASSERT_TRUE(engine->Submit(Request({i}, 2), streams.back()).ok());
  }
  const auto refused = MakeStream();
  EXPECT_EQ(engine->Submit(Request({1}, 2), refused).code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(engine->stats().running + engine->stats().waiting, 5);
  gate.Open();
  for (const auto& stream : streams) EXPECT_EQ(WaitForAnswer(*stream).tokens.size(), 2U);
  EXPECT_TRUE(engine->Submit(Request({1}, 2), refused).ok());
  EXPECT_EQ(WaitForAnswer(*refused).tokens.size(), 2U);
}

TEST(Engine, CancelFreesBlocksWithinAStep) {
  Gate gate;
  const auto engine = MakeEngine(Gated(gate), {});
  const auto kept = MakeStream();
  const auto cancelled = MakeStream();
  ASSERT_TRUE(engine->Submit(Request({1}, 10), kept).ok());
  gate.WaitForStep(1);
  ASSERT_TRUE(engine->Submit(Request(std::vector<int32_t>(33, 2), 50), cancelled).ok());
  gate.LetPass(1);
  EXPECT_EQ(gate.WaitForStep(2), 2);
  EXPECT_EQ(engine->stats().kv_blocks_used, 1 + 3);
  cancelled->Cancel();
  gate.LetPass(1);
  EXPECT_EQ(gate.WaitForStep(3), 1);
  EXPECT_EQ(engine->stats().kv_blocks_used, 1);
  EXPECT_EQ(engine->stats().running, 1);
  gate.Open();
  EXPECT_EQ(WaitForAnswer(*kept).tokens.size(), 10U);
  std::vector<TokenEvent> events;
  EXPECT_FALSE(cancelled->Take(events));
}

TEST(Engine, CancelOfAQueuedRequestMakesRoom) {
  Gate gate;
  const auto engine = MakeEngine(Gated(gate), {.max_num_seqs = 1, .max_num_queued_reqs = 1});
  const auto running = MakeStream();
  const auto queued = MakeStream();
  ASSERT_TRUE(engine->Submit(Request({1}, 10), running).ok());
  ASSERT_TRUE(engine->Submit(Request({2}, 10), queued).ok());
  gate.WaitForStep(1);
  queued->Cancel();
  gate.LetPass(1);
  gate.WaitForStep(2);
  EXPECT_EQ(engine->stats().waiting, 0);
  EXPECT_TRUE(engine->Submit(Request({3}, 10), MakeStream()).ok());
  gate.Open();
}

TEST(Engine, AFailedStepFailsItsRequestsAlone) {
  std::atomic<bool> fail{false};
  Gate gate;
  FakeExecutorOptions executor;
  executor.on_run = [&](const Batch& batch) {
    const Status status = gate.Pass(batch);
    return fail ? Internal("the device is on fire") : status;
  };
  const auto engine = MakeEngine(executor, {.max_num_seqs = 1});
  const auto first = MakeStream();
  const auto second = MakeStream();
  ASSERT_TRUE(engine->Submit(Request({1}, 5), first).ok());
  ASSERT_TRUE(engine->Submit(Request({2}, 5), second).ok());
  gate.LetPass(2);
  gate.WaitForStep(3);
  fail = true;
  gate.LetPass(1);
  const Answer failed = WaitForAnswer(*first);
  EXPECT_EQ(failed.finish, FinishReason::kAbort);
  EXPECT_EQ(failed.error.message(), "the device is on fire");
  EXPECT_EQ(failed.tokens.size(), 2U);
  gate.WaitForStep(4);
  EXPECT_EQ(engine->stats().failed_steps, 1);
  EXPECT_EQ(engine->stats().consecutive_failed_steps, 1);
  fail = false;
  gate.Open();
  EXPECT_EQ(WaitForAnswer(*second).tokens, ExpectedAnswer(Request({2}, 5), kVocab).tokens);
  EXPECT_EQ(engine->stats().failed_steps, 1);
  EXPECT_EQ(engine->stats().consecutive_failed_steps, 0);
  EXPECT_EQ(engine->stats().kv_blocks_used, 0);
}

TEST(Engine, RepeatedFailuresShowInTheStatistics) {
  FakeExecutorOptions executor;
  executor.on_run = [](const Batch&) { return Internal("gone"); };
  const auto engine = MakeEngine(executor, {});
  for (int i = 1; i <= 3; ++i) {
    const auto stream = MakeStream();
    ASSERT_TRUE(engine->Submit(Request({1}, 5), stream).ok());
    EXPECT_EQ(WaitForAnswer(*stream).error.message(), "gone");
    EXPECT_EQ(engine->stats().consecutive_failed_steps, i);
  }
}

TEST(Engine, ARowOfNanFailsItsRequestAlone) {
  FakeExecutorOptions executor;
  executor.nan_after_token = 42;
  const auto engine = MakeEngine(executor, {});
  const auto bad = MakeStream();
  const auto good = MakeStream();
  GenerationRequest request = Request({1}, 30);
  request.stop_tokens = {42};  // ends before NaN could follow
  ASSERT_TRUE(engine->Submit(request, good).ok());
  ASSERT_TRUE(engine->Submit(Request({3, 42}, 5), bad).ok());
  const Answer failed = WaitForAnswer(*bad);
  EXPECT_EQ(failed.finish, FinishReason::kAbort);
  EXPECT_EQ(failed.error.code(), StatusCode::kInternal);
  EXPECT_EQ(WaitForAnswer(*good).tokens, ExpectedAnswer(request, kVocab).tokens);
  EXPECT_EQ(engine->stats().failed_steps, 0);
}

TEST(Engine, ShutdownLetsAcceptedRequestsFinish) {
  const auto engine = MakeEngine({}, {.max_num_seqs = 1});
  std::vector<std::shared_ptr<TokenStream>> streams;
  for (int i = 0; i < 8; ++i) {
    streams.push_back(MakeStream());
    ASSERT_TRUE(engine->Submit(Request({i}, 50), streams.back()).ok());
  }
  engine->Shutdown(60000);
  for (const auto& stream : streams)
    EXPECT_EQ(WaitForAnswer(*stream).finish, FinishReason::kLength);
  EXPECT_EQ(engine->Submit(Request({1}, 1), MakeStream()).code(), StatusCode::kUnavailable);
  EXPECT_EQ(engine->stats().running + engine->stats().waiting, 0);
  engine->Shutdown(1);  // again: nothing happens
}

TEST(Engine, ShutdownEndsTheRestAfterItsTimeout) {
  Gate gate;
  const auto engine = MakeEngine(Gated(gate), {.max_num_seqs = 1});
  const auto running = MakeStream();
  const auto queued = MakeStream();
  ASSERT_TRUE(engine->Submit(Request({1}, 50), running).ok());
  ASSERT_TRUE(engine->Submit(Request({2}, 50), queued).ok());
  gate.WaitForStep(1);
  std::atomic<bool> stopped{false};
  std::thread shutdown([&] {
    engine->Shutdown(0);
    stopped = true;
  });
  while (engine->Submit(Request({3}, 1), MakeStream()).ok()) std::this_thread::yield();
  // One step at a time, far fewer than the answers have tokens, until the loop sees that it is
  // over.
  for (int64_t step = 1; !stopped && step < 40; ++step) {
    gate.LetPass(1);
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  shutdown.join();
  for (const auto& stream : {running, queued}) {
    const Answer answer = WaitForAnswer(*stream);
    EXPECT_EQ(answer.finish, FinishReason::kAbort);
    EXPECT_EQ(answer.error.code(), StatusCode::kUnavailable);
    EXPECT_LT(answer.tokens.size(), 50U);
  }
  EXPECT_EQ(engine->stats().kv_blocks_used, 0);
}

TEST(Engine, DestroyedWhileBusyEndsEveryRequest) {
  for (int round = 0; round < 50; ++round) {
    auto engine = MakeEngine({}, {.max_num_seqs = 3, .max_num_batched_tokens = 8});
    std::vector<std::shared_ptr<TokenStream>> streams;
    for (int i = 0; i < 10; ++i) {
      streams.push_back(MakeStream());
      ASSERT_TRUE(engine->Submit(Request({i}, 200), streams.back()).ok());
    }
    std::vector<std::vector<TokenEvent>> events(streams.size());
    if (round % 2 == 1) streams[0]->WaitAndTake(events[0]);
    engine.reset();
    for (size_t i = 0; i < streams.size(); ++i) {
      streams[i]->Take(events[i]);
      ASSERT_FALSE(events[i].empty());
      EXPECT_TRUE(events[i].back().finish.has_value());
      EXPECT_EQ(streams[i].use_count(), 1);
    }
  }
}

TEST(Engine, PreemptedRequestsGiveTheSameTokens) {
  FakeExecutorOptions executor;
  executor.limits.num_blocks = 6;
  const auto engine = MakeEngine(executor, {.max_num_seqs = 4, .max_num_batched_tokens = 20});
  std::vector<GenerationRequest> requests;
  std::vector<std::shared_ptr<TokenStream>> streams;
  for (int i = 0; i < 6; ++i) {
    requests.push_back(Request({i, i + 1}, 70));
    requests.back().sampling = {
        .temperature = 0.9F, .top_p = 0.9F, .seed = static_cast<uint64_t>(i)};
    streams.push_back(MakeStream());
    ASSERT_TRUE(engine->Submit(requests.back(), streams.back()).ok());
  }
  for (size_t i = 0; i < requests.size(); ++i) {
    EXPECT_EQ(WaitForAnswer(*streams[i]).tokens, ExpectedAnswer(requests[i], kVocab).tokens);
  }
  EXPECT_GT(engine->stats().preemptions, 0);
  EXPECT_EQ(engine->stats().prompt_tokens, 12);
  EXPECT_EQ(engine->stats().generated_tokens, 6 * 70);
}

TEST(Engine, SubmitsFromManyThreads) {
  const auto engine =
      MakeEngine({}, {.max_num_seqs = 8, .max_num_batched_tokens = 32, .max_num_queued_reqs = 20});
  std::atomic<int> finished{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 20; ++i) {
        GenerationRequest request = Request({t, i, 3}, 1 + (t * 7 + i) % 30);
        request.sampling.temperature = 1.0F;
        request.sampling.seed = static_cast<uint64_t>(t) * 100 + static_cast<uint64_t>(i);
        const auto stream = MakeStream();
        Status status = engine->Submit(request, stream);
        while (status.code() == StatusCode::kResourceExhausted) {
          std::this_thread::yield();
          status = engine->Submit(request, stream);
        }
        ASSERT_TRUE(status.ok()) << status.message();
        if (i % 5 == 4) {
          stream->Cancel();
          continue;
        }
        EXPECT_EQ(WaitForAnswer(*stream).tokens, ExpectedAnswer(request, kVocab).tokens);
        ++finished;
        EXPECT_LE(engine->stats().running, 8);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(finished, 8 * 16);
  engine->Shutdown(60000);
  EXPECT_EQ(engine->stats().kv_blocks_used, 0);
}

TEST(Engine, APrefixIsComputedOnce) {
  const auto engine = MakeEngine({}, {});
  std::vector<int32_t> prompt(40, 7);
  prompt[20] = 8;
  const auto ask = [&](GenerationRequest request) {
    const auto stream = MakeStream();
    EXPECT_TRUE(engine->Submit(request, stream).ok());
    std::vector<TokenEvent> events;
    while (events.empty() || !events.back().finish.has_value()) stream->WaitAndTake(events);
    EXPECT_EQ(ToAnswer(events).tokens, ExpectedAnswer(request, kVocab).tokens);
    for (size_t i = 1; i < events.size(); ++i) EXPECT_EQ(events[i].cached_tokens, 0);
    return events.front().cached_tokens;
  };
  GenerationRequest request = Request(prompt, 12);
  EXPECT_EQ(ask(request), 0);
  EXPECT_EQ(ask(request), 32) << "two full blocks";
  EXPECT_EQ(engine->stats().prompt_tokens, 40 + 8);
  EXPECT_EQ(engine->stats().prefix_hits, 32);
  EXPECT_EQ(engine->stats().kv_blocks_used, 0) << "cached blocks are free";

  request.prompt[35] = 1;
  EXPECT_EQ(ask(request), 32);
  request.prompt[31] = 1;
  EXPECT_EQ(ask(request), 16);
  request.cache_salt = "mine";
  EXPECT_EQ(ask(request), 0) << "nobody else's salt";
  EXPECT_EQ(ask(request), 32);
  request.prompt.resize(32);
  EXPECT_EQ(ask(request), 16) << "the last token is always computed";
  request.prompt_logprobs = 0;
  EXPECT_EQ(ask(request), 0) << "its log-probabilities need all of it";
}

TEST(Engine, PrefixCachingCanBeTurnedOff) {
  const auto engine = MakeEngine({}, {.enable_prefix_caching = false});
  const GenerationRequest request = Request(std::vector<int32_t>(40, 7), 3);
  for (int i = 0; i < 2; ++i) {
    const auto stream = MakeStream();
    ASSERT_TRUE(engine->Submit(request, stream).ok());
    WaitForAnswer(*stream);
  }
  EXPECT_EQ(engine->stats().prompt_tokens, 80);
  EXPECT_EQ(engine->stats().prefix_queries, 0);
}

TEST(Engine, PromptLogprobsComeWithTheFirstToken) {
  FakeExecutorOptions executor;
  executor.limits.max_logit_rows = 3;  // the prompt takes several steps
  const auto engine = MakeEngine(executor, {});
  GenerationRequest request = Request({5, 9, 2, 8, 1, 7, 3, 3, 3}, 2);
  request.prompt_logprobs = 2;
  const auto stream = MakeStream();
  ASSERT_TRUE(engine->Submit(request, stream).ok());
  std::vector<TokenEvent> events;
  while (events.empty() || !events.back().finish.has_value()) stream->WaitAndTake(events);
  ASSERT_EQ(events.size(), 2U);
  EXPECT_TRUE(events[1].prompt_logprobs.empty());
  ASSERT_EQ(events[0].prompt_logprobs.size(), 8U);
  SamplerScratch scratch(kVocab);
  for (size_t i = 0; i < 8; ++i) {
    const std::span before(request.prompt.data(), i + 1);
    const auto expected =
        TokenLogprobs(FakeExecutor::LogitsAfter(before, kVocab), request.prompt[i + 1], 2, scratch);
    const auto& got = events[0].prompt_logprobs[i];
    ASSERT_EQ(got.size(), 3U);
    for (size_t k = 0; k < 3; ++k) {
      EXPECT_EQ(got[k].token, (*expected)[k].token);
      EXPECT_EQ(got[k].logprob, (*expected)[k].logprob);
    }
  }
  request.prompt_logprobs = static_cast<int32_t>(kVocab) + 1;
  EXPECT_EQ(engine->Submit(request, MakeStream()).param(), "prompt_logprobs");
}

TEST(Engine, WhatIsNotANumberIsNotFoundAgain) {
  FakeExecutorOptions executor;
  executor.nan_after_token = 9;
  const auto engine = MakeEngine(executor, {.max_num_batched_tokens = 16});
  std::vector<int32_t> prompt(40, 7);
  prompt.back() = 9;  // its first two blocks are computed, and cached, by then
  const auto broken = MakeStream();
  ASSERT_TRUE(engine->Submit(Request(prompt, 3), broken).ok());
  EXPECT_EQ(WaitForAnswer(*broken).error.code(), StatusCode::kInternal);
  prompt.back() = 7;
  const auto whole = MakeStream();
  ASSERT_TRUE(engine->Submit(Request(prompt, 3), whole).ok());
  EXPECT_EQ(WaitForAnswer(*whole).tokens, ExpectedAnswer(Request(prompt, 3), kVocab).tokens);
  EXPECT_EQ(engine->stats().prefix_hits, 0);
}

TEST(Engine, UrgentRequestsGoFirst) {
  Gate gate;
  const auto engine = MakeEngine(Gated(gate), {.max_num_seqs = 1});
  std::mutex mutex;
  std::vector<int> order;
  std::vector<std::shared_ptr<TokenStream>> streams;
  const int64_t priorities[] = {0, 5, 1, -1, 1};
  for (int i = 0; i < 5; ++i) {
    streams.push_back(std::make_shared<TokenStream>([&, i] {
      const std::lock_guard lock(mutex);
      order.push_back(i);
    }));
    GenerationRequest request = Request({i + 1}, 1);
    request.priority = priorities[i];
    ASSERT_TRUE(engine->Submit(request, streams.back()).ok());
    if (i == 0) gate.WaitForStep(1);
  }
  gate.Open();
  engine->Shutdown(60'000);
  EXPECT_EQ(order, (std::vector<int>{0, 3, 2, 4, 1}));
}

TEST(Engine, AnOverdueRequestEndsWithAnError) {
  Gate gate;
  const auto engine = MakeEngine(Gated(gate), {.max_num_seqs = 1});
  GenerationRequest request = Request({1}, 50);
  request.timeout_ms = 250;  // not over before the first step, however busy the machine
  const auto running = MakeStream();
  ASSERT_TRUE(engine->Submit(request, running).ok());
  gate.WaitForStep(1);
  const auto waiting = MakeStream();
  ASSERT_TRUE(engine->Submit(request, waiting).ok());
  const auto patient = MakeStream();
  ASSERT_TRUE(engine->Submit(Request({1}, 50), patient).ok());
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  gate.Open();
  for (const auto& stream : {running, waiting}) {
    const Answer answer = WaitForAnswer(*stream);
    EXPECT_EQ(answer.finish, FinishReason::kAbort);
    EXPECT_EQ(answer.error.code(), StatusCode::kDeadlineExceeded) << answer.error.message();
  }
  EXPECT_EQ(WaitForAnswer(*patient).finish, FinishReason::kLength);
  request.timeout_ms = -1;
  EXPECT_EQ(engine->Submit(request, MakeStream()).param(), "timeout");
}

TEST(Engine, GuessesChangeStepsAndNothingElse) {
  EngineOptions options;
  options.speculation = {
      .max_draft_tokens = 4, .rule = {.max_ngram = 2, .min_ngram = 1}, .measured = false};
  options.enable_prefix_caching = false;
  const auto engine = MakeEngine({}, options);
  GenerationRequest request = Request({5, 6, 7, 8, 5}, 40);
  request.sampling.allowed_tokens = {6, 7};  // an answer in which every guess is possible
  request.sampling.temperature = 1.0F;
  request.sampling.logprobs = 1;
  const auto stream = MakeStream();
  ASSERT_TRUE(engine->Submit(request, stream).ok());
  std::vector<TokenEvent> events;
  while (events.empty() || !events.back().finish.has_value()) stream->WaitAndTake(events);
  EXPECT_EQ(ToAnswer(events).tokens, ExpectedAnswer(request, kVocab).tokens);
  for (const TokenEvent& event : events) EXPECT_EQ(event.logprobs.front().token, event.token);
  const EngineStats stats = engine->stats();
  EXPECT_EQ(stats.generated_tokens, 40);
  EXPECT_GT(stats.accepted_tokens, 0);
  EXPECT_GT(stats.drafted_tokens, stats.accepted_tokens);
  EXPECT_EQ(stats.steps, 40 - stats.accepted_tokens);
}

// Adds up what it hears.
class Listener : public EngineObserver {
 public:
  void OnStep(const StepRecord& step) override {
    EXPECT_GT(step.rows, 0);
    EXPECT_GE(step.seconds, 0);
    rows += step.rows;
    ++steps;
  }
  void OnFirstToken(double seconds) override { first_tokens.push_back(seconds); }
  void OnNextToken(double seconds) override { next_tokens.push_back(seconds); }
  void OnEnd(const RequestRecord& request) override { ended.push_back(request); }
  void OnBlockReused(double idle_seconds) override {
    EXPECT_GE(idle_seconds, 0);
    ++reused;
  }
  void OnBlockEvicted(const BlockRecord& block) override {
    EXPECT_GE(block.lived, block.idle);
    EXPECT_GE(block.idle, 0);
    ++evicted;
  }

  int64_t rows = 0;
  int64_t steps = 0;
  int64_t reused = 0;
  int64_t evicted = 0;
  std::vector<double> first_tokens;
  std::vector<double> next_tokens;
  std::vector<RequestRecord> ended;
};

TEST(Engine, TellsItsObserver) {
  const auto listener = std::make_shared<Listener>();
  FakeExecutorOptions executor;
  executor.limits.num_blocks = 4;
  EngineOptions options;
  options.observer = listener;
  auto engine = MakeEngine(executor, options);
  GenerationRequest request = Request(std::vector<int32_t>(20, 7), 5);
  request.id = "first";
  for (int i = 0; i < 2; ++i) {
    const auto stream = MakeStream();
    ASSERT_TRUE(engine->Submit(request, stream).ok());
    WaitForAnswer(*stream);
  }
  const auto other = MakeStream();  // takes the whole pool: what was cached is lost
  ASSERT_TRUE(engine->Submit(Request(std::vector<int32_t>(60, 3), 2), other).ok());
  WaitForAnswer(*other);
  engine.reset();  // no call comes from now on
  EXPECT_EQ(listener->rows, 20 + 4 + 4 + 4 + 60 + 1);
  EXPECT_EQ(listener->first_tokens.size(), 3U);
  EXPECT_EQ(listener->next_tokens.size(), 4U + 4U + 1U);
  EXPECT_EQ(listener->reused, 1);
  EXPECT_EQ(listener->evicted, 1);
  ASSERT_EQ(listener->ended.size(), 3U);
  const RequestRecord& second = listener->ended[1];
  EXPECT_EQ(second.id, "first");
  EXPECT_EQ(second.prompt_tokens, 20);
  EXPECT_EQ(second.cached_tokens, 16);
  EXPECT_EQ(second.generated_tokens, 5);
  EXPECT_EQ(second.max_tokens, 5);
  EXPECT_EQ(second.finish, FinishReason::kLength);
  EXPECT_LE(second.arrived, second.started);
  EXPECT_LE(second.started, second.first_token);
  EXPECT_LE(second.first_token, second.last_token);
  EXPECT_LE(second.last_token, second.ended);
}

TEST(Engine, TellsItsObserverOfThoseWhoLeave) {
  const auto listener = std::make_shared<Listener>();
  Gate gate;
  EngineOptions options;
  options.observer = listener;
  options.max_num_seqs = 1;
  auto engine = MakeEngine(Gated(gate), options);
  const auto running = MakeStream();
  ASSERT_TRUE(engine->Submit(Request({1}, 5), running).ok());
  gate.WaitForStep(1);
  const auto waiting = MakeStream();
  ASSERT_TRUE(engine->Submit(Request({1}, 5), waiting).ok());
  waiting->Cancel();
  gate.LetPass(1);
  gate.WaitForStep(2);
  running->Cancel();
  gate.Open();
  engine->Shutdown(60'000);
  engine.reset();
  ASSERT_EQ(listener->ended.size(), 2U);
  EXPECT_EQ(listener->ended[0].started, 0) << "it never ran";
  EXPECT_EQ(listener->ended[0].finish, std::nullopt);
  EXPECT_EQ(listener->ended[1].finish, std::nullopt);
  EXPECT_EQ(listener->ended[1].generated_tokens, 2);
}

#ifdef ERNE_COUNTS_ALLOCATIONS
TEST(Engine, ASteadyDecodeStepAllocatesNothing) {
  // All inside on_run, on the loop thread: it empties the stream, as a consumer would, and counts
  // what was allocated since the step before.
  const auto stream = MakeStream();
  std::vector<TokenEvent> events;
  events.reserve(300);
  std::vector<int64_t> counts;
  counts.reserve(300);
  FakeExecutorOptions executor;
  executor.on_run = [&](const Batch&) {
    counts.push_back(allocations);
    stream->Take(events);
    return Status();
  };
  const auto engine = MakeEngine(executor, {});
  GenerationRequest request = Request({1}, 200);
  request.sampling = {.temperature = 0.8F,
                      .top_p = 0.8F,
                      .top_k = 40,
                      .repetition_penalty = 1.1F,
                      .frequency_penalty = 0.1F};
  ASSERT_TRUE(engine->Submit(request, stream).ok());
  engine->Shutdown(60000);
  ASSERT_EQ(counts.size(), 200U);
  EXPECT_EQ(counts.back(), counts[1]) << "allocations in 198 steps";
}

TEST(Engine, AStepThatPreemptsAllocatesNothing) {
  Scheduler scheduler(
      {.max_num_seqs = 2, .max_num_batched_tokens = 40, .max_logit_rows = 2, .num_blocks = 3});
  Sequence older;
  Sequence newer;
  for (Sequence* sequence : {&older, &newer}) {
    sequence->tokens = {1, 2, 3};
    sequence->max_total = 40;
    sequence->tokens.reserve(40);
    scheduler.Add(sequence);
  }
  int64_t before = 0;
  for (int step = 0; scheduler.counters().preemptions == 0; ++step) {
    if (step == 1) before = allocations;
    ASSERT_LT(step, 40);
    for (const ScheduledRows& rows : scheduler.Schedule(100)) {
      scheduler.Commit(rows, 0);
      rows.sequence->tokens.push_back(4);
    }
  }
  EXPECT_EQ(allocations, before);
  EXPECT_EQ(newer.state, Sequence::State::kWaiting);
}
#endif

}  // namespace
}  // namespace erne
