// Attention over float32 keys and values: small models and tests. A warp takes one query and walks
// its context 32 positions at a time, a lane computing one score; then each lane adds up its
// dimensions of the values. The largest score so far scales what was added before (online softmax),
// at positions that depend on nothing but the context.
#include "executor/cuda/attention.h"
#include "executor/cuda/device_code.cuh"
#include "executor/cuda/launch.cuh"

namespace erne::cuda {
namespace {

constexpr int kThreads = 128;
constexpr int kMostParts = kMaxHeadDim / 32;

// Grid: [ranges, kv_heads, queries of a range / 4 warps].
__global__ void __launch_bounds__(kThreads)
    F32Attention(const __grid_constant__ AttentionArgs args) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int kv_head = static_cast<int>(blockIdx.y);
  const int group = args.heads / args.kv.kv_heads;
  const int dim = args.kv.head_dim;
  TriggerDependents();
  WaitForPrevious();
  const QueryRange range = args.ranges[blockIdx.x];
  const int query = range.begin + static_cast<int>(blockIdx.z * (kThreads / 32) + threadIdx.x / 32);
  if (query >= range.end) return;
  const int row = range.first_row + query / group;
  const int position = range.position + query / group;
  const int head = kv_head * group + query % group;
  const float* q =
      static_cast<const float*>(args.q) + (static_cast<int64_t>(row) * args.heads + head) * dim;
  const auto keys_of = [&](int p) {
    const int64_t block = args.blocks[range.table + p / kBlockTokens];
    const uint8_t* data =
        args.kv.data + (block * args.kv.kv_heads + kv_head) * KvHeadBytes(KvDType::kF32, dim);
    return reinterpret_cast<const float*>(data) + p % kBlockTokens * dim;
  };
  const float scale = 1.0F / sqrtf(static_cast<float>(dim));
  float largest = -INFINITY;
  float weight = 0;
  float sums[kMostParts] = {};
  for (int begin = 0; begin <= position; begin += 32) {
    float score = -INFINITY;
    if (begin + lane <= position) {
      const float* k = keys_of(begin + lane);
      float dot = 0;
      for (int d = 0; d < dim; ++d) dot = fmaf(q[d], k[d], dot);
      score = dot * scale;
    }
    const float now = fmaxf(largest, WarpMax(score));
    const float kept = expf(largest - now);
    const float mine = expf(score - now);
    largest = now;
    weight = fmaf(weight, kept, WarpSum(mine));
#pragma unroll
    for (int i = 0; i < kMostParts; ++i) sums[i] *= kept;
    const int count = min(32, position - begin + 1);
    for (int p = 0; p < count; ++p) {
      const float w = __shfl_sync(kFullWarp, mine, p);
      const float* v = keys_of(begin + p) + kBlockTokens * dim;
#pragma unroll
      for (int i = 0; i < kMostParts; ++i) {
        if (i * 32 + lane < dim) sums[i] = fmaf(w, v[i * 32 + lane], sums[i]);
      }
    }
  }
  const int64_t at = row * args.out_stride + head * dim;
#pragma unroll
  for (int i = 0; i < kMostParts; ++i) {
    if (i * 32 + lane < dim) {
      StoreActivation(args.out_type, args.out, at + i * 32 + lane, sums[i] / weight);
    }
  }
}

}  // namespace

cudaError_t LaunchF32Attention(Stream& stream, const AttentionArgs& args) {
  const dim3 grid(static_cast<unsigned>(args.num_ranges), static_cast<unsigned>(args.kv.kv_heads),
                  kWalkTiles * kTileQueries / (kThreads / 32));
  return Launch(stream, F32Attention, grid, kThreads, 0, args);
}

}  // namespace erne::cuda
