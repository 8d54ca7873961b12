// The engine: a queue of requests, a scheduler, and one loop thread that steps an executor.
// Contract: engine/README.md.
#pragma once

#include <cstdint>
#include <memory>

#include "base/status.h"
#include "engine/observer.h"
#include "engine/prompt_lookup.h"
#include "engine/request.h"
#include "executor/executor.h"

namespace erne {

// Guessing the next tokens from what the sequence already says (prompt lookup, Saxena 2023): where
// its last tokens occurred before, what followed them then is checked in one step. Answers are the
// same with it and without, whatever the temperature; it is used while it is measured to pay.
struct SpeculationOptions {
  int64_t max_draft_tokens = 0;  // guesses in a step; 0: off
  PromptLookupRule rule = {};
  bool measured = true;  // false (tests): also where it does not pay
};

// All at least 1 (max_num_queued_reqs: 0). Lowered to what the executor can do; max_num_seqs also
// to max_num_batched_tokens, so that every running sequence moves in every step.
struct EngineOptions {
  int64_t max_num_seqs = 64;             // sequences in one step
  int64_t max_num_batched_tokens = 512;  // token budget of one step
  int64_t max_num_queued_reqs =
      1024;  // accepted requests beyond max_num_seqs; more are refused (ResourceExhausted)
  bool enable_prefix_caching = true;
  SpeculationOptions speculation = {};
  std::shared_ptr<EngineObserver> observer = nullptr;  // may be null
};

// A snapshot for /health, STATS and tests; each field is consistent by itself.
struct EngineStats {
  int64_t running = 0;
  int64_t waiting = 0;  // accepted and not running: not yet started, or preempted
  int64_t kv_blocks_used = 0;
  int64_t kv_blocks_total = 0;
  int64_t prompt_tokens =
      0;  // computed since start; what a preemption makes to be computed again counts once
  int64_t generated_tokens = 0;  // since start
  int64_t steps = 0;             // finished, failed ones included
  int64_t preemptions = 0;
  // Since start: full blocks of prompts that were looked up in the prefix cache, in tokens, and
  // those found.
  int64_t prefix_queries = 0;
  int64_t prefix_hits = 0;
  int64_t blocks_taken = 0;     // blocks that sequences took, since start
  int64_t blocks_reused = 0;    // of them, with keys and values that were there already
  int64_t kv_tokens = 0;        // positions held by running sequences
  int64_t drafted_tokens = 0;   // guesses checked, since start
  int64_t accepted_tokens = 0;  // and those that were right
  int64_t failed_steps = 0;     // Executor::Run answered an error
  int64_t consecutive_failed_steps =
      0;  // since the last good one: several mean that the device is gone
  // Steady-clock milliseconds at which the last step finished or, later, a request woke the idle
  // engine (or the start). While running + waiting > 0, an old value means that a step hangs.
  int64_t last_step_ms = 0;
};

// Thread-safe but for construction and destruction. Several engines may live in one process.
class Engine {
 public:
  Engine(std::unique_ptr<Executor> executor, const EngineOptions& options);
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;
  // Stops the loop after the step in hand; requests still inside end with an error event
  // (Unavailable).
  ~Engine();

  // Queues a request; its events arrive in `stream`. InvalidArgument (with the field as param) when
  // it is malformed or can never fit (with both numbers), ResourceExhausted when the queue is full,
  // Unavailable after Shutdown. On an error the stream gets no event.
  Status Submit(GenerationRequest request, std::shared_ptr<TokenStream> stream);

  // Lets accepted requests finish for up to `timeout_ms`, then ends the rest with an error event
  // and stops the loop. Later Submits fail.
  void Shutdown(int64_t timeout_ms);

  EngineStats stats() const;
  const ModelSpec& spec() const;
  // Longest prompt + answer of one request, in tokens.
  int64_t max_context() const;
  // Requests that may be inside at a time, running and waiting; Submit refuses one more.
  int64_t max_requests() const;
  ExecutorInfo executor_info() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace erne
