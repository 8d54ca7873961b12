#include "executor/cuda/workspace.h"

#include <algorithm>

#include "executor/cuda/step_plan.h"

namespace erne::cuda {
namespace {

// Of split attention's results. Beyond this, sequences walk.
constexpr int64_t kMostStateBytes = int64_t{128} << 20;

template <typename T>
void AddRows(Arena& arena, Rows<T>& rows, int64_t count, int64_t width) {
  rows.stride = RoundUpTo(width, kActivationPad);
  arena.Add(reinterpret_cast<float**>(&rows.data), count * rows.stride);
}

int64_t StateBytes(int dim) { return int64_t{kTileQueries} * (dim + 2) * 4; }

}  // namespace

int GraphRows(int rows) {
  if (rows <= 8) return rows;
  int step = 4;
  while (rows > step * 8) step *= 2;
  return static_cast<int>(RoundUpTo(rows, step));
}

WorkspaceSizes SizesOf(const ModelSpec& spec, const ExecutorLimits& limits) {
  const AttentionSpec& a = spec.attention;
  WorkspaceSizes sizes;
  const int64_t padded = GraphRows(
      static_cast<int>(std::min({limits.max_sequences, limits.max_rows, limits.max_logit_rows})));
  sizes.rows = std::max(limits.max_rows, padded);
  sizes.logit_rows = std::max(limits.max_logit_rows, padded);
  sizes.group = static_cast<int>(a.heads / a.kv_heads);
  const int64_t tiles = std::max<int64_t>(4, (sizes.group + kTileQueries - 1) / kTileQueries);
  sizes.max_split_ranges = std::max(limits.max_sequences, padded) * tiles;
  const int dim = PaddedHeadDim(limits.kv_dtype, static_cast<int>(a.head_dim));
  const int64_t one = SpansOf(limits.max_context) * tiles;
  const int64_t cap = kMostStateBytes / (StateBytes(dim) * a.kv_heads);
  sizes.max_states =
      std::min(sizes.max_split_ranges * SpansOf(limits.max_context), std::max(one, cap));
  sizes.words = StepPlanner::MostWords(limits, sizes.rows, sizes.max_split_ranges, sizes.group);
  return sizes;
}

void Workspace::Reserve(const ModelSpec& spec, const ExecutorLimits& limits, bool permutes) {
  const AttentionSpec& a = spec.attention;
  const WorkspaceSizes sizes = SizesOf(spec, limits);
  const int64_t rows = sizes.rows;
  const bool f32_cache = limits.kv_dtype == KvDType::kF32;
  const int dim = PaddedHeadDim(limits.kv_dtype, static_cast<int>(a.head_dim));
  arena.Add(&plan, sizes.words);
  arena.Add(&angles, limits.max_context * (a.head_dim / 2));
  AddRows(arena, x, rows, spec.hidden);
  AddRows(arena, normed, rows, spec.hidden);
  if (a.qk_norm) AddRows(arena, qkv, rows, a.q_width() + 2 * a.kv_width());
  AddRows(arena, q, rows, a.heads * dim);
  q.stride = a.heads * dim;
  AddRows(arena, attended, rows, a.q_width());
  if (std::count(spec.layers.begin(), spec.layers.end(), FfnKind::kDense) > 0) {
    AddRows(arena, hidden, rows, spec.dense_intermediate);
  }
  if (permutes) AddRows(arena, gathered, rows, std::max(a.q_width(), spec.dense_intermediate));
  if (spec.has_moe()) {
    const MoeSpec& moe = spec.moe;
    const int64_t pairs = rows * moe.routing.top_k;
    AddRows(arena, normed_f32, rows, spec.hidden);
    AddRows(arena, router_logits, rows, moe.routing.experts);
    arena.Add(&expert_ids, pairs);
    arena.Add(&expert_weights, pairs);
    arena.Add(&expert_begin, moe.routing.experts + 1);
    arena.Add(&slot_rows, pairs);
    arena.Add(&slots, pairs);
    AddRows(arena, expert_hidden, pairs, moe.intermediate);
    AddRows(arena, expert_out, pairs, spec.hidden);
    if (moe.shared_intermediate > 0) {
      AddRows(arena, shared_hidden, rows, moe.shared_intermediate);
      AddRows(arena, shared_out, rows, spec.hidden);
    }
  }
  AddRows(arena, head_in, sizes.logit_rows, spec.hidden);
  arena.Add(&logits, sizes.logit_rows * spec.vocab_size);
  if (!f32_cache) {
    const int64_t states = sizes.max_states * a.kv_heads;
    arena.Add(&span_sums, states * kTileQueries * dim);
    arena.Add(&span_maxima, states * kTileQueries * 2);
    arena.Add(&counters, sizes.max_split_ranges * a.kv_heads);
  }
}

}  // namespace erne::cuda
