// What happens to rows between products: embedding, norms, routing, and the weighted sum of
// experts.
#pragma once

#include "executor/cuda/gemm.h"

namespace erne::cuda {

// x[i] = row tokens[i] of the embedding, packed as a matrix [vocab, hidden] of floats. x: [rows,
// stride]
struct EmbedArgs {
  MatrixView embedding;
  const int32_t* tokens = nullptr;  // [rows]
  int rows = 0;
  float* x = nullptr;
  int64_t stride = 0;
};
cudaError_t LaunchEmbed(Stream& stream, const EmbedArgs& args);

// out[i] = RMSNorm(x[x_rows[i]]) * weight, as whoever reads it wants it.
struct NormArgs {
  const float* x = nullptr;  // [*, stride]
  int64_t stride = 0;
  const int32_t* x_rows = nullptr;  // [rows]; null: row i
  int rows = 0;
  int width = 0;
  const float* weight = nullptr;  // [width]
  float eps = 0;
  const int32_t* columns = nullptr;  // out[c] = value of column columns[c]; null: in order
  ActivationType type = ActivationType::kF32;
  void* out = nullptr;  // [rows, out_stride]
  int64_t out_stride = 0;
  float* plain = nullptr;  // also in float32 and in order, or null. [rows, out_stride]
};
cudaError_t LaunchNorm(Stream& stream, const NormArgs& args);

// For models with qk-norm: RMSNorm over each head of q and k, then what Epilogue::kQkv does.
struct HeadNormArgs {
  const float* qkv = nullptr;  // [rows, stride], heads of q, of k, of v
  int64_t stride = 0;
  int rows = 0;
  const float* q_norm = nullptr;  // [head_dim]
  const float* k_norm = nullptr;
  float eps = 0;
  EpilogueArgs out;  // kQkv
};
cudaError_t LaunchHeadNorm(Stream& stream, const HeadNormArgs& args);

// out[i][c] = in[i][columns[c]] of 2-byte elements (GPTQ's act-order).
struct GatherArgs {
  const uint16_t* in = nullptr;  // [rows, stride]
  uint16_t* out = nullptr;       // [rows, stride]
  int64_t stride = 0;
  int rows = 0;
  int width = 0;
  const int32_t* columns = nullptr;  // [width]
};
cudaError_t LaunchGather(Stream& stream, const GatherArgs& args);

// The rule of moe/routing.h for each row.
struct RouteArgs {
  const float* logits = nullptr;  // [rows, stride]
  int64_t stride = 0;
  int rows = 0;
  int experts = 0;
  int top_k = 0;
  const float* correction_bias = nullptr;  // [experts], or null
  bool renormalize = true;
  float norm_min = 0;
  int32_t* ids = nullptr;    // [rows, top_k]
  float* weights = nullptr;  // [rows, top_k]
};
inline constexpr int kMaxExperts = 512;
inline constexpr int kMaxTopK = 32;
cudaError_t LaunchRoute(Stream& stream, const RouteArgs& args);

// Sorts (row, expert) pairs by expert, rows in order: begin [experts + 1], slot_rows [pairs] the
// row of each slot, slots [pairs] the slot of each pair.
struct GroupArgs {
  const int32_t* ids = nullptr;  // [rows, top_k]
  int rows = 0;
  int experts = 0;
  int top_k = 0;
  int32_t* begin = nullptr;
  int32_t* slot_rows = nullptr;
  int32_t* slots = nullptr;
};
cudaError_t LaunchGroup(Stream& stream, const GroupArgs& args);

// x[i] += sum over j of weights[i][j] * parts[slots[i][j]], then + shared[i].
struct CombineArgs {
  const float* parts = nullptr;   // [slots, stride]
  const float* shared = nullptr;  // [rows, stride], or null
  int64_t stride = 0;
  const int32_t* slots = nullptr;
  const float* weights = nullptr;
  int rows = 0;
  int top_k = 0;
  int width = 0;
  float* x = nullptr;  // [rows, stride]
};
cudaError_t LaunchCombine(Stream& stream, const CombineArgs& args);

}  // namespace erne::cuda
