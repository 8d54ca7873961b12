#include "cli/memory_plan.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

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
// Rows with logits beyond one for each sequence: for guesses that are checked, and for the
// log-probabilities of prompts.
constexpr int64_t kMinLogitRows = 16;
// Positions and block ids are 32 bits.
constexpr int64_t kMaxBlocks = std::numeric_limits<int32_t>::max() / kKvBlockSize;

// What the CPU executor takes next to weights and KV, from above but for the rounding of large
// arrays to huge pages: rows of activations and of logits, and what each thread keeps for itself. A
// test holds it against the executor.
uint64_t WorkspaceBytes(const ModelSpec& spec, int64_t threads, const MemoryPlan& plan) {
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
  const int64_t logits = plan.max_logit_rows * (spec.vocab_size + spec.hidden + kCacheLine);
  // Activations in the form that matrices read: for three matrices, or for gate and up of each
  // expert and of the shared one.
  const int64_t forms = std::max<int64_t>(3, moe ? 2 * (routing.top_k + 1) : 0);
  // Two tiles of a product for 48 rows, inputs of one in another order; attention over 24 queries.
  const int64_t widest =
      std::max({spec.hidden, a.q_width(), plain, moe ? spec.moe.intermediate : 0});
  const int64_t group = a.heads / std::max<int64_t>(1, a.kv_heads);
  const int64_t state = a.head_dim + 4 * kCacheLine;
  row += forms * (widest + widest / 8 + 2 * kCacheLine);
  const int64_t thread = 2 * 48 * 64 + 8192 + widest +
                         std::max<int64_t>(24, group) * (2 * state + 64) + 2 * routing.experts +
                         kArrays * kCacheLine;
  // Long contexts are walked by several threads, 512 positions each, and joined.
  const int64_t spans = plan.max_context / 512 + 1;
  const int64_t joined = (2 * threads + a.kv_heads) * spans * group * state;
  const int64_t floats = plan.max_rows * row + logits + threads * thread + joined;
  return static_cast<uint64_t>(floats) * sizeof(float);
}

// The plan for a context, whatever the budget holds. The pool is that of kv_cache_bytes or else
// what the contexts want.
MemoryPlan PlanFor(const ModelSpec& spec, const MemoryNeeds& needs, int64_t context) {
  MemoryPlan plan;
  plan.max_context = context;
  plan.kv_dtype = needs.kv_dtype;
  plan.block_bytes = needs.block_bytes > 0 ? needs.block_bytes : KvBlockBytes(spec, needs.kv_dtype);
  const int64_t one = BlocksForTokens(context);
  plan.num_blocks = std::min(one * std::min(needs.max_num_seqs, kFullContexts),
                             std::max(one, BlocksForTokens(kPoolTokens)));
  if (needs.kv_cache_bytes > 0) {
    plan.num_blocks = static_cast<int64_t>(
        std::min<uint64_t>(needs.kv_cache_bytes / plan.block_bytes, kMaxBlocks));
  }
  // Each row of a step is a token that has its place in the pool.
  plan.max_rows = std::min(needs.max_num_batched_tokens, plan.num_blocks * kKvBlockSize);
  plan.max_logit_rows = std::min(std::max(needs.max_num_seqs, kMinLogitRows), plan.max_rows);
  plan.weight_bytes = needs.weight_bytes;
  plan.workspace_bytes = needs.workspace_bytes ? needs.workspace_bytes(plan)
                                               : WorkspaceBytes(spec, needs.threads, plan);
  plan.total_bytes = plan.weight_bytes + plan.workspace_bytes + kProcessBytes + plan.kv_bytes();
  return plan;
}

// Shrinks the pool to what the budget holds; false when that is less than one full context.
bool FitPool(const MemoryBudget& budget, MemoryPlan& plan) {
  const uint64_t fixed = plan.total_bytes - plan.kv_bytes();
  const uint64_t left = budget.bytes > fixed ? budget.bytes - fixed : 0;
  plan.num_blocks = static_cast<int64_t>(
      std::min<uint64_t>(static_cast<uint64_t>(plan.num_blocks), left / plan.block_bytes));
  plan.max_rows = std::min(plan.max_rows, plan.num_blocks * kKvBlockSize);
  plan.max_logit_rows = std::min(plan.max_logit_rows, plan.max_rows);
  plan.total_bytes = fixed + plan.kv_bytes();
  return plan.num_blocks >= BlocksForTokens(plan.max_context);
}

// The longest context up to `wanted`, in whole blocks below that, whose plan the budget holds; no
// value when `least` does not fit. Memory grows with the context, so bisection finds it.
std::optional<MemoryPlan> LongestThatFits(const ModelSpec& spec, const MemoryNeeds& needs,
                                          int64_t least, int64_t wanted) {
  const auto plan_of = [&](int64_t blocks) {
    return PlanFor(spec, needs, std::min(wanted, blocks * kKvBlockSize));
  };
  int64_t fits = BlocksForTokens(least);
  MemoryPlan best = plan_of(fits);
  if (!FitPool(needs.budget, best)) return std::nullopt;
  int64_t too_many = BlocksForTokens(wanted) + 1;
  while (fits + 1 < too_many) {
    const int64_t blocks = fits + (too_many - fits) / 2;
    MemoryPlan plan = plan_of(blocks);
    if (FitPool(needs.budget, plan)) {
      fits = blocks;
      best = std::move(plan);
    } else {
      too_many = blocks;
    }
  }
  return best;
}

Status DoesNotFit(const ModelSpec& spec, const MemoryNeeds& needs, int64_t least) {
  const MemoryPlan plan = PlanFor(spec, needs, least);
  const uint64_t smallest =
      static_cast<uint64_t>(BlocksForTokens(least)) * plan.block_bytes;  // of the pool
  if (needs.kv_cache_bytes > 0 && needs.kv_cache_bytes < smallest) {
    return ResourceExhausted(StrCat("--kv-cache-memory ", FormatBytes(needs.kv_cache_bytes),
                                    " is too little: the smallest KV cache, for ", least,
                                    " tokens, takes ", FormatBytes(smallest)));
  }
  return ResourceExhausted(
      StrCat("not enough memory: ", FormatBytes(plan.total_bytes - plan.kv_bytes()),
             " for weights and workspace and ", FormatBytes(smallest),
             " for the smallest KV cache, but ", needs.budget.origin));
}

}  // namespace

Result<MemoryPlan> PlanMemory(const ModelSpec& spec, const MemoryNeeds& needs) {
  const bool asked = needs.max_model_len > 0;
  const int64_t wanted = std::min(asked ? needs.max_model_len : spec.max_positions,
                                  asked ? kMaxBlocks * kKvBlockSize : kAutoContext);
  if (wanted < kLeastContext) {
    return InvalidArgument(
        StrCat("a context of ", wanted, " token has no room for a prompt and an answer"),
        "--max-model-len");
  }
  const int64_t least = std::min(wanted, kMinContext);
  std::optional<MemoryPlan> plan = LongestThatFits(spec, needs, least, wanted);
  if (!plan) return DoesNotFit(spec, needs, least);
  if (plan->max_context < wanted) {
    plan->notes.push_back(
        StrCat("the context is reduced from ", wanted, " to ", plan->max_context, " tokens: ",
               needs.kv_cache_bytes > 0 ? "the KV cache" : "the memory", " does not hold more"));
  } else if (!asked && wanted < spec.max_positions) {
    plan->notes.push_back(StrCat("the context is ", wanted, " of the ", spec.max_positions,
                                 " positions that the model was made for; --max-model-len asks "
                                 "for more"));
  }
  const uint64_t pool = PlanFor(spec, needs, plan->max_context).kv_bytes();
  if (needs.kv_cache_bytes > 0 && plan->kv_bytes() < pool) {
    plan->notes.push_back(StrCat("the KV cache takes ", FormatBytes(plan->kv_bytes()),
                                 " instead of ", FormatBytes(pool),
                                 ": the memory does not hold more"));
  }
  return *std::move(plan);
}

}  // namespace erne
