// The kernels that choose tokens from the logits of a step, so that nothing but tokens goes back to
// the host. Rules and method: row_sampler.h; the tasks: sampling_plan.h.
#pragma once

#include <cstdint>

#include "executor/cuda/gemm.h"
#include "executor/cuda/row_sampler.h"

namespace erne::cuda {

// Chunks of a row.
inline int64_t ChunksOf(int64_t vocab_size) {
  return (vocab_size + kChunkTokens - 1) / kChunkTokens;
}

struct SampleArgs {
  const RowTask* tasks = nullptr;  // [rows]
  const uint32_t* words = nullptr;
  int rows = 0;
  bool weighs = false;            // some task wants weights of a whole row
  const float* logits = nullptr;  // [logit rows, vocab]
  int vocab = 0;
  float* adjusted = nullptr;     // [rows, vocab]
  uint32_t* maxima = nullptr;    // keys [2, rows, chunks]: of raw logits, then of adjusted ones
  uint64_t* sums = nullptr;      // [2, rows, chunks], likewise
  RowResult* results = nullptr;  // [rows], on the device or pinned
};
cudaError_t LaunchSample(Stream& stream, const SampleArgs& args);

// What must happen once before the first launch.
cudaError_t PrepareSampling();

}  // namespace erne::cuda
