// What the kernels that sample are told about the rows of a step: plain numbers, in the one buffer
// that is copied to the device.
#pragma once

#include <cstdint>
#include <span>

#include "executor/cuda/row_sampler.h"
#include "executor/executor.h"

namespace erne::cuda {

// Whether a vocabulary of that size is sampled on the device.
inline bool SamplesVocab(int64_t vocab_size) { return vocab_size <= kMostSampledVocab; }

// Collects the tasks of a step. Writes into memory of the caller; allocates nothing.
class SamplingPlan {
 public:
  // tasks: as many as a step can have. words: for bitmaps and lists.
  SamplingPlan(int64_t vocab_size, std::span<RowTask> tasks, std::span<uint32_t> words)
      : vocab_size_(vocab_size), tasks_(tasks), words_(words) {}

  void Clear() {
    num_tasks_ = num_words_ = 0;
    weighs_ = false;
  }
  // Adds a row of the step's logits. False, and nothing is added: the device does not do what is
  // asked for, or there is no room for its lists.
  bool Add(int32_t logit_row, const TokenChoice& choice);

  int64_t num_tasks() const { return num_tasks_; }
  int64_t num_words() const { return num_words_; }
  // Whether weights of whole rows are asked for.
  bool weighs() const { return weighs_; }

  // Words that hold the bitmaps of `rows` rows, and lists as long.
  static int64_t MostWords(int64_t vocab_size, int64_t rows) {
    constexpr int64_t kBitmaps = 4;  // three, and room for lists
    return rows * kBitmaps * ((vocab_size + 31) / 32 + 1);
  }

 private:
  bool AddEdits(const TokenChoice& choice, RowTask& task);
  // Space for that many words at `offset`; null: none is left.
  uint32_t* Take(size_t words, int32_t* offset);
  bool AddBitmap(std::span<const uint64_t> set, int32_t* offset);

  int64_t vocab_size_;
  std::span<RowTask> tasks_;
  std::span<uint32_t> words_;
  int64_t num_tasks_ = 0;
  int64_t num_words_ = 0;
  bool weighs_ = false;
};

// What the request gets: of a result with a token.
SampledToken ToSampledToken(const RowResult& result, const SamplingParams& params);

}  // namespace erne::cuda
