// An executor without a model, for tests of the engine and of what sits on it. Its logits are a
// pure function of the sequence's tokens, read back through the block tables: a wrong table, a
// missing or overwritten position gives a CHECK failure, never a wrong token.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "base/thread_pool.h"
#include "executor/executor.h"

namespace erne {

struct FakeExecutorOptions {
  int64_t vocab_size = 64;
  ExecutorLimits limits = {.max_rows = 64,
                           .max_logit_rows = 16,
                           .max_sequences = 16,
                           .max_context = 256,
                           .num_blocks = 64};
  // Called by Run (on the caller's thread) after the batch was checked. A status that is not ok
  // becomes Run's answer. May block, to hold a step.
  std::function<Status(const Batch&)> on_run;
  // The row of a sequence whose last token is this one is full of NaN.
  std::optional<int32_t> nan_after_token;
  int threads = 1;  // that ForEach uses
  bool chooses_tokens = false;
  bool meanwhile_last = false;  // RunWhile runs the batch first
};

class FakeExecutor : public Executor {
 public:
  explicit FakeExecutor(const FakeExecutorOptions& options);

  Result<std::span<const float>> Run(const Batch& batch) override;
  Result<std::span<const float>> RunWhile(const Batch& batch,
                                          const std::function<void()>& meanwhile) override;
  bool chooses_tokens() const override { return options_.chooses_tokens; }
  Result<SampledToken> TakeToken(size_t sequence) override { return tokens_.at(sequence); }
  void SetRoutingTrace(RoutingTrace*) override {}
  int threads() const override { return pool_.threads(); }
  void ForEach(int64_t count, const std::function<void(int64_t)>& body) override;
  const ModelSpec& spec() const override { return spec_; }
  const ExecutorLimits& limits() const override { return options_.limits; }
  ExecutorInfo info() const override;

  // The logits that follow `tokens`: what Run answers for them, and the oracle of tests.
  static std::vector<float> LogitsAfter(std::span<const int32_t> tokens, int64_t vocab_size);

 private:
  // What stands for keys and values: enough to know on reading whose position this is.
  struct Slot {
    int64_t position = -1;  // -1: never written
    uint64_t prefix = 0;    // hash of all tokens up to here
    int32_t token = 0;
    int64_t written_in_run = -1;
    int64_t read_in_run = -1;
  };

  uint64_t ReadPrefix(const SequenceRows& rows);
  int64_t WriteRows(const SequenceRows& rows, uint64_t prefix, int64_t logit_row);

  FakeExecutorOptions options_;
  ThreadPool pool_;
  ModelSpec spec_;
  std::vector<Slot> slots_;                        // [num_blocks * kKvBlockSize]
  std::vector<float> logits_;                      // [max_logit_rows, vocab]
  std::map<size_t, Result<SampledToken>> tokens_;  // of the last run, by place in the batch
  int64_t runs_ = 0;
};

}  // namespace erne
