// How much memory a model gets before it serves: the size of its KV pool and, from it, the context
// that it can offer.
#pragma once

#include <cstdint>
#include <string>

#include "base/status.h"
#include "kv/kv_dtype.h"
#include "model/model_spec.h"

namespace erne {

struct MemoryNeeds {
  uint64_t weight_bytes = 0;  // in the form that the executor computes with
  int64_t max_model_len = 0;  // asked for; 0: what the model was made for, as far as it fits
  int64_t max_num_seqs = 1;
  int64_t max_num_batched_tokens = 1;
  int64_t threads = 1;
  KvDType kv_dtype = KvDType::kF32;
  double utilization = 0.9;      // share of the available memory that may be taken
  uint64_t available_bytes = 0;  // 0: unknown, nothing is refused
};

struct MemoryPlan {
  int64_t max_context = 0;  // tokens of one request
  int64_t max_rows = 0;  // tokens of one step: max_num_batched_tokens, as far as the pool has room
  int64_t num_blocks = 0;  // of the KV pool
  uint64_t block_bytes = 0;
  uint64_t weight_bytes = 0;     // as in MemoryNeeds
  uint64_t workspace_bytes = 0;  // an estimate; the executor knows
  std::string context_note;  // why max_context is smaller than it could be; empty when it is not
};

// KV pool for `kFullContexts` requests of full length at once, or for one where contexts are long
// (the pool is paged: many short requests share what one long one needs), or for what fits. Where
// not even one full context fits, max_context shrinks and the note says so. ResourceExhausted, with
// the numbers, when not even a short request would fit; InvalidArgument when the context has no
// room for a prompt and an answer.
Result<MemoryPlan> PlanMemory(const ModelSpec& spec, const MemoryNeeds& needs);

}  // namespace erne
