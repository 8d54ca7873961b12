#include "engine/engine.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <limits>
#include <mutex>
#include <optional>
#include <random>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/log.h"
#include "base/strings.h"
#include "engine/scheduler.h"
#include "sampling/sampler.h"

namespace erne {
namespace {

int64_t SteadyMilliseconds() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::milliseconds>(now).count();
}

// A request from Submit to its last event. Made by the submitting thread, then the loop thread's
// alone.
struct ActiveRequest : Sequence {
  ActiveRequest(GenerationRequest request, std::shared_ptr<TokenStream> to, int64_t vocab_size)
      : sampler(std::move(request.sampling), vocab_size, request.prompt),
        stop_tokens(std::move(request.stop_tokens)),
        min_tokens(request.min_tokens),
        repetition(request.repetition),
        prompt_length(static_cast<int64_t>(request.prompt.size())),
        stream(std::move(to)) {
    tokens = std::move(request.prompt);
    max_total = prompt_length + request.max_tokens;
    priority = request.priority;
    std::erase_if(stop_tokens, [&](int32_t token) { return token < 0 || token >= vocab_size; });
  }

  std::span<const int32_t> output() const {
    return std::span(tokens).subspan(static_cast<size_t>(prompt_length));
  }
  SamplePoint NextPoint() const {
    SamplePoint point{.position = static_cast<uint64_t>(known()), .output = output()};
    if (known() - prompt_length < min_tokens) point.banned = stop_tokens;
    return point;
  }
  bool StopsWith(int32_t token) const {
    return std::find(stop_tokens.begin(), stop_tokens.end(), token) != stop_tokens.end();
  }

  // What makes the answer end with `token`, its last one; nothing when it goes on.
  std::optional<FinishReason> EndsWith(int32_t token) {
    const bool repeats = repetition.Add(output());
    if (StopsWith(token)) return FinishReason::kStop;
    if (repeats && known() - prompt_length >= min_tokens) return FinishReason::kRepetition;
    if (known() == max_total) return FinishReason::kLength;
    return std::nullopt;
  }

  RequestSampler sampler;
  std::vector<int32_t> stop_tokens;
  int64_t min_tokens;
  RepetitionDetector repetition;
  int64_t prompt_length;
  std::shared_ptr<TokenStream> stream;
  int64_t prompt_counted = 0;  // prompt tokens that the statistics have
  size_t index = 0;            // in Impl::live_
};

// The options that the executor allows.
EngineOptions Fit(EngineOptions options, const ExecutorLimits& limits) {
  ERNE_CHECK(options.max_num_seqs > 0 && options.max_num_batched_tokens > 0 &&
             options.max_num_queued_reqs >= 0);
  ERNE_CHECK(limits.max_rows > 0 && limits.max_logit_rows > 0 && limits.max_sequences > 0 &&
             limits.max_context > 0 && limits.num_blocks > 0);
  options.max_num_batched_tokens = std::min(options.max_num_batched_tokens, limits.max_rows);
  options.max_num_seqs = std::min({options.max_num_seqs, options.max_num_batched_tokens,
                                   limits.max_sequences, limits.max_logit_rows});
  return options;
}

SchedulerOptions ForScheduler(const EngineOptions& options, const ExecutorLimits& limits) {
  std::random_device random;
  const auto word = [&random] { return uint64_t{random()} << 32 | random(); };
  return {.max_num_seqs = options.max_num_seqs,
          .max_num_batched_tokens = options.max_num_batched_tokens,
          .max_logit_rows = limits.max_logit_rows,
          .num_blocks = limits.num_blocks,
          .prefix_caching = options.enable_prefix_caching,
          .secret = {word(), word()}};
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
  void DropCancelled();
  void Step();
  void DeliverTokens(std::span<const ScheduledRows> step, std::span<const float> logits);
  void DeliverToken(ActiveRequest& request, std::span<const float> logits);
  void FailStep(std::span<const ScheduledRows> step, const Status& status);
  void FailEverything();
  // Frees what the request holds, then sends its last event. Deletes `request`.
  void Retire(ActiveRequest& request, TokenEvent last);
  void Publish();

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
  Scheduler scheduler_;
  std::vector<std::unique_ptr<ActiveRequest>> live_;   // no order
  std::vector<std::unique_ptr<ActiveRequest>> taken_;  // inbox_'s other buffer
  Batch batch_;
  SamplerScratch scratch_;

  // Statistics: written by the loop thread but for accepted_, read by any.
  std::atomic<int64_t> accepted_{0};  // requests inside: inbox_ and live_
  std::atomic<int64_t> running_{0};
  std::atomic<int64_t> blocks_used_{0};
  std::atomic<int64_t> prompt_tokens_{0};
  std::atomic<int64_t> generated_tokens_{0};
  std::atomic<int64_t> steps_{0};
  std::atomic<int64_t> preemptions_{0};
  std::atomic<int64_t> prefix_queries_{0};
  std::atomic<int64_t> prefix_hits_{0};
  std::atomic<int64_t> blocks_taken_{0};
  std::atomic<int64_t> blocks_reused_{0};
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
      scheduler_(ForScheduler(options_, executor_->limits())),
      scratch_(vocab_size_),
      last_step_ms_(SteadyMilliseconds()) {
  batch_.reserve(static_cast<size_t>(options_.max_num_seqs));
  thread_ = std::thread([this] { Loop(); });
}

Status Engine::Impl::Validate(const GenerationRequest& request) const {
  ERNE_RETURN_IF_ERROR(ValidateSampling(request.sampling, vocab_size_));
  ERNE_RETURN_IF_ERROR(ValidateRepetition(request.repetition));
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
  auto active = std::make_unique<ActiveRequest>(std::move(request), std::move(stream), vocab_size_);
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
    accepted_.fetch_add(1, std::memory_order_release);
    inbox_.push_back(std::move(active));
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
  stats.running = read(running_);
  stats.waiting = std::max<int64_t>(0, accepted - stats.running);
  stats.kv_blocks_used = read(blocks_used_);
  stats.kv_blocks_total = executor_->limits().num_blocks;
  stats.prompt_tokens = read(prompt_tokens_);
  stats.generated_tokens = read(generated_tokens_);
  stats.steps = read(steps_);
  stats.preemptions = read(preemptions_);
  stats.prefix_queries = read(prefix_queries_);
  stats.prefix_hits = read(prefix_hits_);
  stats.blocks_taken = read(blocks_taken_);
  stats.blocks_reused = read(blocks_reused_);
  stats.failed_steps = read(failed_steps_);
  stats.consecutive_failed_steps = read(consecutive_failed_steps_);
  stats.last_step_ms = read(last_step_ms_);
  return stats;
}

void Engine::Impl::Loop() {
  while (WaitForWork()) {
    TakeInbox();
    DropCancelled();
    if (!live_.empty()) Step();
  }
  FailEverything();
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

void Engine::Impl::DropCancelled() {
  // From the end: Retire fills the gap with the last one, which was looked at already.
  for (size_t i = live_.size(); i-- > 0;) {
    if (live_[i]->stream->cancelled()) Retire(*live_[i], {});
  }
}

void Engine::Impl::Step() {
  const std::span<const ScheduledRows> step =
      scheduler_.Schedule(std::numeric_limits<int64_t>::max());
  ERNE_CHECK(!step.empty()) << live_.size() << " requests and nothing to run";
  Publish();
  batch_.clear();
  for (const ScheduledRows& rows : step) {
    const Sequence& sequence = *rows.sequence;
    batch_.push_back(
        {.start = rows.start,
         .tokens = std::span(sequence.tokens)
                       .subspan(static_cast<size_t>(rows.start), static_cast<size_t>(rows.count)),
         .blocks = sequence.blocks,
         .logits = rows.reaches_end ? SequenceRows::Logits::kLast : SequenceRows::Logits::kNone});
  }
  const Result<std::span<const float>> logits = executor_->Run(batch_);
  steps_.fetch_add(1, std::memory_order_relaxed);
  last_step_ms_.store(SteadyMilliseconds(), std::memory_order_relaxed);
  if (logits.ok()) {
    consecutive_failed_steps_.store(0, std::memory_order_relaxed);
    DeliverTokens(step, *logits);
  } else {
    FailStep(step, logits.status());
  }
}

void Engine::Impl::DeliverTokens(std::span<const ScheduledRows> step,
                                 std::span<const float> logits) {
  const auto vocab = static_cast<size_t>(vocab_size_);
  size_t row = 0;
  for (const ScheduledRows& rows : step) {
    auto& request = static_cast<ActiveRequest&>(*rows.sequence);
    scheduler_.Commit(rows, 0);
    const int64_t prompt_computed = std::min(rows.start + rows.count, request.prompt_length);
    if (prompt_computed > request.prompt_counted) {
      prompt_tokens_.fetch_add(prompt_computed - request.prompt_counted, std::memory_order_relaxed);
      request.prompt_counted = prompt_computed;
    }
    if (!rows.reaches_end) continue;
    ERNE_CHECK((row + 1) * vocab <= logits.size())
        << "the executor returned " << logits.size() << " logits";
    DeliverToken(request, logits.subspan(row * vocab, vocab));
    ++row;
  }
}

void Engine::Impl::DeliverToken(ActiveRequest& request, std::span<const float> logits) {
  Result<SampledToken> sampled = request.sampler.Sample(logits, request.NextPoint(), scratch_);
  if (!sampled.ok()) {
    ERNE_LOG(kError, "engine") << "a request failed: " << sampled.status().message();
    Retire(request, {.finish = FinishReason::kAbort, .error = sampled.status()});
    return;
  }
  const int32_t token = sampled->token;
  if (request.known() == request.prompt_length) {
    // Room for the whole answer at the first token: a queued request holds its prompt only.
    request.tokens.reserve(static_cast<size_t>(request.max_total));
    request.sampler.Reserve(request.max_total - request.prompt_length);
  }
  request.tokens.push_back(token);
  request.sampler.Accept(token);
  generated_tokens_.fetch_add(1, std::memory_order_relaxed);

  TokenEvent event{.token = token, .logprobs = std::move(sampled->logprobs)};
  event.finish = request.EndsWith(token);
  if (event.finish == FinishReason::kStop) event.stop_token = token;
  if (event.finish.has_value()) {
    Retire(request, std::move(event));
  } else {
    request.stream->Push(std::move(event));
  }
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
  // Before the event: who saw a request end sees its memory free.
  Publish();
  if (last.finish.has_value()) retired->stream->Push(std::move(last));
}

void Engine::Impl::Publish() {
  running_.store(scheduler_.num_running(), std::memory_order_relaxed);
  blocks_used_.store(scheduler_.pool().num_used(), std::memory_order_relaxed);
  const SchedulerCounters& counters = scheduler_.counters();
  preemptions_.store(counters.preemptions, std::memory_order_relaxed);
  prefix_queries_.store(counters.prefix_queries, std::memory_order_relaxed);
  prefix_hits_.store(counters.prefix_hits, std::memory_order_relaxed);
  blocks_taken_.store(counters.blocks_taken, std::memory_order_relaxed);
  blocks_reused_.store(counters.blocks_reused, std::memory_order_relaxed);
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
