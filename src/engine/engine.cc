#include "engine/engine.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <random>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/machine.h"
#include "base/strings.h"
#include "engine/active_request.h"
#include "engine/block_times.h"
#include "engine/prompt_lookup.h"
#include "engine/scheduler.h"
#include "engine/step_pacer.h"
#include "engine/step_sampler.h"
#include "sampling/sampler.h"

namespace erne {
namespace {

// The options that the executor allows.
EngineOptions Fit(EngineOptions options, const ExecutorLimits& limits) {
  ERNE_CHECK(options.max_num_seqs > 0 && options.max_num_batched_tokens > 0 &&
             options.max_num_queued_reqs >= 0);
  const PromptLookupRule& rule = options.speculation.rule;
  ERNE_CHECK(rule.min_ngram > 0 && rule.max_ngram >= rule.min_ngram &&
             options.speculation.max_draft_tokens >= 0);
  ERNE_CHECK(limits.max_rows > 0 && limits.max_logit_rows > 0 && limits.max_sequences > 0 &&
             limits.max_context > 0 && limits.num_blocks > 0);
  options.max_num_batched_tokens = std::min(options.max_num_batched_tokens, limits.max_rows);
  options.max_num_seqs = std::min({options.max_num_seqs, options.max_num_batched_tokens,
                                   limits.max_sequences, limits.max_logit_rows});
  return options;
}

// Nobody outside can tell which blocks are where: see prefix_cache.h.
std::array<uint64_t, 2> RandomSecret() {
  std::random_device random;
  const auto draw = [&] { return static_cast<uint64_t>(random()) << 32 | random(); };
  return {draw(), draw()};
}

SchedulerOptions ToScheduler(const EngineOptions& options, const ExecutorLimits& limits) {
  return {.max_num_seqs = options.max_num_seqs,
          .max_num_batched_tokens = options.max_num_batched_tokens,
          .max_logit_rows = limits.max_logit_rows,
          .num_blocks = limits.num_blocks,
          .prefix_caching = options.enable_prefix_caching,
          .secret = RandomSecret()};
}

std::span<const float> RowOf(std::span<const float> rows, int64_t row, int64_t width) {
  return rows.subspan(static_cast<size_t>(row * width), static_cast<size_t>(width));
}

}  // namespace

class Engine::Impl {
 public:
  Impl(std::unique_ptr<Executor> executor, const EngineOptions& options);
  ~Impl() { Stop(); }

  Status Submit(GenerationRequest request, std::shared_ptr<TokenStream> stream);
  void Shutdown(int64_t timeout_ms);
  EngineStats stats() const;
  const Executor& executor() const { return *executor_; }
  int64_t max_context() const { return max_context_; }
  int64_t max_requests() const { return options_.max_num_seqs + options_.max_num_queued_reqs; }

 private:
  Status Validate(const GenerationRequest& request) const;
  void Stop();

  // The loop thread.
  void Loop();
  bool WaitForWork();
  void TakeInbox();
  void DropUnwanted();
  void Step();
  void Guess(int64_t decoding, int64_t prompts);
  StepShape Begin(std::span<const ScheduledRows> step);
  void Deliver(std::span<const ScheduledRows> step, std::span<const float> logits);
  void DeliverRows(const ScheduledRows& rows, size_t index, std::span<const float> logits);
  void DeliverTokens(const ScheduledRows& rows, size_t index, std::span<const float> logits);
  std::vector<int32_t> RouteOf(size_t index, int64_t row) const;
  void Send(ActiveRequest& request, TokenEvent event);
  void SendOutbox();
  void CountPrompt(ActiveRequest& request, int64_t computed);
  void FailRequest(ActiveRequest& request, const Status& status);
  void FailStep(std::span<const ScheduledRows> step, const Status& status);
  void FailEverything();
  // Frees what the request holds, then sends its last event; none where nobody waits for it.
  // Deletes `request`.
  void Retire(ActiveRequest& request, TokenEvent last);
  void Publish();
  void SetNow();

  const std::unique_ptr<Executor> executor_;
  const EngineOptions options_;
  const int64_t vocab_size_;
  const int64_t max_context_;

  // Between Submit and the loop.
  mutable std::mutex mutex_;
  std::condition_variable wake_;  // for the loop: inbox_ or stop_ changed
  std::condition_variable
      drained_;  // for Shutdown: no accepted request is left, or the loop has stopped
  std::vector<std::unique_ptr<ActiveRequest>> inbox_;
  bool accepting_ = true;
  bool stop_ = false;

  // The loop thread's own.
  std::optional<BlockTimes> block_times_;  // when there is an observer
  Scheduler scheduler_;
  StepPacer pacer_;
  std::vector<std::unique_ptr<ActiveRequest>> live_;   // no order
  std::vector<std::unique_ptr<ActiveRequest>> taken_;  // inbox_'s other buffer
  Batch batch_;
  RoutingTrace routes_;           // of the step, where a request asks for its routes
  std::vector<int32_t> guesses_;  // of the request whose rows are looked at
  StepSampler sampler_;
  // Events that wait until the next step is on its way: to hand them over takes time that the
  // device need not wait for.
  struct Letter {
    std::shared_ptr<TokenStream> to;
    TokenEvent event;
  };
  std::vector<Letter> outbox_;
  double now_ = 0;  // seconds of the steady clock: start of the round, then end of the step

  // Statistics: written by the loop thread but for accepted_, read by any.
  std::atomic<int64_t> accepted_{0};  // requests inside: inbox_ and live_
  std::atomic<int64_t> running_{0};
  std::atomic<int64_t> blocks_used_{0};
  std::atomic<int64_t> kv_tokens_{0};
  std::atomic<int64_t> prompt_tokens_{0};
  std::atomic<int64_t> generated_tokens_{0};
  std::atomic<int64_t> steps_{0};
  std::atomic<int64_t> preemptions_{0};
  std::atomic<int64_t> prefix_queries_{0};
  std::atomic<int64_t> prefix_hits_{0};
  std::atomic<int64_t> blocks_taken_{0};
  std::atomic<int64_t> blocks_reused_{0};
  std::atomic<int64_t> drafted_tokens_{0};
  std::atomic<int64_t> accepted_tokens_{0};
  std::atomic<int64_t> failed_steps_{0};
  std::atomic<int64_t> consecutive_failed_steps_{0};
  std::atomic<int64_t> last_step_ms_;

  std::mutex join_mutex_;
  std::thread thread_;  // last: it uses everything above
};

Engine::Impl::Impl(std::unique_ptr<Executor> executor, const EngineOptions& options)
    : executor_(std::move(executor)),
      options_(Fit(options, executor_->limits())),
      vocab_size_(executor_->spec().vocab_size),
      max_context_(
          std::min(executor_->limits().max_context, executor_->limits().num_blocks * kKvBlockSize)),
      block_times_(options_.observer == nullptr
                       ? std::nullopt
                       : std::make_optional<BlockTimes>(executor_->limits().num_blocks,
                                                        options_.observer.get())),
      scheduler_(ToScheduler(options_, executor_->limits()),
                 block_times_ ? &*block_times_ : nullptr),
      pacer_(options_.max_num_seqs, options_.max_num_batched_tokens,
             executor_->least_prompt_rows()),
      sampler_(*executor_, options_.max_num_seqs),
      last_step_ms_(SteadyMilliseconds()) {
  batch_.reserve(static_cast<size_t>(options_.max_num_seqs));
  outbox_.reserve(
      static_cast<size_t>(options_.max_num_seqs * (options_.speculation.max_draft_tokens + 2)));
  guesses_.reserve(static_cast<size_t>(options_.speculation.max_draft_tokens));
  thread_ = std::thread([this] { Loop(); });
}

Status Engine::Impl::Validate(const GenerationRequest& request) const {
  ERNE_RETURN_IF_ERROR(ValidateSampling(request.sampling, vocab_size_));
  ERNE_RETURN_IF_ERROR(ValidateRepetition(request.repetition));
  if (request.prompt_logprobs < -1 || request.prompt_logprobs > vocab_size_) {
    return InvalidArgument(StrCat("prompt_logprobs must be -1 (none) to ", vocab_size_, ", got ",
                                  request.prompt_logprobs),
                           "prompt_logprobs");
  }
  if (request.timeout_ms < 0) {
    return InvalidArgument(StrCat("timeout_ms must not be negative, got ", request.timeout_ms),
                           "timeout");
  }
  if (request.prompt.empty()) return InvalidArgument("the prompt is empty", "prompt");
  for (const int32_t token : request.prompt) {
    if (token >= 0 && token < vocab_size_) continue;
    return InvalidArgument(
        StrCat("token id ", token, " is outside the vocabulary of ", vocab_size_), "prompt");
  }
  if (request.max_tokens < 1) {
    return InvalidArgument(StrCat("max_tokens must be at least 1, got ", request.max_tokens),
                           "max_tokens");
  }
  if (request.min_tokens < 0 || request.min_tokens > request.max_tokens) {
    return InvalidArgument(StrCat("min_tokens must be in 0..max_tokens (", request.max_tokens,
                                  "), got ", request.min_tokens),
                           "min_tokens");
  }
  if (request.grammar != nullptr) {
    ERNE_CHECK(request.grammar->vocabulary().num_tokens() == vocab_size_);
    if (request.grammar->shortest_answer() > request.max_tokens) {
      return InvalidArgument(
          StrCat("the shortest answer of the required form takes ",
                 request.grammar->shortest_answer(), " tokens; max_tokens is ", request.max_tokens),
          "max_tokens");
    }
  }
  const auto prompt = static_cast<int64_t>(request.prompt.size());
  if (prompt >= max_context_) {
    return InvalidArgument(
        StrCat("the prompt has ", prompt, " tokens; with one to generate the context holds ",
               max_context_, " at most"),
        "prompt");
  }
  if (request.max_tokens > max_context_ - prompt) {
    return InvalidArgument(
        StrCat("the prompt has ", prompt, " tokens and max_tokens is ", request.max_tokens,
               "; the context holds ", max_context_, " in all"),
        "max_tokens");
  }
  return {};
}

Status Engine::Impl::Submit(GenerationRequest request, std::shared_ptr<TokenStream> stream) {
  ERNE_CHECK(stream != nullptr);
  ERNE_RETURN_IF_ERROR(Validate(request));
  const PrefixKey root = scheduler_.Root(request.cache_salt);
  auto active = std::make_unique<ActiveRequest>(std::move(request), std::move(stream), vocab_size_,
                                                SteadySeconds());
  active->root = root;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!accepting_) return Unavailable("the engine is shutting down");
    if (accepted_.load(std::memory_order_relaxed) >= max_requests()) {
      return ResourceExhausted(StrCat("the queue is full: ", options_.max_num_seqs,
                                      " requests run and ", options_.max_num_queued_reqs, " wait"));
    }
    if (accepted_.load(std::memory_order_relaxed) == 0) {
      last_step_ms_.store(SteadyMilliseconds(), std::memory_order_relaxed);  // the engine wakes up
    }
    inbox_.push_back(std::move(active));
    accepted_.fetch_add(1, std::memory_order_release);
  }
  wake_.notify_one();
  return {};
}

void Engine::Impl::Shutdown(int64_t timeout_ms) {
  {
    std::unique_lock<std::mutex> lock(mutex_);
    accepting_ = false;
    drained_.wait_for(lock, std::chrono::milliseconds(std::max<int64_t>(timeout_ms, 0)),
                      [this] { return stop_ || accepted_.load(std::memory_order_relaxed) == 0; });
  }
  Stop();
}

void Engine::Impl::Stop() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    accepting_ = false;
    stop_ = true;
  }
  wake_.notify_one();
  drained_.notify_all();
  const std::lock_guard<std::mutex> lock(join_mutex_);
  if (thread_.joinable()) thread_.join();
}

EngineStats Engine::Impl::stats() const {
  const auto read = [](const std::atomic<int64_t>& value) {
    return value.load(std::memory_order_relaxed);
  };
  // First, and with acquire: a reader that sees a request also sees the time of waking up, not an
  // old step's.
  const int64_t accepted = accepted_.load(std::memory_order_acquire);
  EngineStats stats;
  stats.running = running_.load(std::memory_order_acquire);
  stats.waiting = std::max<int64_t>(0, accepted - stats.running);
  stats.kv_blocks_used = read(blocks_used_);
  stats.kv_blocks_total = executor_->limits().num_blocks;
  stats.prompt_tokens = read(prompt_tokens_);
  stats.generated_tokens = read(generated_tokens_);
  stats.kv_tokens = read(kv_tokens_);
  stats.steps = read(steps_);
  stats.preemptions = read(preemptions_);
  stats.prefix_queries = read(prefix_queries_);
  stats.prefix_hits = read(prefix_hits_);
  stats.blocks_taken = read(blocks_taken_);
  stats.blocks_reused = read(blocks_reused_);
  stats.drafted_tokens = read(drafted_tokens_);
  stats.accepted_tokens = read(accepted_tokens_);
  stats.failed_steps = read(failed_steps_);
  stats.consecutive_failed_steps = read(consecutive_failed_steps_);
  stats.last_step_ms = read(last_step_ms_);
  return stats;
}

void Engine::Impl::Loop() {
  TakeLongTurns();  // it is one of the threads that compute
  executor_->AdoptThread();
  while (WaitForWork()) {
    SetNow();
    TakeInbox();
    DropUnwanted();
    if (!live_.empty()) Step();
    if (live_.empty()) SendOutbox();  // no step follows
  }
  SetNow();
  FailEverything();
}

void Engine::Impl::SetNow() {
  now_ = SteadySeconds();
  if (block_times_) block_times_->SetNow(now_);
}

// False: stop. Takes arrivals on the way; sleeps while there is nothing to do.
bool Engine::Impl::WaitForWork() {
  std::unique_lock<std::mutex> lock(mutex_);
  if (!stop_ && inbox_.empty() && live_.empty()) {
    lock.unlock();
    const Status integrity = scheduler_.CheckIntegrity();
    ERNE_CHECK(integrity.ok() && scheduler_.pool().num_used() == 0)
        << "idle, " << scheduler_.pool().num_used() << " blocks in use; " << integrity.message();
    lock.lock();
    drained_.notify_all();
    wake_.wait(lock, [this] { return stop_ || !inbox_.empty(); });
  }
  if (stop_) return false;
  std::swap(inbox_, taken_);
  return true;
}

void Engine::Impl::TakeInbox() {
  for (std::unique_ptr<ActiveRequest>& request : taken_) {
    request->index = live_.size();
    scheduler_.Add(request.get());
    live_.push_back(std::move(request));
  }
  taken_.clear();
}

// Those that nobody waits for, and those whose time is up.
void Engine::Impl::DropUnwanted() {
  // From the end: Retire fills the gap with the last one, which was looked at already.
  for (size_t i = live_.size(); i-- > 0;) {
    ActiveRequest& request = *live_[i];
    if (request.stream().cancelled()) {
      Retire(request, {});
    } else if (request.overdue(now_)) {
      FailRequest(request,
                  DeadlineExceeded(
                      StrCat("the request has not ended within its ", request.timeout_ms(),
                             " ms: ", request.record.generated_tokens, " tokens were generated")));
    }
  }
}

void Engine::Impl::Step() {
  const int64_t prefilling = scheduler_.num_prefilling();
  const int64_t decoding = scheduler_.num_running() - prefilling;
  // Of those who wait, only as many as there are seats for are let in.
  const int64_t seats = options_.max_num_seqs - scheduler_.num_running();
  const int64_t prompts = prefilling + std::min(scheduler_.num_waiting(), seats);
  Guess(decoding, prompts);
  const std::span<const ScheduledRows> step =
      scheduler_.Schedule(pacer_.MaxPromptRows(decoding, prompts, scheduler_.longest_prefilling()));
  ERNE_CHECK(!step.empty()) << live_.size() << " requests and nothing to run";
  StepShape shape = Begin(step);
  Publish();

  const double begin = SteadySeconds();
  const Result<std::span<const float>> logits =
      executor_->RunWhile(batch_, [this] { SendOutbox(); });
  SetNow();
  const double seconds = now_ - begin;
  steps_.fetch_add(1, std::memory_order_relaxed);
  last_step_ms_.store(SteadyMilliseconds(), std::memory_order_relaxed);
  if (!logits.ok()) return FailStep(step, logits.status());
  consecutive_failed_steps_.store(0, std::memory_order_relaxed);
  const int64_t accepted_before = accepted_tokens_.load(std::memory_order_relaxed);
  Deliver(step, *logits);
  shape.accepted = accepted_tokens_.load(std::memory_order_relaxed) - accepted_before;
  // Tokens come at this pace: choosing them is part of a step.
  pacer_.Add(shape, SteadySeconds() - begin);
  if (options_.observer == nullptr) return;
  options_.observer->OnStep({.rows = shape.decoding + shape.prompt_rows + shape.drafted,
                             .sequences = static_cast<int64_t>(batch_.size()),
                             .drafted = shape.drafted,
                             .accepted = shape.accepted,
                             .seconds = seconds});
}

// Lets sequences that decode guess what comes next, where that is worth it.
void Engine::Impl::Guess(int64_t decoding, int64_t prompts) {
  const SpeculationOptions& options = options_.speculation;
  if (options.max_draft_tokens == 0 ||
      (options.measured && !pacer_.WantsGuesses(decoding, prompts))) {
    return;
  }
  for (const std::unique_ptr<ActiveRequest>& request : live_) {
    if (request->state == Sequence::State::kRunning && request->has_output() &&
        request->computed + 1 == request->known()) {
      request->Guess(options.rule, options.max_draft_tokens);
    }
  }
}

// Makes the batch of a step, and notes what it is made of.
StepShape Engine::Impl::Begin(std::span<const ScheduledRows> step) {
  StepShape shape;
  int64_t kv_tokens = 0;
  bool traced = false;
  batch_.clear();
  for (const ScheduledRows& rows : step) {
    auto& request = static_cast<ActiveRequest&>(*rows.sequence);
    if (request.record.started == 0) {
      request.record.started = now_;
      request.record.cached_tokens = request.cached;
      request.prompt_counted = request.cached;
    }
    const int64_t known_rows = rows.count - request.drafts;
    const bool decodes = rows.reaches_end && known_rows == 1;
    shape.decoding += decodes ? 1 : 0;
    shape.prompt_rows += decodes ? 0 : known_rows;
    shape.drafted += request.drafts;
    kv_tokens += rows.start + rows.count;
    traced |= request.route_trace();
    batch_.push_back(
        {.start = rows.start,
         .tokens = std::span(request.tokens)
                       .subspan(static_cast<size_t>(rows.start), static_cast<size_t>(rows.count)),
         .blocks = request.blocks,
         .logits = sampler_.Wanted(rows),
         .choice = request.Choice()});
  }
  executor_->SetRoutingTrace(traced ? &routes_ : nullptr);
  kv_tokens_.store(kv_tokens, std::memory_order_relaxed);
  drafted_tokens_.fetch_add(shape.drafted, std::memory_order_relaxed);
  return shape;
}

void Engine::Impl::Deliver(std::span<const ScheduledRows> step, std::span<const float> logits) {
  sampler_.Sample(step, batch_, logits);
  const auto vocab = static_cast<size_t>(vocab_size_);
  for (size_t i = 0; i < step.size(); ++i) {
    // Of a token that the executor chose there are none.
    const bool returned = batch_[i].logits != SequenceRows::Logits::kToken;
    const size_t size = returned ? static_cast<size_t>(step[i].logits) * vocab : 0;
    DeliverRows(step[i], i, logits.first(size));
    logits = logits.subspan(size);
  }
}

// index: of the rows in the step. logits: [rows.logits, vocab], or none where the executor chose.
void Engine::Impl::DeliverRows(const ScheduledRows& rows, size_t index,
                               std::span<const float> logits) {
  auto& request = static_cast<ActiveRequest&>(*rows.sequence);
  CountPrompt(request, rows.start + rows.count);
  if (request.prompt_logits) {
    const int64_t first = rows.start + rows.count - rows.logits;
    for (int64_t i = 0; i < rows.logits; ++i) {
      const Status status = request.CollectPromptLogprobs(first + i, RowOf(logits, i, vocab_size_),
                                                          sampler_.scratch());
      if (!status.ok()) return FailRequest(request, status);
    }
  }
  if (!rows.reaches_end) return scheduler_.Commit(rows, 0);
  request.prompt_logits = false;
  DeliverTokens(rows, index, logits);
}

// Takes the next token, and samples the ones behind it as far as the guesses go on being right: the
// logits behind a right guess are those that a step of its own would have brought.
void Engine::Impl::DeliverTokens(const ScheduledRows& rows, size_t index,
                                 std::span<const float> logits) {
  auto& request = static_cast<ActiveRequest&>(*rows.sequence);
  request.TakeGuesses(guesses_);
  const auto drafted = static_cast<int64_t>(guesses_.size());
  if (!request.has_output()) request.ReserveAnswer(options_.speculation.max_draft_tokens);
  const int64_t newest = rows.logits - 1 - drafted;
  for (int64_t accepted = 0;; ++accepted) {
    Result<SampledToken> sampled =
        accepted == 0
            ? sampler_.Take(index)
            : request.Sample(RowOf(logits, newest + accepted, vocab_size_), sampler_.scratch());
    if (!sampled.ok()) return FailRequest(request, sampled.status());
    const int32_t token = sampled->token;
    TokenEvent event{.token = token, .logprobs = std::move(sampled->logprobs)};
    if (request.route_trace()) event.experts = RouteOf(index, rows.count - 1 - drafted + accepted);
    event.finish = request.Accept(token);
    if (event.finish == FinishReason::kStop) event.stop_token = token;
    generated_tokens_.fetch_add(1, std::memory_order_relaxed);
    const bool goes_on =
        !event.finish && accepted < drafted && token == guesses_[static_cast<size_t>(accepted)];
    if (goes_on) {
      accepted_tokens_.fetch_add(1, std::memory_order_relaxed);
    } else {
      scheduler_.Commit(rows, drafted - accepted);
      if (drafted > 0) request.JudgeGuesses(drafted, accepted);
    }
    Send(request, std::move(event));
    if (!goes_on) return;
  }
}

// The experts of row `row` of sequence `index` of the step, as TokenEvent::experts.
std::vector<int32_t> Engine::Impl::RouteOf(size_t index, int64_t row) const {
  for (size_t i = 0; i < index; ++i) row += static_cast<int64_t>(batch_[i].tokens.size());
  const int64_t top_k = executor_->spec().moe.routing.top_k;
  std::vector<int32_t> route;
  for (const RoutingTrace::Layer& layer : routes_.layers) {
    const auto first = layer.ids.begin() + row * top_k;
    route.insert(route.end(), first, first + top_k);
  }
  return route;
}

// An event with a token. The last one retires the request.
void Engine::Impl::Send(ActiveRequest& request, TokenEvent event) {
  RequestRecord& record = request.record;
  EngineObserver* const observer = options_.observer.get();
  if (record.first_token == 0) {
    record.first_token = now_;
    event.cached_tokens = record.cached_tokens;
    event.prompt_logprobs = request.TakePromptLogprobs();
    if (observer != nullptr) observer->OnFirstToken(now_ - record.arrived);
  } else if (observer != nullptr) {
    observer->OnNextToken(now_ - record.last_token);
  }
  record.last_token = now_;
  if (event.finish) return Retire(request, std::move(event));
  outbox_.push_back({request.shared_stream(), std::move(event)});
}

void Engine::Impl::SendOutbox() {
  for (Letter& letter : outbox_) letter.to->Push(std::move(letter.event));
  outbox_.clear();
}

// What a preemption makes to be computed again counts once.
void Engine::Impl::CountPrompt(ActiveRequest& request, int64_t computed) {
  const int64_t prompt = std::min(computed, request.prompt_length());
  if (prompt <= request.prompt_counted) return;
  prompt_tokens_.fetch_add(prompt - request.prompt_counted, std::memory_order_relaxed);
  request.prompt_counted = prompt;
}

void Engine::Impl::FailRequest(ActiveRequest& request, const Status& status) {
  // What the client asked for is the client's matter; the rest is ours.
  if (status.code() == StatusCode::kInternal) {
    scheduler_.Distrust(request);
    ERNE_LOG(kError, "engine") << "request " << request.record.id
                               << " failed: " << status.message();
  }
  Retire(request, {.finish = FinishReason::kAbort, .error = status});
}

void Engine::Impl::FailStep(std::span<const ScheduledRows> step, const Status& status) {
  failed_steps_.fetch_add(1, std::memory_order_relaxed);
  const int64_t in_a_row = consecutive_failed_steps_.fetch_add(1, std::memory_order_relaxed) + 1;
  ERNE_LOG(kError, "engine") << "a step of " << step.size() << " requests failed (" << in_a_row
                             << " in a row): " << status.message();
  for (const ScheduledRows& rows : step) {
    Retire(static_cast<ActiveRequest&>(*rows.sequence),
           {.finish = FinishReason::kAbort, .error = status});
  }
}

void Engine::Impl::FailEverything() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    std::swap(inbox_, taken_);  // nothing follows: Submit sees accepting_
  }
  TakeInbox();
  while (!live_.empty()) {
    Retire(*live_.back(),
           {.finish = FinishReason::kAbort, .error = Unavailable("the engine is shutting down")});
  }
  SendOutbox();
  drained_.notify_all();
}

void Engine::Impl::Retire(ActiveRequest& request, TokenEvent last) {
  const size_t index = request.index;
  scheduler_.Remove(&request);
  const std::unique_ptr<ActiveRequest> retired = std::move(live_[index]);
  if (index + 1 < live_.size()) {
    live_[index] = std::move(live_.back());
    live_[index]->index = index;
  }
  live_.pop_back();
  accepted_.fetch_sub(1, std::memory_order_relaxed);
  // Before the event: who saw a request end sees its memory free, and finds it counted.
  Publish();
  if (options_.observer != nullptr) {
    RequestRecord& record = retired->record;
    record.ended = now_;
    record.preemptions = retired->preemptions;
    record.finish = last.finish ? last.finish : retired->stream().cancelled_as();
    options_.observer->OnEnd(record);
  }
  if (last.finish.has_value()) outbox_.push_back({retired->shared_stream(), std::move(last)});
}

void Engine::Impl::Publish() {
  const auto store = [](std::atomic<int64_t>& to, int64_t value) {
    to.store(value, std::memory_order_relaxed);
  };
  const SchedulerCounters& counters = scheduler_.counters();
  store(blocks_used_, scheduler_.pool().num_used());
  store(preemptions_, counters.preemptions);
  store(prefix_queries_, counters.prefix_queries);
  store(prefix_hits_, counters.prefix_hits);
  store(blocks_taken_, counters.blocks_taken);
  store(blocks_reused_, counters.blocks_reused);
  if (live_.empty()) store(kv_tokens_, 0);
  // Last, for stats(): whoever sees a request run sees its blocks in use.
  running_.store(scheduler_.num_running(), std::memory_order_release);
}

Engine::Engine(std::unique_ptr<Executor> executor, const EngineOptions& options)
    : impl_(std::make_unique<Impl>(std::move(executor), options)) {}
Engine::~Engine() = default;

Status Engine::Submit(GenerationRequest request, std::shared_ptr<TokenStream> stream) {
  return impl_->Submit(std::move(request), std::move(stream));
}
void Engine::Shutdown(int64_t timeout_ms) { impl_->Shutdown(timeout_ms); }
EngineStats Engine::stats() const { return impl_->stats(); }
const ModelSpec& Engine::spec() const { return impl_->executor().spec(); }
int64_t Engine::max_context() const { return impl_->max_context(); }
int64_t Engine::max_requests() const { return impl_->max_requests(); }
ExecutorInfo Engine::executor_info() const { return impl_->executor().info(); }

}  // namespace erne
