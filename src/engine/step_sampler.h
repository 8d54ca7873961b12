// Chooses the tokens of a step, those that the executor does not choose where the logits are. Those
// of different sequences do not depend on each other, so the executor's threads share them.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/status.h"
#include "engine/scheduler.h"
#include "executor/executor.h"
#include "sampling/sampler.h"

namespace erne {

// Owned by the engine, used by its loop thread. Allocates nothing after construction but the
// log-probabilities that are asked for.
class StepSampler {
 public:
  // `executor` outlives this.
  StepSampler(Executor& executor, int64_t max_sequences);
  StepSampler(const StepSampler&) = delete;
  StepSampler& operator=(const StepSampler&) = delete;

  // What these rows ask the executor for.
  SequenceRows::Logits Wanted(const ScheduledRows& rows) const;

  // Chooses the token behind the last known one of each sequence of the step whose rows reach its
  // end. The sequences are ActiveRequests, their guesses still among their tokens; none is changed.
  // batch, logits: of the step, as Run took and gives them.
  void Sample(std::span<const ScheduledRows> step, const Batch& batch,
              std::span<const float> logits);
  // What was chosen for step[index]; once, and only where something was.
  Result<SampledToken> Take(size_t index);

  // For tokens that the loop thread chooses itself.
  SamplerScratch& scratch() { return scratches_.front(); }

 private:
  struct Job {
    const ScheduledRows* rows = nullptr;
    const float* logits = nullptr;  // [vocab]
    size_t index = 0;               // in the step
  };
  void RunJobs(SamplerScratch& scratch);

  Executor& executor_;
  const int64_t vocab_size_;
  std::vector<SamplerScratch> scratches_;  // one for each that takes jobs
  std::vector<Job> jobs_;
  std::vector<std::optional<Result<SampledToken>>> chosen_;  // [sequences of the step]
  std::atomic<size_t> next_job_{0};
};

}  // namespace erne
