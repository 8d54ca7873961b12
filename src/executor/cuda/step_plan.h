// What the host decides about a step before the device runs it: plain numbers, in the one buffer
// that is copied to the device.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "executor/cuda/query_range.h"
#include "executor/executor.h"

namespace erne::cuda {

// The sizes of a step. Two steps of the same shape are the same launches.
struct StepShape {
  int rows = 0;
  int logit_rows = 0;
  bool all_have_logits = false;  // row i is logit row i
  int split_ranges = 0;
  int walked_ranges = 0;
};

// Where the parts of the buffer begin, in 32-bit words. Tables come last: their length is not part
// of the shape.
struct StepLayout {
  int64_t tokens = 0, positions = 0, slots = 0, logit_rows = 0, split_ranges = 0, walked_ranges = 0;
  int64_t tables = 0;
};
StepLayout LayoutOf(const StepShape& shape);

// What a planner knows of the model and the memory.
struct StepLimits {
  int group = 1;           // query heads of a kv head
  bool split = true;       // the cache has a split kernel
  int64_t max_states = 0;  // spans that the workspace of split attention holds, per kv head
  int64_t max_split_ranges = 0;
  int32_t spare_block = 0;  // a block that belongs to nobody, for rows that pad a batch
  int64_t max_words = 0;    // of the buffer
};

class StepPlanner {
 public:
  explicit StepPlanner(const StepLimits& limits) : limits_(limits) {}

  // Fills `out` (of max_words); `words` of it are used. With pad_to > 0, a batch of single rows
  // with logits that all fit split attention is padded with rows of nobody to that many rows; what
  // cannot be padded is planned as it is (then shape().rows is the batch's own).
  void Plan(const Batch& batch, int pad_to, std::span<int32_t> out);

  const StepShape& shape() const { return shape_; }
  int64_t words() const { return words_; }

  // Words that a step takes at most.
  static int64_t MostWords(const ExecutorLimits& limits, int64_t rows, int64_t split_ranges,
                           int group);

 private:
  int SplitTiles(const SequenceRows& sequence) const;
  int64_t SplitStates(const SequenceRows& sequence) const;
  void ChooseShape(const Batch& batch, int pad_to);
  void Write(const Batch& batch, std::span<int32_t> out);

  StepLimits limits_;
  StepShape shape_;
  int64_t words_ = 0;
  int padding_ = 0;  // rows of nobody
};

}  // namespace erne::cuda
