// What an engine tells those who measure it (metrics, logs). The engine measures nothing for itself
// and knows no metric's name.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "engine/request.h"

namespace erne {

// One executor step. Seconds are of the steady clock.
struct StepRecord {
  int64_t rows = 0;       // computed in this step
  int64_t sequences = 0;  // they belong to
  int64_t drafted = 0;    // rows that were guesses (speculation)
  int64_t accepted = 0;   // guesses that were right
  double seconds = 0;     // the executor's time, sampling not included
};

// A request from its arrival to its end. A point in time that was not reached is 0.
struct RequestRecord {
  std::string id = {};     // GenerationRequest::id
  double arrived = 0;      // Submit
  double started = 0;      // first step with rows of it
  double first_token = 0;  // sent
  double last_token = 0;
  double ended = 0;
  int64_t prompt_tokens = 0;
  int64_t cached_tokens = 0;  // of the prompt, found in the prefix cache when it first started
  int64_t generated_tokens = 0;
  int64_t max_tokens = 0;
  int64_t preemptions = 0;
  // Of a cancelled request TokenStream::cancelled_as: none when nobody waited for the rest.
  std::optional<FinishReason> finish = {};
};

// What happened to a block of the KV cache: for its life, idle time and reuse.
struct BlockRecord {
  double lived = 0;  // seconds from being taken to being given to somebody else
  double idle = 0;   // of them, since its last use
};

// All methods run on the loop thread between steps: they return at once, allocate nothing and do
// not call the engine.
class EngineObserver {
 public:
  EngineObserver() = default;
  EngineObserver(const EngineObserver&) = delete;
  EngineObserver& operator=(const EngineObserver&) = delete;
  virtual ~EngineObserver() = default;

  virtual void OnStep(const StepRecord& step) = 0;
  // `seconds` since the request's arrival for its first token, else since its last one. The tokens
  // of one step come at once: all but the first of them have 0.
  virtual void OnFirstToken(double seconds) = 0;
  virtual void OnNextToken(double seconds) = 0;
  virtual void OnEnd(const RequestRecord& request) = 0;
  // A cached block was found again after `idle_seconds` without use, or evicted.
  virtual void OnBlockReused(double idle_seconds) = 0;
  virtual void OnBlockEvicted(const BlockRecord& block) = 0;
};

}  // namespace erne
