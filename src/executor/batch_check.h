// The caller's side of Executor::Run's contract, checked in one place for every executor: a batch
// that breaks it would read or write memory of another sequence, so it ends the process instead.
#pragma once

#include <cstdint>
#include <span>

#include "base/status.h"
#include "executor/executor.h"

namespace erne {

struct BatchSize {
  int64_t rows = 0;
  int64_t logit_rows = 0;
};

// Rows of which one sequence wants logits computed.
int64_t LogitRows(const SequenceRows& sequence);

// CHECKs the batch against the limits (rows, logit rows, sequences, context), the vocabulary and
// the block pool, and counts its rows. Reads every token and block id once; allocates nothing.
BatchSize CheckBatch(const Batch& batch, int64_t vocab_size, const ExecutorLimits& limits);

// InvalidArgument, naming the field, when no batch at all would fit.
Status CheckLimits(const ExecutorLimits& limits);

// Index of `position` among all positions of the pool: where its K and V live. In [0, num_blocks *
// kKvBlockSize)
inline int64_t KvSlot(std::span<const BlockId> blocks, int64_t position) {
  return static_cast<int64_t>(blocks[static_cast<size_t>(position / kKvBlockSize)]) * kKvBlockSize +
         position % kKvBlockSize;
}

}  // namespace erne
