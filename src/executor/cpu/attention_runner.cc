#include "executor/cpu/attention_runner.h"

#include <algorithm>

#include "base/check.h"
#include "executor/kv_storage.h"

namespace erne::cpu {
namespace {

static_assert(kKvBlockSize == kLanes, "a block is one panel of keys");

// Queries walked together. Each pass over K and V serves all of them, and they fill whole row
// blocks of the products; the states of 24 queries of head_dim 128 take 30 KiB.
constexpr int64_t kTileQueries = 24;
// Tasks per thread below which long sequences are split by spans.
constexpr int64_t kTasksPerThread = 2;

int64_t SpansFor(int64_t positions) { return (positions + kSpanTokens - 1) / kSpanTokens; }

// A tile is split when there are fewer (tile, kv head) pairs than this.
int64_t SplitBelow(int threads) { return threads == 1 ? 0 : kTasksPerThread * threads; }

}  // namespace

KvCache::KvCache(const Kernels& kernels, const ModelSpec& spec, const ExecutorLimits& limits,
                 Workspace& workspace)
    : kernels_(kernels), dtype_(limits.kv_dtype), head_dim_(spec.attention.head_dim) {
  head_stride_ = KvHeadBlockBytes(head_dim_, dtype_);
  workspace.Add(&data_,
                {spec.num_layers(), limits.num_blocks, spec.attention.kv_heads, head_stride_});
  block_stride_ = spec.attention.kv_heads * head_stride_;
  // A product that overflows fails the allocation above before anything is addressed.
  layer_stride_ = CheckedProduct({limits.num_blocks, block_stride_}).value_or(0);
}

void KvCache::Write(int64_t layer, int64_t kv_head, BlockId block, int64_t offset, const float* k,
                    const float* v) {
  KvStoreTask task;
  task.dtype = dtype_;
  task.head_dim = head_dim_;
  task.k = k;
  task.v = v;
  task.block = data_ + layer * layer_stride_ + block * block_stride_ + kv_head * head_stride_;
  task.offset = offset;
  kernels_.store_kv(task);
}

AttentionRunner::AttentionRunner(const Kernels& kernels, ThreadPool& pool, const ModelSpec& spec,
                                 const ExecutorLimits& limits, Workspace& workspace)
    : kernels_(kernels),
      pool_(pool),
      kv_heads_(spec.attention.kv_heads),
      group_(spec.attention.heads / spec.attention.kv_heads),
      head_dim_(spec.attention.head_dim),
      state_floats_(RoundUp(head_dim_, kLanes) + kStateExtra),
      tile_rows_(std::max<int64_t>(1, kTileQueries / group_)),
      max_spans_(SpansFor(limits.max_context)),
      max_split_tiles_(max_spans_ == 1 ? 0 : SplitBelow(pool.threads()) / kv_heads_ + 1),
      scratch_(static_cast<size_t>(pool.threads())) {
  workspace.Add(&tiles_, {limits.max_rows});
  // A split tile becomes as many items as it has spans.
  workspace.Add(&items_, {limits.max_rows + max_split_tiles_ * max_spans_});
  workspace.Add(&split_states_, {max_split_tiles_, kv_heads_, max_spans_, group_, state_floats_});
  const int64_t queries = tile_rows_ * group_;
  for (Scratch& scratch : scratch_) {
    workspace.Add(&scratch.state, {queries, state_floats_});
    workspace.Add(&scratch.span_state, {queries, state_floats_});
    workspace.Add(&scratch.scores, {queries, kChunkTokens});
    workspace.Add(&scratch.bf16, {queries, head_dim_});
  }
}

void AttentionRunner::Plan(const Batch& batch) {
  num_tiles_ = 0;
  int64_t row = 0;
  for (const SequenceRows& sequence : batch) {
    const auto count = static_cast<int64_t>(sequence.tokens.size());
    for (int64_t i = 0; i < count; i += tile_rows_) {
      const int64_t rows = std::min(tile_rows_, count - i);
      tiles_[num_tiles_++] = {sequence.blocks.data(), row + i, rows, sequence.start + i, -1};
    }
    row += count;
  }
  const bool split = num_tiles_ * kv_heads_ < SplitBelow(pool_.threads());
  num_items_ = 0;
  num_split_tiles_ = 0;
  for (int64_t t = 0; t < num_tiles_; ++t) {
    Tile& tile = tiles_[t];
    const int64_t spans = SpansFor(tile.position + 1);
    if (!split || tile.rows > 1 || spans == 1) {
      items_[num_items_++] = {t, -1};
      continue;
    }
    tile.split_slot = num_split_tiles_++;
    for (int64_t span = 0; span < spans; ++span) items_[num_items_++] = {t, span};
  }
  ERNE_DCHECK(num_split_tiles_ <= max_split_tiles_);
}

float* AttentionRunner::SplitStates(int64_t slot, int64_t kv_head) const {
  return split_states_ + (slot * kv_heads_ + kv_head) * max_spans_ * group_ * state_floats_;
}

void AttentionRunner::RunItem(const KvCache& cache, int64_t layer, const float* q, float* out,
                              int64_t stride, int64_t index, int worker) {
  const Item& item = items_[index / kv_heads_];
  const int64_t kv_head = index % kv_heads_;
  const Tile& tile = tiles_[item.tile];
  const Scratch& scratch = scratch_[static_cast<size_t>(worker)];
  const int64_t offset = tile.row * stride + kv_head * group_ * head_dim_;
  AttentionTask task;
  task.rows = tile.rows;
  task.position = tile.position;
  task.group = group_;
  task.head_dim = head_dim_;
  task.span_begin = 0;
  task.span_end = max_spans_;
  task.q = q + offset;
  task.q_stride = stride;
  task.kv_dtype = cache.dtype();
  task.kv = cache.Head(layer, kv_head);
  task.block_stride = cache.block_stride();
  task.blocks = tile.blocks;
  task.out = out + offset;
  task.out_stride = stride;
  task.state = scratch.state;
  task.span_state = scratch.span_state;
  task.scores = scratch.scores;
  task.bf16 = scratch.bf16;
  if (item.span >= 0) {
    task.span_begin = item.span;
    task.span_end = item.span + 1;
    task.out = nullptr;
    task.state = SplitStates(tile.split_slot, kv_head) + item.span * group_ * state_floats_;
  }
  kernels_.attention(task);
}

void AttentionRunner::Run(const KvCache& cache, int64_t layer, const float* q, float* out,
                          int64_t stride) {
  pool_.ParallelFor(num_items_ * kv_heads_, 1, [&](int64_t begin, int64_t end, int worker) {
    for (int64_t i = begin; i < end; ++i) RunItem(cache, layer, q, out, stride, i, worker);
  });
  if (num_split_tiles_ == 0) return;
  for (int64_t t = 0; t < num_tiles_; ++t) {
    const Tile& tile = tiles_[t];
    if (tile.split_slot < 0) continue;
    for (int64_t kv_head = 0; kv_head < kv_heads_; ++kv_head) {
      kernels_.attention_merge(SplitStates(tile.split_slot, kv_head), SpansFor(tile.position + 1),
                               group_, head_dim_,
                               out + tile.row * stride + kv_head * group_ * head_dim_);
    }
  }
}

}  // namespace erne::cpu
