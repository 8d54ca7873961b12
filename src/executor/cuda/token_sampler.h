// Chooses the tokens of a step on the device: plans the tasks, launches the kernels of sampling.h
// and reads what they chose. The few rows that they do not do (sampling_plan.h, row_sampler.h) are
// copied to the host and chosen from there.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include <cuda_runtime_api.h>

#include "base/status.h"
#include "executor/cuda/device.h"
#include "executor/cuda/sampling.h"
#include "executor/cuda/sampling_plan.h"
#include "executor/executor.h"

namespace erne::cuda {

// Device memory that a sampler takes; 0 where the vocabulary is sampled on the host.
uint64_t SamplerBytes(int64_t vocab_size, int64_t max_sequences);

// Owned by the executor, used by the thread that calls Run. For each step: Plan, Launch, then, when
// the stream is done, Finish.
class TokenSampler {
 public:
  // vocab_size: one of which SamplesVocab is true.
  TokenSampler(int64_t vocab_size, int64_t max_sequences);

  Status Allocate();
  uint64_t bytes() const { return arena_.bytes(); }

  // Starts the copy of the step's tasks.
  cudaError_t Plan(const Batch& batch, const Stream& stream);
  // logits: [logit rows, vocab] of the device.
  cudaError_t Launch(Stream& stream, const float* logits);
  // host_row: pinned, room for [vocab] or more. Waits where it copies rows.
  cudaError_t Finish(const Batch& batch, const float* logits, std::span<float> host_row);
  Result<SampledToken> Take(size_t sequence);

 private:
  struct Row {
    int32_t sequence = 0;
    int32_t logit_row = 0;
    int32_t task = -1;  // -1: the host's
  };

  const int64_t vocab_size_;
  const int64_t max_sequences_;
  Arena arena_;
  RowTask* tasks_ = nullptr;    // [sequences]
  uint32_t* words_ = nullptr;   // SamplingPlan::MostWords
  float* adjusted_ = nullptr;   // [sequences, vocab]
  uint32_t* maxima_ = nullptr;  // [2, sequences, chunks]
  uint64_t* sums_ = nullptr;    // [2, sequences, chunks]
  Memory pinned_tasks_;         // [sequences]
  Memory pinned_words_;         // SamplingPlan::MostWords
  Memory pinned_results_;       // [sequences]; the kernels write there
  std::optional<SamplingPlan> plan_;
  std::vector<Row> rows_;
  std::vector<std::optional<Result<SampledToken>>> chosen_;  // [sequences]
  SamplerScratch scratch_;
};

}  // namespace erne::cuda
