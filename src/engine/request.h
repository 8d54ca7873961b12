// What the engine is asked for, and what it answers with. Token ids only: no text, no JSON.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "grammar/compiled_grammar.h"
#include "sampling/params.h"
#include "sampling/repetition_detector.h"
#include "sampling/sampler.h"

namespace erne {

enum class FinishReason {
  kStop,
  kLength,
  kRepetition,  // the answer ran in a circle: GenerationRequest::repetition
  kComplete,    // nothing may follow: GenerationRequest::grammar
  kAbort,
};

struct GenerationRequest {
  std::vector<int32_t> prompt;  // not empty, ids within the vocabulary
  SamplingParams sampling;
  int64_t max_tokens = 0;  // > 0; prompt + max_tokens <= context
  // Generation ends with one of these (reason kStop). Ids outside the vocabulary never come.
  std::vector<int32_t> stop_tokens;
  // 0..max_tokens: no stop token comes before that many others.
  int64_t min_tokens = 0;
  // Generation ends when the answer has run in such a circle (and has min_tokens).
  RepetitionRule repetition = {};
  // What the answer must match; null: anything. Over the executor's vocabulary; its shortest answer
  // fits max_tokens. Stop tokens come where the answer may end, and it ends by itself (kComplete)
  // where nothing may follow. A circle does not end such an answer: it is brought to its shortest
  // end.
  std::shared_ptr<const grammar::CompiledGrammar> grammar = nullptr;

  // Lower goes first, before the order of arrival; running requests do not give way to it.
  int64_t priority = 0;
  // Requests share computed prefixes with those of the same salt alone.
  std::string cache_salt = {};
  // -1: none. Otherwise the first event carries, for each prompt token but the first, its
  // log-probability and those of the `prompt_logprobs` most probable tokens there. Such a request
  // computes its whole prompt: nothing is taken from the prefix cache.
  int32_t prompt_logprobs = -1;
  // Each event with a token tells which experts chose it (TokenEvent::experts).
  bool route_trace = false;
  // From Submit on; a request that has not ended by then ends with an error (DeadlineExceeded). 0:
  // no deadline.
  int64_t timeout_ms = 0;
  // For logs and observers.
  std::string id = {};
};

// Every event but a lone abort or error carries one generated token, so the number of tokens in
// events is usage's completion_tokens. That counts the stop token, as vLLM does; its text is not
// shown to the user (token == stop_token).
struct TokenEvent {
  int32_t token = -1;  // -1: no token in this event (an abort or an error alone)
  std::optional<FinishReason> finish = {};  // set in the last event
  int32_t stop_token = -1;                  // the stop token that ended it, when reason is kStop
  // As SamplingParams::logprobs asks: the token's own first, then the most probable ones.
  std::vector<TokenLogprob> logprobs = {};
  // With route_trace: [MoE layers, top_k], the experts of the row that this token was chosen from;
  // empty for a model without experts.
  std::vector<int32_t> experts = {};
  // In the first event that carries a token. How many prompt tokens came from the prefix cache, and
  // what prompt_logprobs asks for: [prompt - 1] entries for the tokens at 1, 2, ..., each as
  // `logprobs`.
  int64_t cached_tokens = 0;
  std::vector<std::vector<TokenLogprob>> prompt_logprobs = {};
  Status error = {};  // not ok: the request failed (finish is kAbort)
};

// One request's answers, from the engine's loop thread (producer) to one consumer thread.
// Thread-safe. Shared by both sides; the engine drops its reference after the last event.
class TokenStream {
 public:
  // `wake` (may be empty) is called from the loop thread after an event was added: it must return
  // at once, must not throw and must not call back into the stream (post to your own thread). A
  // call may still be running while Cancel returns.
  explicit TokenStream(std::function<void()> wake);

  // Consumer: moves all pending events to the end of `out`; false when there were none.
  bool Take(std::vector<TokenEvent>& out);
  // Consumer: waits for an event (tests, command line). After the last event, or after Cancel, it
  // returns at once.
  void WaitAndTake(std::vector<TokenEvent>& out);
  // Any thread: nobody wants the rest. The next step drops the request and frees its blocks; Take
  // yields nothing more. `as` is what observers are told: kStop where the consumer saw the end of
  // the answer itself (a stop string), nothing where the client is gone. The first call counts.
  void Cancel(std::optional<FinishReason> as = std::nullopt);
  std::optional<FinishReason> cancelled_as() const;

  // Producer. Push does nothing on a cancelled stream.
  bool cancelled() const { return cancelled_.load(std::memory_order_relaxed); }
  void Push(TokenEvent event);

 private:
  std::function<void()> wake_;
  std::atomic<bool> cancelled_{false};  // written under mutex_
  mutable std::mutex mutex_;
  std::condition_variable ready_;
  bool finished_ = false;
  std::optional<FinishReason> cancelled_as_;
  std::vector<TokenEvent> events_;
};

}  // namespace erne
