#include "executor/cuda/epilogue.cuh"
#include "executor/cuda/launch.cuh"
#include "executor/cuda/row_kernels.h"

namespace erne::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / 32;

__device__ inline float Widen(WeightKind kind, uint16_t bits) {
  return kind == WeightKind::kBF16 ? __bfloat162float(__ushort_as_bfloat16(bits))
                                   : __half2float(__ushort_as_half(bits));
}

__global__ void Embed(const __grid_constant__ EmbedArgs args) {
  TriggerDependents();
  WaitForPrevious();
  const MatrixView& w = args.embedding;
  const int row = static_cast<int>(blockIdx.x);
  const int token = __ldg(args.tokens + row);
  float* x = args.x + row * args.stride;
  if (w.kind == WeightKind::kF32) {
    const auto* from = reinterpret_cast<const float*>(w.data) +
                       static_cast<int64_t>(token) * w.units * UnitInputs(w.kind);
    for (int c = static_cast<int>(threadIdx.x); c < w.inputs; c += kThreads) x[c] = from[c];
    return;
  }
  const auto* tile = reinterpret_cast<const uint16_t*>(
      w.data + static_cast<int64_t>(token / kTileRows) * w.units * UnitBytes(w.kind, 0));
  for (int c = static_cast<int>(threadIdx.x); c < w.inputs; c += kThreads) {
    x[c] = Widen(w.kind, tile[c / 32 * 512 + FragmentIndex(token % kTileRows, c % 32)]);
  }
}

// A block of 4 warps per row. Each computes the scale (the same sum), and writes a quarter.
constexpr int kNormThreads = 128;
__global__ void __launch_bounds__(kNormThreads) Norm(const __grid_constant__ NormArgs args) {
  TriggerDependents();
  const int row = static_cast<int>(blockIdx.x);
  const int from = args.x_rows == nullptr ? row : __ldg(args.x_rows + row);
  if (threadIdx.x * 32 < static_cast<unsigned>(args.width))
    Prefetch(args.weight + threadIdx.x * 32);
  WaitForPrevious();
  const float* x = args.x + from * args.stride;
  const float scale = RmsScale(x, args.width, args.eps, static_cast<int>(threadIdx.x) % 32);
  const int64_t at = row * args.out_stride;
  if (args.columns != nullptr) {
    for (int c = static_cast<int>(threadIdx.x); c < args.width; c += kNormThreads) {
      const int column = __ldg(args.columns + c);
      StoreActivation(args.type, args.out, at + c,
                      __ldg(args.weight + column) * (x[column] * scale));
    }
    return;
  }
#pragma unroll 4
  for (int c = static_cast<int>(threadIdx.x) * 4; c < args.width; c += kNormThreads * 4) {
    const float4 v = *reinterpret_cast<const float4*>(x + c);
    const float4 w = __ldg(reinterpret_cast<const float4*>(args.weight + c));
    const float4 y = {w.x * (v.x * scale), w.y * (v.y * scale), w.z * (v.z * scale),
                      w.w * (v.w * scale)};
    if (args.plain != nullptr) *reinterpret_cast<float4*>(args.plain + at + c) = y;
    if (args.type == ActivationType::kF32) {
      *reinterpret_cast<float4*>(static_cast<float*>(args.out) + at + c) = y;
    } else {
      const bool bf16 = args.type == ActivationType::kBF16;
      const uint2 bits = {
          NarrowBits(bf16, y.x) | static_cast<uint32_t>(NarrowBits(bf16, y.y)) << 16,
          NarrowBits(bf16, y.z) | static_cast<uint32_t>(NarrowBits(bf16, y.w)) << 16};
      *reinterpret_cast<uint2*>(static_cast<uint16_t*>(args.out) + at + c) = bits;
    }
  }
}

// Grid: [rows, heads of q, k and v]. One warp.
__global__ void HeadNorm(const __grid_constant__ HeadNormArgs args) {
  TriggerDependents();
  WaitForPrevious();
  const int lane = static_cast<int>(threadIdx.x);
  const int row = static_cast<int>(blockIdx.x);
  const int head = static_cast<int>(blockIdx.y);
  const EpilogueArgs& out = args.out;
  const int dim = out.kv.head_dim;
  const float* x = args.qkv + row * args.stride + head * dim;
  const bool is_q = head < out.heads;
  const bool is_v = head >= out.heads + out.kv.kv_heads;
  const float* weight = is_q ? args.q_norm : args.k_norm;
  const float scale = is_v ? 1.0F : RmsScale(x, dim, args.eps, lane);
  for (int pair = lane; pair < dim / 2; pair += 32) {
    const int2 dims = out.interleaved ? int2{2 * pair, 2 * pair + 1} : int2{pair, pair + dim / 2};
    float2 value = {x[dims.x], x[dims.y]};
    if (!is_v) {
      const float2 angle = out.angles[static_cast<int64_t>(out.positions[row]) * (dim / 2) + pair];
      value = Rotate(weight[dims.x] * (value.x * scale), weight[dims.y] * (value.y * scale), angle);
    }
    StoreQkv(out, row, head, out.slots[row], dims, value.x, value.y);
  }
}

__global__ void Gather(const __grid_constant__ GatherArgs args) {
  TriggerDependents();
  WaitForPrevious();
  const int64_t at = blockIdx.x * args.stride;
  for (int c = static_cast<int>(threadIdx.x); c < args.width; c += kThreads) {
    args.out[at + c] = args.in[at + args.columns[c]];
  }
}

// One warp per row. Lane l holds the experts l, l + 32, ...; the largest of all is taken top_k
// times, ties to the lower index. NaNs count as the smallest, so that ids are distinct always.
__global__ void Route(const __grid_constant__ RouteArgs args) {
  constexpr int kMost = kMaxExperts / 32;
  TriggerDependents();
  WaitForPrevious();
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int row = static_cast<int>(blockIdx.x * kWarps + threadIdx.x / 32);
  if (row >= args.rows) return;
  const float* logits = args.logits + row * args.stride;
  float p[kMost];
  float largest = -INFINITY;
#pragma unroll
  for (int i = 0; i < kMost; ++i) {
    const int e = i * 32 + lane;
    p[i] = e < args.experts ? logits[e] : -INFINITY;
    largest = fmaxf(largest, p[i]);
  }
  largest = WarpMax(largest);
  float sum = 0;
#pragma unroll
  for (int i = 0; i < kMost; ++i) {
    p[i] = i * 32 + lane < args.experts ? expf(p[i] - largest) : 0;
    sum += p[i];
  }
  sum = WarpSum(sum);
  float chosen_sum = 0;
  float my_weight = 0;  // of the choice number `lane`
  uint32_t taken = 0;   // bit i: expert i * 32 + lane
  for (int k = 0; k < args.top_k; ++k) {
    float best = -INFINITY;
    int id = kMaxExperts;
    float weight = 0;
#pragma unroll
    for (int i = 0; i < kMost; ++i) {
      const int e = i * 32 + lane;
      if (e >= args.experts || (taken >> i & 1) != 0) continue;
      const float probability = p[i] / sum;
      float score = probability;
      if (args.correction_bias != nullptr) score += args.correction_bias[e];
      if (!(score > -INFINITY)) score = -INFINITY;
      if (id == kMaxExperts || score > best) {
        best = score;
        id = e;
        weight = probability;
      }
    }
    for (int offset = 16; offset > 0; offset /= 2) {
      const float other = __shfl_xor_sync(kFullWarp, best, offset);
      const int other_id = __shfl_xor_sync(kFullWarp, id, offset);
      const float other_weight = __shfl_xor_sync(kFullWarp, weight, offset);
      if (other > best || (other == best && other_id < id)) {
        best = other;
        id = other_id;
        weight = other_weight;
      }
    }
    if (id % 32 == lane) taken |= 1U << (id / 32);
    chosen_sum += weight;
    if (lane == k) {
      my_weight = weight;
      args.ids[row * args.top_k + k] = id;
    }
  }
  if (lane < args.top_k) {
    const float divisor = args.renormalize ? fmaxf(chosen_sum, args.norm_min) : 1.0F;
    args.weights[row * args.top_k + lane] = my_weight / divisor;
  }
}

// One block. A warp counts and places the pairs of an expert, in order of rows.
constexpr int kGroupThreads = 1024;
__global__ void __launch_bounds__(kGroupThreads) Group(const __grid_constant__ GroupArgs args) {
  __shared__ int counts[kMaxExperts + 1];
  TriggerDependents();
  WaitForPrevious();
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int pairs = args.rows * args.top_k;
  for (int e = warp; e < args.experts; e += kGroupThreads / 32) {
    int count = 0;
    for (int begin = 0; begin < pairs; begin += 32) {
      const int i = begin + lane;
      count += __popc(__ballot_sync(kFullWarp, i < pairs && args.ids[i] == e));
    }
    if (lane == 0) counts[e] = count;
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    int begin = 0;
    for (int e = 0; e <= args.experts; ++e) {
      const int count = e < args.experts ? counts[e] : 0;
      counts[e] = args.begin[e] = begin;
      begin += count;
    }
  }
  __syncthreads();
  for (int e = warp; e < args.experts; e += kGroupThreads / 32) {
    int slot = counts[e];
    if (slot == counts[e + 1]) continue;
    for (int begin = 0; begin < pairs; begin += 32) {
      const int i = begin + lane;
      const bool mine = i < pairs && args.ids[i] == e;
      const unsigned all = __ballot_sync(kFullWarp, mine);
      if (mine) {
        const int at = slot + __popc(all & ((1U << lane) - 1));
        args.slot_rows[at] = i / args.top_k;
        args.slots[i] = at;
      }
      slot += __popc(all);
    }
  }
}

__global__ void Combine(const __grid_constant__ CombineArgs args) {
  TriggerDependents();
  WaitForPrevious();
  const int row = static_cast<int>(blockIdx.x);
  for (int c = static_cast<int>(threadIdx.x); c < args.width; c += kThreads) {
    float sum = 0;
    for (int j = 0; j < args.top_k; ++j) {
      const int pair = row * args.top_k + j;
      sum = fmaf(args.weights[pair], args.parts[args.slots[pair] * args.stride + c], sum);
    }
    if (args.shared != nullptr) sum += args.shared[row * args.stride + c];
    args.x[row * args.stride + c] += sum;
  }
}

}  // namespace

cudaError_t LaunchEmbed(Stream& stream, const EmbedArgs& args) {
  return Launch(stream, Embed, dim3(static_cast<unsigned>(args.rows)), kThreads, 0, args);
}

cudaError_t LaunchNorm(Stream& stream, const NormArgs& args) {
  return Launch(stream, Norm, dim3(static_cast<unsigned>(args.rows)), kNormThreads, 0, args);
}

cudaError_t LaunchHeadNorm(Stream& stream, const HeadNormArgs& args) {
  const dim3 grid(static_cast<unsigned>(args.rows),
                  static_cast<unsigned>(args.out.heads + 2 * args.out.kv.kv_heads));
  return Launch(stream, HeadNorm, grid, 32, 0, args);
}

cudaError_t LaunchGather(Stream& stream, const GatherArgs& args) {
  return Launch(stream, Gather, dim3(static_cast<unsigned>(args.rows)), kThreads, 0, args);
}

cudaError_t LaunchRoute(Stream& stream, const RouteArgs& args) {
  return Launch(stream, Route, dim3(CeilDiv(args.rows, kWarps)), kThreads, 0, args);
}

cudaError_t LaunchGroup(Stream& stream, const GroupArgs& args) {
  return Launch(stream, Group, dim3(1), kGroupThreads, 0, args);
}

cudaError_t LaunchCombine(Stream& stream, const CombineArgs& args) {
  return Launch(stream, Combine, dim3(static_cast<unsigned>(args.rows)), kThreads, 0, args);
}

}  // namespace erne::cuda
