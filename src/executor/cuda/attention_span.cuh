// One span of keys and values against a tile of 16 queries, by one warp: the arithmetic of both
// kernels (attention.h).
//
// A lane 4 r + t holds the queries r and r + 8. Scores are products with 8 positions at a time; the
// two products of a block of 16 positions take their positions in an order in which the lane ends
// up with the neighbours 4 t .. 4 t + 3, which are just the positions that it holds of the weights
// when these are multiplied with the values. The head's dimensions are taken in the order of
// layout.h, 8 t .. 8 t + 7 of each 32.
#pragma once

#include "executor/cuda/attention.h"
#include "executor/cuda/device_code.cuh"

namespace erne::cuda {

// Of a tile: 16 queries x kDim. Two queries per lane.
template <int kDim>
struct TileState {
  float sum[kDim / 8][4];  // [2 g + e]: dimensions 16 g + 4 t + e and + 2 of the two queries
  float largest[2];        // of the scores, times log2(e), rounded up
  float weight[2];         // sum of 2^(score - largest)
};

template <int kDim>
__device__ inline void Clear(TileState<kDim>& state) {
#pragma unroll
  for (int i = 0; i < kDim / 8; ++i) {
#pragma unroll
    for (int c = 0; c < 4; ++c) state.sum[i][c] = 0;
  }
  state.largest[0] = state.largest[1] = -INFINITY;
  state.weight[0] = state.weight[1] = 0;
}

// 2^x for a whole x <= 0; 0 below the smallest normal number and for -infinity.
__device__ inline float PowerOfTwo(float x) {
  return x < -126 ? 0.0F : __int_as_float((static_cast<int>(x) + 127) << 23);
}

// sum += part * 2^x: what both kernels add with.
__device__ inline float AddScaled(float sum, float scale, float part, float part_scale) {
  return fmaf(part, part_scale, sum * scale);
}

// state += span. One of the two scales is 1. A query to which the whole span is masked stays as it
// is.
template <int kDim>
__device__ inline void Merge(TileState<kDim>& state, const TileState<kDim>& span) {
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    if (span.weight[h] == 0) continue;
    const float largest = fmaxf(state.largest[h], span.largest[h]);
    const float a = PowerOfTwo(state.largest[h] - largest);
    const float b = PowerOfTwo(span.largest[h] - largest);
    state.largest[h] = largest;
    state.weight[h] = AddScaled(state.weight[h], a, span.weight[h], b);
#pragma unroll
    for (int i = 0; i < kDim / 8; ++i) {
#pragma unroll
      for (int c = 0; c < 2; ++c) {
        float& sum = state.sum[i][2 * h + c];
        sum = AddScaled(sum, a, span.sum[i][2 * h + c], b);
      }
    }
  }
}

// The A operand of the scores: 16-byte pieces of the lane's two queries.
template <int kDim>
struct Queries {
  uint4 low[kDim / 32], high[kDim / 32];
};

// low, high: the rows of the lane's queries. [kDim]
template <int kDim>
__device__ inline Queries<kDim> LoadQueries(const uint16_t* low, const uint16_t* high, int lane) {
  Queries<kDim> q;
#pragma unroll
  for (int j = 0; j < kDim / 32; ++j) {
    q.low[j] = *reinterpret_cast<const uint4*>(low + j * 32 + lane % 4 * 8);
    q.high[j] = *reinterpret_cast<const uint4*>(high + j * 32 + lane % 4 * 8);
  }
  return q;
}

// Of the scores of one block of positions: [2 products][4]; positions 4 t + 2 i + {0, 1}.
template <WeightKind kKind, int kDim>
__device__ inline void BlockScores(const Queries<kDim>& q, const uint16_t* keys, int key_stride,
                                   int lane, float (&scores)[2][4]) {
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const int column = lane / 4;
    const int position = column / 2 * 4 + 2 * i + column % 2;
    const uint16_t* key = keys + position * key_stride + lane % 4 * 8;
    scores[i][0] = scores[i][1] = scores[i][2] = scores[i][3] = 0;
#pragma unroll
    for (int j = 0; j < kDim / 32; ++j) {
      const uint4 k = *reinterpret_cast<const uint4*>(key + j * 32);
      Mma<kKind>(scores[i], {q.low[j].x, q.high[j].x, q.low[j].y, q.high[j].y}, k.x, k.y);
      Mma<kKind>(scores[i], {q.low[j].z, q.high[j].z, q.low[j].w, q.high[j].w}, k.z, k.w);
    }
  }
}

// 2^x, flushing what is below the normal numbers; 0 for -infinity.
__device__ inline float Exp2(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// A weight, which lies between 0 and 1, as the product with the values will read it.
template <WeightKind kKind>
__device__ inline float RoundWeight(float weight) {
  if constexpr (kKind == WeightKind::kBF16) return __bfloat162float(__float2bfloat16_rn(weight));
  return __half2float(__float2half_rn(weight));
}

// Masks, and turns scores into weights; sets state.largest and state.weight. The weights are added
// up as they are after rounding, so that those of a query that sees one position alone are exactly
// 1 in effect. scale: of a score, with log2(e). limit: the last position of each of the two
// queries, counted from the span's begin.
template <WeightKind kKind, int kDim>
__device__ inline void Weigh(float (&scores)[kSpanTokens / 16][2][4], float scale,
                             const int (&limit)[2], int lane, TileState<kDim>& state) {
  const bool all_seen = min(limit[0], limit[1]) >= kSpanTokens - 1;
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    float largest = -INFINITY;
#pragma unroll
    for (int b = 0; b < kSpanTokens / 16; ++b) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        float& score = scores[b][i / 2][2 * h + i % 2];
        score *= scale;
        if (!all_seen && b * 16 + lane % 4 * 4 + i > limit[h]) score = -INFINITY;
        largest = fmaxf(largest, score);
      }
    }
    largest = fmaxf(largest, __shfl_xor_sync(kFullWarp, largest, 1));
    largest = ceilf(fmaxf(largest, __shfl_xor_sync(kFullWarp, largest, 2)));
    state.largest[h] = largest;
    if (largest == -INFINITY) largest = 0;
    float weight = 0;
#pragma unroll
    for (int b = 0; b < kSpanTokens / 16; ++b) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        float& score = scores[b][i / 2][2 * h + i % 2];
        score = RoundWeight<kKind>(Exp2(score - largest));
        weight += score;
      }
    }
    weight += __shfl_xor_sync(kFullWarp, weight, 1);
    state.weight[h] = weight + __shfl_xor_sync(kFullWarp, weight, 2);
  }
}

// Two rounded weights in the type of the cache.
template <bool kBf16>
__device__ inline uint32_t PackWeights(float low, float high) {
  uint32_t packed;
  if constexpr (kBf16) {
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));
  } else {
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));
  }
  return packed;
}

// state.sum += weights x values of one block of positions. values: [kDim * 2 uint4]
template <WeightKind kKind, int kDim>
__device__ inline void AddValues(const float (&weights)[2][4], const uint4* values, int lane,
                                 TileState<kDim>& state) {
  constexpr bool kBf16 = kKind == WeightKind::kBF16;
  const uint4 a = {PackWeights<kBf16>(weights[0][0], weights[0][1]),
                   PackWeights<kBf16>(weights[0][2], weights[0][3]),
                   PackWeights<kBf16>(weights[1][0], weights[1][1]),
                   PackWeights<kBf16>(weights[1][2], weights[1][3])};
#pragma unroll
  for (int g = 0; g < kDim / 16; ++g) {
    const uint4 v = values[g * 32 + lane];
    Mma<kKind>(state.sum[2 * g], a, v.x, v.y);
    Mma<kKind>(state.sum[2 * g + 1], a, v.z, v.w);
  }
}

// The whole span. keys(b), values(b): of its block b. Blocks that begin past `last`, a position
// counted from the span's begin that no query of the tile goes beyond, are not touched.
template <WeightKind kKind, int kDim, typename Keys, typename Values>
__device__ inline void AttendSpan(const Queries<kDim>& q, const Keys& keys, int key_stride,
                                  const Values& values, float scale, const int (&limit)[2],
                                  int last, int lane, TileState<kDim>& state) {
  constexpr int kBlocks = kSpanTokens / 16;
  float scores[kBlocks][2][4];
  Clear(state);
#pragma unroll
  for (int b = 0; b < kBlocks; ++b) {
    if (b * 16 <= last) {
      BlockScores<kKind, kDim>(q, keys(b), key_stride, lane, scores[b]);
    } else {
#pragma unroll
      for (int i = 0; i < 8; ++i) scores[b][i / 4][i % 4] = 0;
    }
  }
  Weigh<kKind, kDim>(scores, scale, limit, lane, state);
#pragma unroll
  for (int b = 0; b < kBlocks; ++b) {
    if (b * 16 <= last) AddValues<kKind, kDim>(scores[b], values(b), lane, state);
  }
}

// 1 / sqrt(head_dim) * log2(e)
__device__ inline float ScoreScale(int head_dim) {
  return 1.0F / sqrtf(static_cast<float>(head_dim)) * 1.44269504F;
}

}  // namespace erne::cuda
