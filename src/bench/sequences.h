// Sequences side by side in an executor, and the cases that time them.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/status.h"
#include "bench/timing.h"
#include "bench/work.h"
#include "executor/executor.h"

namespace erne::bench {

// `count` sequences of up to `context` tokens, each with blocks of its own. Their tokens are drawn;
// whatever is computed again gives what is there already. Does not own the executor.
class Sequences {
 public:
  Sequences(Executor& executor, int64_t count, int64_t context, uint64_t seed);

  // Blocks that an executor needs for them.
  static int64_t Blocks(int64_t count, int64_t context);

  // Computes the first `length` tokens of the first `count` sequences, one sequence after the
  // other, in steps of as many rows as the executor takes; logits of the last row of each.
  Status Prefill(int64_t count, int64_t length);
  // Computes tokens [depth, depth + steps) of the first `count`, one of each in a step, with
  // logits.
  Status Decode(int64_t count, int64_t depth, int64_t steps);

  // `steps` times the same step: tokens [depth, depth + rows) of the first sequence, with logits of
  // the last `logit_rows` of them. The executor takes two sequences in a batch.
  Status Rows(int64_t depth, int64_t rows, int64_t logit_rows, int64_t steps);

  // What these do, of a model with this work.
  Case PrefillCase(const ModelWork& work, int64_t count, int64_t length);
  Case DecodeCase(const ModelWork& work, int64_t count, int64_t depth, int64_t steps);

 private:
  std::span<const int32_t> Tokens(int64_t sequence, int64_t begin, int64_t count) const;
  std::span<const BlockId> BlocksOf(int64_t sequence) const;

  Executor& executor_;
  const int64_t context_;
  std::vector<int32_t> tokens_;  // [count, context]
  std::vector<BlockId> blocks_;  // [count, blocks of the context]
  Batch batch_;
};

}  // namespace erne::bench
