// What happens to the results of a product, the same code behind every kernel. A call gets the two
// outputs r and r + 8 of a tile for one row, whose bias is added here.
#pragma once

#include "executor/cuda/device_code.cuh"
#include "executor/cuda/gemm.h"

namespace erne::cuda {

// k or v of one dimension into the cache. head: [KvHeadBytes], the row's block and kv head
__device__ inline void StoreKv(const KvView& kv, bool value, uint8_t* head, int dim, int offset,
                               float x) {
  const int half = kBlockTokens * kv.dim;
  if (kv.dtype == KvDType::kF32) {
    reinterpret_cast<float*>(head)[(value ? half : 0) + offset * kv.dim + dim] = x;
    return;
  }
  const int index = value ? half + ValueIndex(dim, offset) : offset * kv.dim + dim;
  reinterpret_cast<uint16_t*>(head)[index] = NarrowBits(kv.dtype == KvDType::kBF16, x);
}

__device__ inline uint8_t* KvHead(const KvView& kv, int64_t block, int head) {
  return kv.data + (block * kv.kv_heads + head) * KvHeadBytes(kv.dtype, kv.dim);
}

// head: of q, then of k, then of v. dims: of `first` and `second`. q: [rows, heads * kv.dim]
__device__ inline void StoreQkv(const EpilogueArgs& out, int row, int head, int slot, int2 dims,
                                float first, float second) {
  if (head < out.heads) {
    const int64_t at = row * out.stride + head * out.kv.dim;
    if (out.interleaved && out.type != ActivationType::kF32) {  // neighbours
      const bool bf16 = out.type == ActivationType::kBF16;
      *reinterpret_cast<uint32_t*>(static_cast<uint16_t*>(out.out) + at + dims.x) =
          NarrowBits(bf16, first) | static_cast<uint32_t>(NarrowBits(bf16, second)) << 16;
      return;
    }
    StoreActivation(out.type, out.out, at + dims.x, first);
    StoreActivation(out.type, out.out, at + dims.y, second);
    return;
  }
  const bool value = head >= out.heads + out.kv.kv_heads;
  const int kv_head = head - out.heads - (value ? out.kv.kv_heads : 0);
  uint8_t* to = KvHead(out.kv, slot / kBlockTokens, kv_head);
  StoreKv(out.kv, value, to, dims.x, slot % kBlockTokens, first);
  StoreKv(out.kv, value, to, dims.y, slot % kBlockTokens, second);
}

// What Finish reads besides the sums, so that it can be on its way while they are added up.
struct Operands {
  float bias[2];
  float y[2];    // kAdd: what is there
  float2 angle;  // kQkv: of q and k
  int slot;      // kQkv
};

// r in [0, 8). The parts that no kernel of a step writes. bias: of this matrix, or null
__device__ inline void LoadConstants(const EpilogueArgs& out, const float* bias, int tile, int r,
                                     int row, Operands& operands) {
  const int index = tile * kTileRows + r;
  operands.bias[0] = bias == nullptr ? 0 : __ldg(bias + index);
  operands.bias[1] = bias == nullptr ? 0 : __ldg(bias + index + 8);
  if (out.kind != Epilogue::kQkv) return;
  const int dim = out.kv.head_dim;
  const int pair = (tile * kTileRows % dim) / 2 + r;
  operands.angle =
      __ldg(out.angles + static_cast<int64_t>(__ldg(out.positions + row)) * (dim / 2) + pair);
  operands.slot = __ldg(out.slots + row);
}

// The parts that kernels before this one wrote.
__device__ inline void LoadResults(const EpilogueArgs& out, int tile, int r, int row,
                                   Operands& operands) {
  if (out.kind != Epilogue::kAdd) return;
  const int index = tile * kTileRows + r;
  const float* y = static_cast<const float*>(out.out) + row * out.stride;
  operands.y[0] = index < out.outputs ? y[index] : 0;
  operands.y[1] = index + 8 < out.outputs ? y[index + 8] : 0;
}

__device__ inline void FinishQkv(const EpilogueArgs& out, const Operands& operands, int tile, int r,
                                 int row, float first, float second) {
  const int dim = out.kv.head_dim;
  const int head = tile * kTileRows / dim;
  const int pair = (tile * kTileRows % dim) / 2 + r;
  if (head < out.heads + out.kv.kv_heads) {
    const float2 rotated = Rotate(first, second, operands.angle);
    first = rotated.x;
    second = rotated.y;
  }
  const int2 dims = out.interleaved ? int2{2 * pair, 2 * pair + 1} : int2{pair, pair + dim / 2};
  StoreQkv(out, row, head, operands.slot, dims, first, second);
}

// kKind is out.kind.
template <Epilogue kKind>
__device__ inline void FinishAs(const EpilogueArgs& out, const Operands& operands, int tile, int r,
                                int row, float first, float second) {
  const int index = tile * kTileRows + r;
  first += operands.bias[0];
  second += operands.bias[1];
  if constexpr (kKind == Epilogue::kQkv) {
    FinishQkv(out, operands, tile, r, row, first, second);
  } else if constexpr (kKind == Epilogue::kSwiGlu) {
    const int output = tile * 8 + r;
    if (output < out.outputs) {
      StoreActivation(out.type, out.out, row * out.stride + output, Silu(first) * second);
    }
  } else {
    float* y = static_cast<float*>(out.out) + row * out.stride;
    constexpr bool kAdd = kKind == Epilogue::kAdd;
    if (index < out.outputs) y[index] = kAdd ? operands.y[0] + first : first;
    if (index + 8 < out.outputs) y[index + 8] = kAdd ? operands.y[1] + second : second;
  }
}

__device__ inline void Finish(const EpilogueArgs& out, const Operands& operands, int tile, int r,
                              int row, float first, float second) {
  switch (out.kind) {
    case Epilogue::kStore:
      return FinishAs<Epilogue::kStore>(out, operands, tile, r, row, first, second);
    case Epilogue::kAdd:
      return FinishAs<Epilogue::kAdd>(out, operands, tile, r, row, first, second);
    case Epilogue::kSwiGlu:
      return FinishAs<Epilogue::kSwiGlu>(out, operands, tile, r, row, first, second);
    case Epilogue::kQkv:
      return FinishAs<Epilogue::kQkv>(out, operands, tile, r, row, first, second);
  }
}

template <Epilogue kKind, int kThreads, int kTiles, typename Sums>
__device__ inline void FinishBlockAs(const EpilogueArgs& out, const float* bias, int first_tile,
                                     int tiles, int first_row, int rows, const Sums& sums) {
  constexpr int kBatch = 4;  // pairs whose operands are on their way at once
  constexpr int kPerRow = kTiles * 8;
  const int pairs = kPerRow * rows;
  for (int begin = static_cast<int>(threadIdx.x); begin < pairs; begin += kBatch * kThreads) {
    Operands operands[kBatch];
#pragma unroll
    for (int b = 0; b < kBatch; ++b) {
      const int i = begin + b * kThreads;
      const int tile = i % kPerRow / 8;
      if (i >= pairs || tile >= tiles) continue;
      const int row = first_row + i / kPerRow;
      LoadConstants(out, bias, first_tile + tile, i % 8, row, operands[b]);
      LoadResults(out, first_tile + tile, i % 8, row, operands[b]);
    }
#pragma unroll
    for (int b = 0; b < kBatch; ++b) {
      const int i = begin + b * kThreads;
      const int tile = i % kPerRow / 8;
      if (i >= pairs || tile >= tiles) continue;
      float first;
      float second;
      sums(tile, i % 8, i / kPerRow, first, second);
      FinishAs<kKind>(out, operands[b], first_tile + tile, i % 8, first_row + i / kPerRow, first,
                      second);
    }
  }
}

// The outputs of a block, whose sums lie in shared memory: pairs of up to kTiles tiles from
// `first_tile` on for rows from `first_row` on, those of a row by neighbouring threads. Loops and
// not unrolled code in every thread's own registers: what runs once per launch has to be fetched,
// too. sums(tile, r, row, first, second) gives a pair of the block.
template <int kThreads, int kTiles, typename Sums>
__device__ inline void FinishBlock(const EpilogueArgs& out, const float* bias, int first_tile,
                                   int tiles, int first_row, int rows, const Sums& sums) {
  switch (out.kind) {
    case Epilogue::kStore:
      return FinishBlockAs<Epilogue::kStore, kThreads, kTiles>(out, bias, first_tile, tiles,
                                                               first_row, rows, sums);
    case Epilogue::kAdd:
      return FinishBlockAs<Epilogue::kAdd, kThreads, kTiles>(out, bias, first_tile, tiles,
                                                             first_row, rows, sums);
    case Epilogue::kSwiGlu:
      return FinishBlockAs<Epilogue::kSwiGlu, kThreads, kTiles>(out, bias, first_tile, tiles,
                                                                first_row, rows, sums);
    case Epilogue::kQkv:
      return FinishBlockAs<Epilogue::kQkv, kThreads, kTiles>(out, bias, first_tile, tiles,
                                                             first_row, rows, sums);
  }
}

}  // namespace erne::cuda
