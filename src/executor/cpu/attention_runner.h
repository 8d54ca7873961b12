// The paged KV cache and attention over it, spread over the threads.
#pragma once

#include <cstdint>
#include <vector>

#include "base/thread_pool.h"
#include "executor/cpu/kernels.h"
#include "executor/cpu/memory.h"
#include "executor/executor.h"

namespace erne::cpu {

// K and V of every layer: [layers, blocks, kv_heads], each as the panels of kernels.h.
class KvCache {
 public:
  KvCache(const Kernels& kernels, const ModelSpec& spec, const ExecutorLimits& limits,
          Workspace& workspace);
  KvCache(const KvCache&) = delete;
  KvCache& operator=(const KvCache&) = delete;

  // K and V of one position of one kv head. k, v: [head_dim]
  void Write(int64_t layer, int64_t kv_head, BlockId block, int64_t offset, const float* k,
             const float* v);

  // The panels of a kv head in block 0 of a layer; block b is b * block_stride() bytes further.
  const unsigned char* Head(int64_t layer, int64_t kv_head) const {
    return data_ + layer * layer_stride_ + kv_head * head_stride_;
  }
  int64_t block_stride() const { return block_stride_; }
  KvDType dtype() const { return dtype_; }

 private:
  const Kernels& kernels_;
  const KvDType dtype_;
  const int64_t head_dim_;
  int64_t head_stride_ = 0, block_stride_ = 0, layer_stride_ = 0;  // bytes
  unsigned char* data_ = nullptr;
};

// Plans the attention of a batch once per step, and runs it once per layer. Used by the executor's
// thread; allocates nothing after construction.
class AttentionRunner {
 public:
  // The arrays join `workspace`, which the caller allocates before the first Plan.
  AttentionRunner(const Kernels& kernels, ThreadPool& pool, const ModelSpec& spec,
                  const ExecutorLimits& limits, Workspace& workspace);
  AttentionRunner(const AttentionRunner&) = delete;
  AttentionRunner& operator=(const AttentionRunner&) = delete;

  void Plan(const Batch& batch);
  // q, out: [rows of the batch, stride], heads side by side; q already scaled.
  void Run(const KvCache& cache, int64_t layer, const float* q, float* out, int64_t stride);

 private:
  // Consecutive rows of one sequence, walked together.
  struct Tile {
    const BlockId* blocks;
    int64_t row;  // in the batch
    int64_t rows;
    int64_t position;    // of the first row
    int64_t split_slot;  // where the results of its spans go; -1: they are merged on the way
  };
  // What one task does per kv head: a whole tile (span -1), or one span of it.
  struct Item {
    int64_t tile;
    int64_t span;
  };
  struct Scratch {
    float* state;
    float* span_state;
    float* scores;
    uint16_t* bf16;
  };

  void RunItem(const KvCache& cache, int64_t layer, const float* q, float* out, int64_t stride,
               int64_t index, int worker);
  float* SplitStates(int64_t slot, int64_t kv_head) const;

  const Kernels& kernels_;
  ThreadPool& pool_;
  const int64_t kv_heads_;
  const int64_t group_;  // query heads of a kv head
  const int64_t head_dim_;
  const int64_t state_floats_;
  const int64_t tile_rows_;
  const int64_t max_spans_;
  const int64_t max_split_tiles_;

  Tile* tiles_ = nullptr;
  int64_t num_tiles_ = 0;
  Item* items_ = nullptr;
  int64_t num_items_ = 0;
  int64_t num_split_tiles_ = 0;
  float* split_states_ = nullptr;  // [max_split_tiles, kv_heads, max_spans, group, state_floats]
  std::vector<Scratch> scratch_;   // [threads]
};

}  // namespace erne::cpu
