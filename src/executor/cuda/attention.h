// Attention of new rows over the paged cache, on the device.
//
// The context of a row is cut into spans of kSpanTokens at absolute positions. With scores in units
// of log(2), a span gives, for each query, the largest score rounded up to a whole number m, the
// sum of the weights 2^(score - m), and the weighted sum of values; spans are added in order. As m
// is a whole number, what adjusts one span to another's m is a power of two and exact, so the sum
// is the same whether m is that of the spans so far or of all. So a row's result depends on its
// position and its context alone, whoever computes it:
//   split     a warp takes a span; the last block to finish a tile merges. For few rows.
//   walked    a warp walks all spans of its tile, sharing keys and values with the other warps of
//             its block through shared memory, and merges as it goes. For the rows of a prompt.
// Scores and sums are products of the tensor cores with float32 sums; queries and weights are
// rounded to the type of the cache. float32 caches have a plain kernel.
//
// Queries of a kv head, rows times heads, are numbered together: number f is head f % group of row
// f / group. A tile is 16 of them.
#pragma once

#include "executor/cuda/gemm.h"
#include "executor/cuda/query_range.h"

namespace erne::cuda {

struct AttentionArgs {
  KvView kv;
  int heads = 0;
  const void* q = nullptr;  // [rows, heads * kv.dim], rotated, of the type of the cache
  void* out = nullptr;      // [rows, out_stride], head_dim values per head
  int64_t out_stride = 0;
  ActivationType out_type = ActivationType::kF32;
  const int32_t* blocks = nullptr;  // block tables, one after the other
  // Split: a range is one tile. Walked: up to kWalkTiles tiles.
  const QueryRange* ranges = nullptr;
  int num_ranges = 0;
  // Split: [states, kv_heads][16][dim] and [states, kv_heads][16][2], and a counter per tile and kv
  // head, 0 between launches.
  float* sums = nullptr;
  float* maxima = nullptr;
  uint32_t* counters = nullptr;
};

cudaError_t LaunchSplitAttention(Stream& stream, const AttentionArgs& args);
cudaError_t LaunchWalkedAttention(Stream& stream, const AttentionArgs& args);
// float32 caches; ranges as for LaunchWalkedAttention.
cudaError_t LaunchF32Attention(Stream& stream, const AttentionArgs& args);
// Once per process and device: shared memory beyond 48 KiB is asked for.
cudaError_t PrepareAttention(int shared_bytes);

}  // namespace erne::cuda
