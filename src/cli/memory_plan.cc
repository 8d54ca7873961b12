#include "cli/memory_plan.h"

#include <algorithm>
#include <limits>

#include "base/strings.h"
#include "executor/kv_storage.h"
#include "kv/block_pool.h"

namespace erne {
namespace {

// Requests of full length that the pool holds at once; eight is where the tutorials find their
// knee.
constexpr int64_t kFullContexts = 8;
// Tokens that the pool holds at most without a reason: past it, only one full context is one.
constexpr int64_t kPoolTokens = 64 * 1024;
// A context below this answers nobody; memory must hold as much where no smaller one was asked for.
constexpr int64_t kMinContext = 256;
// One token of prompt and one of answer.
constexpr int64_t kLeastContext = 2;
// For stacks, tokenizer tables, requests and answers.
constexpr uint64_t kProcessBytes = 64ULL << 20;

// What the CPU executor takes next to weights and KV, from above but for the rounding of large
// arrays to huge pages: rows of activations and of logits, and what each thread keeps for itself. A
// test holds it against the executor.
uint64_t WorkspaceBytes(const ModelSpec& spec, const MemoryNeeds& needs, const MemoryPlan& plan) {
  const AttentionSpec& a = spec.attention;
  const RoutingSpec& routing = spec.moe.routing;
  const bool moe = spec.has_moe();
  const bool dense = std::count(spec.layers.begin(), spec.layers.end(), FfnKind::kDense) > 0;
  const int64_t plain =
      std::max(dense ? spec.dense_intermediate : 0, moe ? spec.moe.shared_intermediate : 0);
  constexpr int64_t kCacheLine = 16;  // floats
  constexpr int64_t kArrays = 16;     // each row of each begins on a cache line
  int64_t row = 2 * spec.hidden + 2 * a.q_width() + 2 * a.kv_width() + a.head_dim + plain +
                kArrays * kCacheLine;
  if (moe) {
    row += routing.experts + spec.hidden +
           routing.top_k * (spec.moe.intermediate + spec.hidden + 2 * kCacheLine);
  }
  const int64_t logits = needs.max_num_seqs * (spec.vocab_size + spec.hidden + kCacheLine);
  // A tile of a product, and its inputs in another order, for 48 rows; attention over 24 queries.
  const int64_t widest =
      std::max({spec.hidden, a.q_width(), plain, moe ? spec.moe.intermediate : 0});
  const int64_t group = a.heads / std::max<int64_t>(1, a.kv_heads);
  const int64_t state = a.head_dim + 4 * kCacheLine;
  const int64_t thread = 48 * (64 + 2 * widest) + std::max<int64_t>(24, group) * (2 * state + 64) +
                         2 * routing.experts + kArrays * kCacheLine;
  // Long contexts are walked by several threads, 512 positions each, and joined.
  const int64_t spans = plan.max_context / 512 + 1;
  const int64_t joined = (2 * needs.threads + a.kv_heads) * spans * group * state;
  const int64_t floats = plan.max_rows * row + logits + needs.threads * thread + joined;
  return static_cast<uint64_t>(floats) * sizeof(float);
}

}  // namespace

Result<MemoryPlan> PlanMemory(const ModelSpec& spec, const MemoryNeeds& needs) {
  MemoryPlan plan;
  plan.block_bytes = KvBlockBytes(spec, needs.kv_dtype);
  plan.max_context = needs.max_model_len > 0 ? needs.max_model_len : spec.max_positions;
  if (plan.max_context < kLeastContext) {
    return InvalidArgument(
        StrCat("a context of ", plan.max_context, " token has no room for a prompt and an answer"),
        "--max-model-len");
  }
  const int64_t one = BlocksForTokens(plan.max_context);
  const int64_t wanted = std::min(one * std::min(needs.max_num_seqs, kFullContexts),
                                  std::max(one, BlocksForTokens(kPoolTokens)));
  // Each row of a step is a token that has its place in the pool.
  plan.max_rows = std::min(needs.max_num_batched_tokens, wanted * kKvBlockSize);

  int64_t fitting = std::numeric_limits<int32_t>::max();  // block ids are 32 bits
  plan.weight_bytes = needs.weight_bytes;
  plan.workspace_bytes = WorkspaceBytes(spec, needs, plan);
  const uint64_t fixed = plan.weight_bytes + plan.workspace_bytes + kProcessBytes;
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
