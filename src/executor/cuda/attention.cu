// The kernels of attention.h for 2-byte caches.
#include <algorithm>

#include "executor/cuda/attention.h"
#include "executor/cuda/attention_span.cuh"
#include "executor/cuda/launch.cuh"

namespace erne::cuda {
namespace {

constexpr int kBlocksPerSpan = kSpanTokens / kBlockTokens;

// A tile of a range: which rows and heads its queries are.
struct Tile {
  QueryRange range;
  int group = 0;  // query heads of a kv head
  int first = 0;  // query

  __device__ bool Has(int i) const { return first + i < range.end; }
  __device__ int Row(int i) const { return range.first_row + Clamped(i) / group; }
  __device__ int Head(int i) const { return Clamped(i) % group; }
  __device__ int Position(int i) const { return range.position + Clamped(i) / group; }
  // Past the end: the last query again, whose result is dropped.
  __device__ int Clamped(int i) const { return min(first + i, range.end - 1); }
  __device__ int LastPosition() const { return Position(kTileQueries - 1); }
};

template <int kDim>
__device__ Queries<kDim> LoadTile(const AttentionArgs& args, const Tile& tile, int kv_head,
                                  int lane) {
  const auto at = [&](int i) {
    return static_cast<const uint16_t*>(args.q) +
           (static_cast<int64_t>(tile.Row(i)) * args.heads + kv_head * tile.group + tile.Head(i)) *
               kDim;
  };
  return LoadQueries<kDim>(at(lane / 4), at(lane / 4 + 8), lane);
}

// The four dimensions from `dim` on of query i, divided by the sum of its weights.
__device__ inline void WriteOut(const AttentionArgs& args, const Tile& tile, int kv_head, int i,
                                int dim, const float (&sums)[4], float weight) {
  if (!tile.Has(i) || dim >= args.kv.head_dim) return;
  const int head = kv_head * tile.group + tile.Head(i);
  const int64_t at = tile.Row(i) * args.out_stride + head * args.kv.head_dim + dim;
#pragma unroll
  for (int c = 0; c < 4; ++c) StoreActivation(args.out_type, args.out, at + c, sums[c] / weight);
}

// A span in shared memory: keys, 64 bytes of padding per position to keep two neighbours in
// different banks, then values as they are.
template <int kDim>
constexpr int kKeyStride = kDim + 32;
template <int kDim>
constexpr int kSpanElements = kSpanTokens * (kKeyStride<kDim> + kDim);

// Copies the blocks [first, last] of a sequence that lie in a span to `stage`, by `threads` threads
// of which this is number `thread`.
template <int kDim>
__device__ inline void CopyBlocks(const AttentionArgs& args, int table, int kv_head, int span,
                                  int first, int last, uint16_t* stage, int thread, int threads) {
  constexpr int kKeyPieces = kDim / 8;  // 16 bytes each, of a position
  constexpr int kHalf = kBlockTokens * kKeyPieces;
  const int begin = span * kBlocksPerSpan;
  for (int b = max(0, first - begin); b < kBlocksPerSpan && begin + b <= last; ++b) {
    const int64_t block = __ldg(args.blocks + table + begin + b);
    const uint8_t* from =
        args.kv.data + (block * args.kv.kv_heads + kv_head) * KvHeadBytes(KvDType::kF16, kDim);
    uint16_t* keys = stage + b * kBlockTokens * kKeyStride<kDim>;
    uint16_t* values = stage + kSpanTokens * kKeyStride<kDim> + b * kBlockTokens * kDim;
    for (int i = thread; i < kHalf; i += threads) {
      CopyAsync16(keys + i / kKeyPieces * kKeyStride<kDim> + i % kKeyPieces * 8, from + i * 16);
      CopyAsync16(values + i * 8, from + (kHalf + i) * 16);
    }
  }
}

// A span in shared memory against a tile.
template <WeightKind kKind, int kDim>
__device__ inline void AttendStage(const AttentionArgs& args, const Tile& tile,
                                   const Queries<kDim>& q, const uint16_t* stage, int span,
                                   int lane, TileState<kDim>& state) {
  const int begin = span * kSpanTokens;
  const int limit[2] = {tile.Position(lane / 4) - begin, tile.Position(lane / 4 + 8) - begin};
  const auto* values = reinterpret_cast<const uint4*>(stage + kSpanTokens * kKeyStride<kDim>);
  AttendSpan<kKind, kDim>(
      q, [&](int b) { return stage + b * kBlockTokens * kKeyStride<kDim>; }, kKeyStride<kDim>,
      [&](int b) { return values + b * kBlockTokens * kDim / 8; }, ScoreScale(args.kv.head_dim),
      limit, tile.LastPosition() - begin, lane, state);
}

// A span's result where the block that merges finds it. sums: [16][kDim], maxima: [16][2]
template <int kDim>
__device__ void Publish(const Tile& tile, const TileState<kDim>& state, float* sums, float* maxima,
                        int lane) {
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const int query = lane / 4 + 8 * h;
    if (!tile.Has(query)) continue;
#pragma unroll
    for (int g = 0; g < kDim / 16; ++g) {
      *reinterpret_cast<float4*>(sums + query * kDim + g * 16 + lane % 4 * 4) = {
          state.sum[2 * g][2 * h], state.sum[2 * g + 1][2 * h], state.sum[2 * g][2 * h + 1],
          state.sum[2 * g + 1][2 * h + 1]};
    }
    if (lane % 4 == 0) {
      *reinterpret_cast<float2*>(maxima + query * 2) = {state.largest[h], state.weight[h]};
    }
  }
}

// Adds `spans` published spans in order, as Merge does, and writes the tile out. A thread takes
// four dimensions of a query. span_stride: in tiles (16 queries). kNear: in shared memory, else in
// the workspace, where other multiprocessors wrote.
template <int kDim, bool kNear>
__device__ void MergeSpans(const AttentionArgs& args, const Tile& tile, int kv_head,
                           const float* sums, const float* maxima, int spans, int span_stride) {
  constexpr int kParts = kDim / 4;
  for (int i = static_cast<int>(threadIdx.x); i < kTileQueries * kParts;
       i += static_cast<int>(blockDim.x)) {
    const int query = i / kParts;
    const int dim = i % kParts * 4;
    if (!tile.Has(query)) break;
    const auto ends_of = [&](int s) {
      const auto* end = reinterpret_cast<const float2*>(maxima) +
                        static_cast<int64_t>(s) * span_stride * kTileQueries + query;
      return kNear ? *end : __ldcg(end);
    };
    float largest = -INFINITY;
#pragma unroll 8
    for (int s = 0; s < spans; ++s) largest = fmaxf(largest, ends_of(s).x);
    float weight = 0;
    float total[4] = {};
#pragma unroll 8
    for (int s = 0; s < spans; ++s) {
      const float2 ends = ends_of(s);
      const int64_t at = static_cast<int64_t>(s) * span_stride * kTileQueries + query;
      const auto* sum = reinterpret_cast<const float4*>(sums + at * kDim + dim);
      const float4 part = kNear ? *sum : __ldcg(sum);
      const float scale = PowerOfTwo(ends.x - largest);
      weight = AddScaled(weight, 1, ends.y, scale);
      total[0] = AddScaled(total[0], 1, part.x, scale);
      total[1] = AddScaled(total[1], 1, part.y, scale);
      total[2] = AddScaled(total[2], 1, part.z, scale);
      total[3] = AddScaled(total[3], 1, part.w, scale);
    }
    WriteOut(args, tile, kv_head, query, dim, total, weight);
  }
}

// Grid: [tiles, kv_heads, parts]. Warp w of part p takes the spans warps * p + w, then every
// (warps * parts)-th. Each warp has a stage of its own in shared memory, which is filled with its
// first span before the kernel ahead has finished: that one adds the newest keys and values alone,
// whose blocks are copied again. A few spans meet in shared memory, more in the workspace.
template <WeightKind kKind, int kDim>
__global__ void __launch_bounds__(kSplitWarps * 32)
    SplitAttention(const __grid_constant__ AttentionArgs args) {
  extern __shared__ uint4 shared[];
  __shared__ bool is_last;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int warps = static_cast<int>(blockDim.x) / 32;
  const int kv_head = static_cast<int>(blockIdx.y);
  TriggerDependents();
  // The plan does not change during a step.
  Tile tile;
  tile.range = args.ranges[blockIdx.x];
  tile.group = args.heads / args.kv.kv_heads;
  tile.first = tile.range.begin;
  const int last_block = tile.LastPosition() / kBlockTokens;
  const int first_new_block = tile.range.position / kBlockTokens;
  const int spans = tile.LastPosition() / kSpanTokens + 1;
  const auto parts = min(static_cast<int>(gridDim.z), (spans + warps - 1) / warps);
  const int part = static_cast<int>(blockIdx.z);
  auto* stage = reinterpret_cast<uint16_t*>(shared) + warp * kSpanElements<kDim>;
  int span = part * warps + warp;
  const bool has_work = part < parts && span < spans;
  const auto copy = [&](int first, int last) {
    CopyBlocks<kDim>(args, tile.range.table, kv_head, span, first, last, stage, lane, 32);
    CommitCopies();
  };
  if (has_work) copy(0, first_new_block - 1);
  WaitForPrevious();
  if (part >= parts) return;
  const bool near = spans <= warps;
  const auto state_of = [&](int s) {
    return (static_cast<int64_t>(tile.range.first_state + s) * args.kv.kv_heads + kv_head) *
           kTileQueries;
  };
  TileState<kDim> state;
  if (has_work) {
    copy(first_new_block, last_block);
    const Queries<kDim> q = LoadTile<kDim>(args, tile, kv_head, lane);
    while (true) {
      WaitForCopies<0>();
      __syncwarp();
      AttendStage<kKind, kDim>(args, tile, q, stage, span, lane, state);
      if (near) break;
      Publish<kDim>(tile, state, args.sums + state_of(span) * kDim,
                    args.maxima + state_of(span) * 2, lane);
      span += parts * warps;
      if (span >= spans) break;
      __syncwarp();
      copy(0, last_block);
    }
  }
  if (near) {
    __syncthreads();  // all stages are read
    auto* sums = reinterpret_cast<float*>(shared);
    float* maxima = sums + warps * kTileQueries * kDim;
    if (has_work) {
      Publish<kDim>(tile, state, sums + warp * kTileQueries * kDim,
                    maxima + warp * kTileQueries * 2, lane);
    }
    __syncthreads();
    MergeSpans<kDim, true>(args, tile, kv_head, sums, maxima, spans, 1);
    return;
  }
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) {
    uint32_t* counter = args.counters + blockIdx.x * args.kv.kv_heads + kv_head;
    const auto others = static_cast<unsigned>(parts - 1);
    is_last = atomicInc(counter, others) == others;
    __threadfence();
  }
  __syncthreads();
  if (!is_last) return;
  MergeSpans<kDim, false>(args, tile, kv_head, args.sums + state_of(0) * kDim,
                          args.maxima + state_of(0) * 2, spans, args.kv.kv_heads);
}

// Grid: [ranges, kv_heads]. Warp w takes tile w of the range.
template <WeightKind kKind, int kDim>
__global__ void __launch_bounds__(kWalkTiles * 32)
    WalkedAttention(const __grid_constant__ AttentionArgs args) {
  extern __shared__ uint4 shared[];
  auto* stages = reinterpret_cast<uint16_t*>(shared);
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int kv_head = static_cast<int>(blockIdx.y);
  TriggerDependents();
  WaitForPrevious();
  Tile tile;
  // Ranges with long contexts come last in a prompt and take longest: they begin first.
  tile.range = args.ranges[gridDim.x - 1 - blockIdx.x];
  tile.group = args.heads / args.kv.kv_heads;
  tile.first = tile.range.begin + warp * kTileQueries;
  const bool has_work = tile.first < tile.range.end;
  const int last_position = tile.range.position + (tile.range.end - 1) / tile.group;
  const int spans = last_position / kSpanTokens + 1;
  const int my_last = has_work ? tile.LastPosition() : -1;
  const Queries<kDim> q = LoadTile<kDim>(args, tile, kv_head, lane);
  TileState<kDim> total;
  Clear(total);
  const auto copy = [&](int span) {
    CopyBlocks<kDim>(args, tile.range.table, kv_head, span, 0, last_position / kBlockTokens,
                     stages + span % 2 * kSpanElements<kDim>, static_cast<int>(threadIdx.x),
                     kWalkTiles * 32);
    CommitCopies();
  };
  copy(0);
  for (int span = 0; span < spans; ++span) {
    if (span + 1 < spans) {
      copy(span + 1);
      WaitForCopies<1>();
    } else {
      WaitForCopies<0>();
    }
    __syncthreads();
    if (span * kSpanTokens <= my_last) {
      TileState<kDim> state;
      AttendStage<kKind, kDim>(args, tile, q, stages + span % 2 * kSpanElements<kDim>, span, lane,
                               state);
      Merge<kDim>(total, state);
    }
    __syncthreads();
  }
  if (!has_work) return;
#pragma unroll
  for (int h = 0; h < 2; ++h) {
#pragma unroll
    for (int g = 0; g < kDim / 16; ++g) {
      const float sums[4] = {total.sum[2 * g][2 * h], total.sum[2 * g + 1][2 * h],
                             total.sum[2 * g][2 * h + 1], total.sum[2 * g + 1][2 * h + 1]};
      WriteOut(args, tile, kv_head, lane / 4 + 8 * h, g * 16 + lane % 4 * 4, sums, total.weight[h]);
    }
  }
}

// A stage of each warp; what the spans meet in is smaller.
template <int kDim>
constexpr size_t kSplitBytes = size_t{kSpanElements<kDim>} * sizeof(uint16_t);

template <WeightKind kKind, int kDim>
cudaError_t Split(Stream& stream, const AttentionArgs& args) {
  // 1 KiB is left to what the kernel has besides.
  const auto fit =
      static_cast<int>(static_cast<size_t>(stream.shared_bytes - 1024) / kSplitBytes<kDim>);
  const int warps = fit < kSplitWarps ? fit : kSplitWarps;
  // About a block per multiprocessor; a sequence alone has 32 parts, 8 thousand tokens a pass.
  const int tiles = args.num_ranges * args.kv.kv_heads;
  const int parts = stream.processors / tiles;
  const dim3 grid(static_cast<unsigned>(args.num_ranges), static_cast<unsigned>(args.kv.kv_heads),
                  static_cast<unsigned>(parts < 1    ? 1
                                        : parts > 32 ? 32
                                                     : parts));
  return Launch(stream, SplitAttention<kKind, kDim>, grid, warps * 32, warps * kSplitBytes<kDim>,
                args);
}

template <WeightKind kKind, int kDim>
cudaError_t Walk(Stream& stream, const AttentionArgs& args) {
  const dim3 grid(static_cast<unsigned>(args.num_ranges), static_cast<unsigned>(args.kv.kv_heads));
  return Launch(stream, WalkedAttention<kKind, kDim>, grid, kWalkTiles * 32,
                size_t{2} * kSpanElements<kDim> * sizeof(uint16_t), args);
}

// Calls function<kind, dim>(stream, args) for the cache's type and width.
#define ERNE_FOR_CACHE(function, stream, args)                       \
  do {                                                               \
    const bool bf16 = (args).kv.dtype == KvDType::kBF16;             \
    switch ((args).kv.dim) {                                         \
      case 32:                                                       \
        return bf16 ? function<WeightKind::kBF16, 32>(stream, args)  \
                    : function<WeightKind::kF16, 32>(stream, args);  \
      case 64:                                                       \
        return bf16 ? function<WeightKind::kBF16, 64>(stream, args)  \
                    : function<WeightKind::kF16, 64>(stream, args);  \
      default:                                                       \
        return bf16 ? function<WeightKind::kBF16, 128>(stream, args) \
                    : function<WeightKind::kF16, 128>(stream, args); \
    }                                                                \
  } while (false)

template <WeightKind kKind, int kDim>
cudaError_t Prepare(int shared_bytes) {
  const cudaError_t error =
      cudaFuncSetAttribute(SplitAttention<kKind, kDim>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                           std::min<int>(shared_bytes - 1024, kSplitWarps * kSplitBytes<kDim>));
  if (error != cudaSuccess) return error;
  return cudaFuncSetAttribute(WalkedAttention<kKind, kDim>,
                              cudaFuncAttributeMaxDynamicSharedMemorySize,
                              2 * kSpanElements<kDim> * static_cast<int>(sizeof(uint16_t)));
}

}  // namespace

cudaError_t LaunchSplitAttention(Stream& stream, const AttentionArgs& args) {
  ERNE_FOR_CACHE(Split, stream, args);
}

cudaError_t LaunchWalkedAttention(Stream& stream, const AttentionArgs& args) {
  ERNE_FOR_CACHE(Walk, stream, args);
}

cudaError_t PrepareAttention(int shared_bytes) {
  for (const cudaError_t error :
       {Prepare<WeightKind::kBF16, 32>(shared_bytes), Prepare<WeightKind::kF16, 32>(shared_bytes),
        Prepare<WeightKind::kBF16, 64>(shared_bytes), Prepare<WeightKind::kF16, 64>(shared_bytes),
        Prepare<WeightKind::kBF16, 128>(shared_bytes),
        Prepare<WeightKind::kF16, 128>(shared_bytes)}) {
    if (error != cudaSuccess) return error;
  }
  return cudaSuccess;
}

}  // namespace erne::cuda
