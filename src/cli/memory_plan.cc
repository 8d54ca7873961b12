#include "cli/memory_plan.h"

#include <algorithm>
#include <limits>

#include "base/strings.h"
#include "kv/block_pool.h"

namespace erne {
namespace {

// Requests of full length that the pool holds at once; eight is where the tutorials find their
// knee.
constexpr int64_t kFullContexts = 8;
// Tokens that the pool holds at most without a reason: past it, only one full context is one.
constexpr int64_t kPoolTokens = 64 * 1024;
// A context below this answers nobody.
constexpr int64_t kMinContext = 256;
// float32 keys and values.
constexpr uint64_t kKvElementBytes = 4;
// For stacks, tokenizer tables, requests and answers.
constexpr uint64_t kProcessBytes = 64ULL << 20;

// Rows of activations and of logits, from above: what an executor allocates next to weights and KV.
uint64_t WorkspaceBytes(const ModelSpec& spec, const MemoryNeeds& needs) {
  const int64_t ffn =
      std::max(spec.dense_intermediate,
               spec.moe.routing.top_k * spec.moe.intermediate + spec.moe.shared_intermediate);
  const int64_t row =
      4 * spec.hidden + spec.attention.q_width() + 2 * spec.attention.kv_width() + 2 * ffn;
  const int64_t logits = needs.max_num_seqs * spec.vocab_size;
  return static_cast<uint64_t>(needs.max_num_batched_tokens * row + logits) * sizeof(float);
}

}  // namespace

Result<MemoryPlan> PlanMemory(const ModelSpec& spec, const MemoryNeeds& needs) {
  MemoryPlan plan;
  plan.block_bytes =
      static_cast<uint64_t>(kKvBlockSize * spec.num_layers() * 2 * spec.attention.kv_width()) *
      kKvElementBytes;
  plan.max_context = needs.max_model_len > 0 ? needs.max_model_len : spec.max_positions;

  int64_t fitting = std::numeric_limits<int32_t>::max();  // block ids are 32 bits
  const uint64_t fixed = needs.weight_bytes + WorkspaceBytes(spec, needs) + kProcessBytes;
  if (needs.available_bytes > 0) {
    const auto budget =
        static_cast<uint64_t>(static_cast<double>(needs.available_bytes) * needs.utilization);
    fitting = std::min<int64_t>(
        fitting, static_cast<int64_t>((budget > fixed ? budget - fixed : 0) / plan.block_bytes));
  }
  const int64_t least = std::min(BlocksForTokens(kMinContext), BlocksForTokens(plan.max_context));
  if (fitting < least) {
    return ResourceExhausted(
        StrCat("not enough memory: ", FormatBytes(fixed), " for weights and workspace and ",
               FormatBytes(static_cast<uint64_t>(least) * plan.block_bytes),
               " for the smallest KV cache, but ", FormatBytes(needs.available_bytes),
               " are available and --gpu-memory-utilization ", needs.utilization,
               " bounds what is taken"));
  }
  const int64_t one = BlocksForTokens(plan.max_context);
  const int64_t wanted = std::min(one * std::min(needs.max_num_seqs, kFullContexts),
                                  std::max(one, BlocksForTokens(kPoolTokens)));
  plan.num_blocks = std::min(wanted, fitting);
  if (plan.num_blocks < one) {
    const int64_t asked = plan.max_context;
    plan.max_context = plan.num_blocks * kKvBlockSize;
    plan.context_note = StrCat("the context is reduced from ", asked, " to ", plan.max_context,
                               " tokens: the memory does not hold more");
  }
  return plan;
}

}  // namespace erne
