// What the engine is asked for, and what it answers with. Token ids only: no text, no JSON.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "sampling/params.h"

namespace erne {

enum class FinishReason { kStop, kLength, kAbort };

struct GenerationRequest {
  std::vector<int32_t> prompt;       // not empty, ids within the vocabulary
  SamplingParams sampling;
  int64_t max_tokens = 0;            // > 0; prompt + max_tokens <= context
  std::vector<int32_t> stop_tokens;  // generation ends with one of these (reason kStop)
};

struct TokenEvent {
  int32_t token = -1;                    // -1: no token in this event (an abort or an error alone)
  std::optional<FinishReason> finish;    // set in the last event
  int32_t stop_token = -1;               // the stop token that ended it, when reason is kStop
  Status error;                          // not ok: the request failed (finish is kAbort)
};

// One request's answers, from the engine's loop thread (producer) to one consumer thread. Thread-safe. Shared by both
// sides; the engine drops its reference after the last event.
class TokenStream {
 public:
  // `wake` is called from the loop thread after events were added: it must return at once and must not call back into
  // the stream (post to your own thread). A call may still be running while Cancel returns.
  explicit TokenStream(std::function<void()> wake) : wake_(std::move(wake)) {}

  // Consumer: moves all pending events to the end of `out`; false when there were none.
  bool Take(std::vector<TokenEvent>& out);
  // Consumer: waits for an event (tests, command line).
  void WaitAndTake(std::vector<TokenEvent>& out);
  // Consumer: nobody wants the rest. The next step drops the request and frees its blocks; no event follows.
  void Cancel() { cancelled_.store(true, std::memory_order_relaxed); }

  // Producer.
  bool cancelled() const { return cancelled_.load(std::memory_order_relaxed); }
  void Push(TokenEvent event);

 private:
  std::function<void()> wake_;
  std::atomic<bool> cancelled_{false};
  std::mutex mutex_;
  std::condition_variable ready_;
  std::vector<TokenEvent> events_;
};

}  // namespace erne
