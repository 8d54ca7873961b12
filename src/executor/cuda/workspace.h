// The arrays that a step works in, on the device and in pinned memory of the host.
#pragma once

#include <cstdint>

#include "base/status.h"
#include "executor/cuda/device.h"
#include "executor/cuda/gemm.h"
#include "executor/executor.h"
#include "model/model_spec.h"

namespace erne::cuda {

// Sizes that follow from model and limits.
struct WorkspaceSizes {
  int64_t rows = 0;        // of a batch, padding included
  int64_t logit_rows = 0;  // likewise
  int group = 0;           // query heads of a kv head
  int64_t max_states = 0;  // spans of split attention, per kv head
  int64_t max_split_ranges = 0;
  int64_t words = 0;  // of a step's plan
};
WorkspaceSizes SizesOf(const ModelSpec& spec, const ExecutorLimits& limits);

// The rows of the smallest graph that holds `rows` single rows: every count up to 8, then steps
// that waste at most a third.
int GraphRows(int rows);

// Rows of elements, each row padded with zeros to `stride`. Narrow ones use the first half.
template <typename T>
struct Rows {
  T* data = nullptr;
  int64_t stride = 0;
};

struct Workspace {
  int32_t* plan = nullptr;          // [words], see step_plan.h
  float2* angles = nullptr;         // cos and sin [max_context, head_dim / 2]
  Rows<float> x;                    // residual stream [rows, hidden]
  Rows<void> normed;                // [rows, hidden], as the product behind it wants it
  Rows<float> normed_f32;           // [rows, hidden], of MoE layers
  Rows<float> qkv;                  // [rows, q, k and v], of models with qk-norm
  Rows<void> q;                     // [rows, heads * padded head_dim], as the cache wants it
  Rows<void> attended;              // [rows, heads * head_dim]
  Rows<void> hidden;                // [rows, dense width]
  Rows<void> gathered;              // [rows, widest input], of act-order matrices
  Rows<float> router_logits;        // [rows, experts]
  int32_t* expert_ids = nullptr;    // [rows, top_k]
  float* expert_weights = nullptr;  // [rows, top_k]
  int32_t* expert_begin = nullptr;  // [experts + 1]
  int32_t* slot_rows = nullptr;     // [rows * top_k]
  int32_t* slots = nullptr;         // [rows, top_k]
  Rows<void> expert_hidden;         // [rows * top_k, expert width]
  Rows<float> expert_out;           // [rows * top_k, hidden]
  Rows<void> shared_hidden;         // [rows, shared width]
  Rows<float> shared_out;           // [rows, hidden]
  Rows<void> head_in;               // [logit rows, hidden]
  float* logits = nullptr;          // [logit rows, vocab]
  float* span_sums = nullptr;       // see AttentionArgs
  float* span_maxima = nullptr;
  uint32_t* counters = nullptr;

  Arena arena;

  // Reserves everything in the arena; Arena::Allocate then sets the pointers.
  void Reserve(const ModelSpec& spec, const ExecutorLimits& limits, bool permutes);
};

}  // namespace erne::cuda
