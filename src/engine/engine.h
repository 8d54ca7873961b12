// The engine: a queue of requests, a scheduler, and one loop thread that steps an executor. Contract: engine/README.md.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "base/status.h"
#include "engine/request.h"
#include "executor/executor.h"

namespace erne {

struct EngineOptions {
  int64_t max_num_seqs = 64;              // sequences in one step
  int64_t max_num_batched_tokens = 512;   // token budget of one step
  int64_t max_num_queued_reqs = 1024;     // waiting requests; more are refused (ResourceExhausted)
};

// A snapshot for /health, STATS and tests; each field is consistent by itself.
struct EngineStats {
  int64_t running = 0;
  int64_t waiting = 0;
  int64_t kv_blocks_used = 0;
  int64_t kv_blocks_total = 0;
  int64_t prompt_tokens = 0;      // computed since start
  int64_t generated_tokens = 0;   // since start
  int64_t steps = 0;
  int64_t preemptions = 0;
  int64_t last_step_ms = 0;       // steady-clock milliseconds of the last finished step (or start)
};

// Thread-safe but for construction and destruction. Several engines may live in one process.
class Engine {
 public:
  Engine(std::unique_ptr<Executor> executor, const EngineOptions& options);
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;
  // Stops the loop; requests still inside end with an error event.
  ~Engine();

  // Queues a request; its events arrive in `stream`. InvalidArgument when it can never fit (with both numbers),
  // ResourceExhausted when the queue is full, Unavailable after Shutdown.
  Status Submit(GenerationRequest request, std::shared_ptr<TokenStream> stream);

  // Lets accepted requests finish for up to `timeout_ms`, then ends the rest with an error event. Later Submits fail.
  void Shutdown(int64_t timeout_ms);

  EngineStats stats() const;
  const ModelSpec& spec() const;
  // Longest prompt + answer of one request, in tokens.
  int64_t max_context() const;
  ExecutorInfo executor_info() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace erne
