// How much memory a model gets before it serves: the size of its KV pool and, from it, the context
// that it can offer.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "base/status.h"
#include "kv/kv_dtype.h"
#include "model/model_spec.h"

namespace erne {

// What may be taken, and where that number comes from.
struct MemoryBudget {
  uint64_t bytes = std::numeric_limits<uint64_t>::max();  // the most there is: nothing is known
  std::string origin;  // "19.4 GiB may be taken (90 % of ...)", for the refusal
};

struct MemoryPlan;

struct MemoryNeeds {
  uint64_t weight_bytes = 0;  // in the form that the executor computes with
  int64_t max_model_len = 0;  // asked for; 0: what the model was made for, up to kAutoContext
  int64_t max_num_seqs = 1;
  int64_t max_num_batched_tokens = 1;
  int64_t threads = 1;
  KvDType kv_dtype = KvDType::kF32;
  uint64_t kv_cache_bytes = 0;  // asked for; 0: what the contexts need
  MemoryBudget budget;
  // Of an executor other than the CPU's: bytes of a block of its cache, and of the workspace for a
  // plan whose other numbers are set. 0 and null: the CPU's.
  uint64_t block_bytes = 0;
  std::function<uint64_t(const MemoryPlan&)> workspace_bytes;
};

// Context that a model gets unasked: the longest that ERNIE-4.5 was made for. The pool of a longer
// one would take memory for a request that hardly anybody sends.
inline constexpr int64_t kAutoContext = 128 * 1024;

struct MemoryPlan {
  int64_t max_context = 0;  // tokens of one request
  int64_t max_rows = 0;  // tokens of one step: max_num_batched_tokens, as far as the pool has room
  int64_t max_logit_rows = 0;  // of them, those with logits: what the executor is to be made for
  int64_t num_blocks = 0;      // of the KV pool
  KvDType kv_dtype = KvDType::kF32;
  uint64_t block_bytes = 0;
  uint64_t weight_bytes = 0;     // as in MemoryNeeds
  uint64_t workspace_bytes = 0;  // an estimate; the executor knows
  uint64_t total_bytes = 0;      // weights, pool, workspace, and the process around them
  // What is smaller than it was asked for or than the model allows, and why; one sentence each.
  std::vector<std::string> notes;

  uint64_t kv_bytes() const { return static_cast<uint64_t>(num_blocks) * block_bytes; }
};

// KV pool for `kFullContexts` requests of full length at once, or for one where contexts are long
// (the pool is paged: many short requests share what one long one needs), or of kv_cache_bytes.
// Where the budget does not hold one full context, the context shrinks to what it holds; a note
// says so. ResourceExhausted, with the numbers, when not even a short request would fit;
// InvalidArgument when the context has no room for a prompt and an answer.
Result<MemoryPlan> PlanMemory(const ModelSpec& spec, const MemoryNeeds& needs);

}  // namespace erne
