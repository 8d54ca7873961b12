// The kernels of the CPU executor: plain structs and a table of functions, filled once per
// instruction set.
//
// One source of arithmetic. Everything is written on a vector of 16 floats (kernels.inc), which
// an instruction set makes of one 512-bit register, two 256-bit ones, or whatever the compiler has.
// What a lane computes never depends on how many registers hold the vector, so AVX2 and AVX-512
// agree bit for bit (the portable set too where the target has a fused multiply-add).
//
// Packed weights. The outputs of a matrix are cut into panels of 16. Within a panel the 16 outputs
// of one input are neighbours: a kernel loads 16 weights of input k and multiplies them by x[k],
// broadcast. So an output is one chain of fused multiply-adds over k = 0, 1, 2, ..., whatever the
// number of rows, threads or the place in a tile: that is what makes results independent of the
// batch. The panel layouts:
//   f32   [cols][16] float
//   f16   [cols][16] half
//   bf16  [ceil(cols / 2)][16][2]: the pair (k, k + 1) of one output is one 32-bit word, so that
//   one load serves two inputs int4  per group: scales [16] float, zeros [16] int8 holding 8 -
//   zero, q [group / 2][16] bytes, the even input in the low
//         nibble. An output sums x * (q - 8) over the group, adds (8 - zero) * sum(x), multiplies
//         by the scale and adds that to its total.
//
// The paged KV cache reuses the float panels, and one more:
//   int8  [cols][16] int8
// A block of 16 positions of one kv head is K [head_dim][16 positions], a panel whose outputs are
// the scores, then V [ceil(head_dim / 16)][16 positions][16], panels whose inputs are the
// positions. Before them, int8 has the scales of K [16 positions] float and those of V: scores are
// multiplied by the former, weights by the latter, so that the products themselves read plain
// integers.
//
// This header is read by sources compiled for different instruction sets: it defines no function,
// and those sources include nothing of the standard library but <cstdint> and <cstddef>, so that no
// inline function compiled for AVX can replace the one that the rest of the program calls.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kv/kv_dtype.h"

namespace erne::cpu {

inline constexpr int64_t kLanes =
    16;  // outputs of a panel, floats of a vector, positions of a KV block

// Panels computed together: 4 panels x 6 rows = 24 accumulators of the 32 registers of AVX-512.
inline constexpr int64_t kTilePanels = 4;
inline constexpr int64_t kTileWidth = kTilePanels * kLanes;
// Rows of activations that share one pass over a tile's weights: 8 full blocks of 6 rows; the tile
// is 12 KiB.
inline constexpr int64_t kRowGroup = 48;

// Softmax runs online over chunks of this many positions, and restarts at every span; partial
// results of spans are merged in order. Both are cut at absolute positions, so a row's result
// depends on its position alone.
inline constexpr int64_t kChunkTokens = 64;
inline constexpr int64_t kSpanTokens = 512;

enum class WeightType : uint8_t { kF32, kBF16, kF16, kInt4 };

// A packed matrix, y = W x + bias.
struct MatrixRef {
  WeightType type = WeightType::kF32;
  int64_t rows = 0;                     // outputs
  int64_t cols = 0;                     // inputs, as packed
  const unsigned char* data = nullptr;  // [panels][panel_bytes]
  int64_t panel_bytes = 0;
  int64_t group =
      0;  // int4: inputs that share a scale and a zero; even, and `cols` is a multiple of it
  // The activation that packed input c multiplies (GPTQ's act-order); null: activation c.
  const int32_t* columns = nullptr;  // [cols]
  const float* bias = nullptr;       // [rows], or null
};

// Where one worker keeps a tile and what it derives from activations.
struct GemmScratch {
  float* tile = nullptr;  // [kRowGroup, kTileWidth]
  float* sums[2] = {};    // [kRowGroup, sums_stride]: sum of x over each group (int4)
  int64_t sums_stride = 0;
  float* permuted[2] = {};  // [kRowGroup, permuted_stride]: activations in the order of `columns`
  int64_t permuted_stride = 0;
};

enum class Epilogue : uint8_t {
  kStore,   // y = W x + bias
  kAdd,     // y += W x + bias
  kSwiGlu,  // y = silu(W x + bias) * (up x + up_bias)
};

// Panels [panel_begin, panel_end) of a matrix, for some rows of activations.
struct GemmTask {
  Epilogue epilogue = Epilogue::kStore;
  const MatrixRef* matrix = nullptr;
  const MatrixRef* up = nullptr;  // kSwiGlu: the second matrix, of the same shape
  int64_t panel_begin = 0;
  int64_t panel_end = 0;
  int64_t rows = 0;
  const float* x = nullptr;  // [*, x_stride]; row i reads row x_rows[i], or i when x_rows is null
  int64_t x_stride = 0;
  const int32_t* x_rows = nullptr;
  float* y = nullptr;  // [rows, y_stride]
  int64_t y_stride = 0;
  const GemmScratch* scratch = nullptr;
};

// Attention of `rows` consecutive rows of one sequence with the query heads of one kv head, over
// spans [span_begin, span_end).
struct AttentionTask {
  int64_t rows = 0;
  int64_t position = 0;  // of the first row
  int64_t group = 0;     // query heads of this kv head
  int64_t head_dim = 0;
  int64_t span_begin = 0;
  int64_t span_end = 0;
  const float* q =
      nullptr;  // [rows, q_stride], this group's heads first: [group, head_dim], already scaled
  int64_t q_stride = 0;
  KvDType kv_dtype = KvDType::kF32;
  const unsigned char* kv = nullptr;  // this layer and kv head in block 0
  int64_t block_stride = 0;           // bytes from block to block
  const int32_t* blocks = nullptr;
  float* out = nullptr;  // as q
  int64_t out_stride = 0;
  // States of queries: [rows * group, StateFloats]. `state` is the result of the spans; when `out`
  // is null it stays there for attention_merge.
  float* state = nullptr;
  float* span_state = nullptr;
  float* scores = nullptr;  // [rows * group, kChunkTokens]
};

// K and V of one position, into its block.
struct KvStoreTask {
  KvDType dtype = KvDType::kF32;
  int64_t head_dim = 0;            // even
  const float* k = nullptr;        // [head_dim]
  const float* v = nullptr;        // [head_dim]
  unsigned char* block = nullptr;  // this layer and kv head in the position's block
  int64_t offset = 0;              // of the position in the block
};

// Floats of a query's state: the weighted sum of V (padded to whole vectors), the 16 partial sums
// of weights, the maximum.
inline constexpr int64_t kStateExtra = 2 * kLanes;

struct Kernels {
  const char* name = "";
  void (*gemm)(const GemmTask& task) = nullptr;
  void (*attention)(const AttentionTask& task) = nullptr;
  // Merges the states of `spans` spans in order and writes `group` heads. states: [spans, group,
  // StateFloats], overwritten
  void (*attention_merge)(float* states, int64_t spans, int64_t group, int64_t head_dim,
                          float* out) = nullptr;
  // A NaN stays one (with int8 the whole k or v becomes NaN, with an infinity too).
  void (*store_kv)(const KvStoreTask& task) = nullptr;
  // out = x / sqrt(mean(x^2) + eps) * weight; out may be x.
  void (*rms_norm)(const float* x, const float* weight, float eps, int64_t n, float* out) = nullptr;
  // x += sum over j of weights[j] * parts[rows[j]], then + shared when not null. parts: [*, stride]
  void (*combine)(const float* parts, int64_t stride, const int32_t* rows, const float* weights,
                  int64_t count, const float* shared, int64_t n, float* x) = nullptr;
  // out = e^x: what softmax and SiLU use, for tests.
  void (*exp)(const float* x, int64_t n, float* out) = nullptr;
};

// One per source file; they exist where the target architecture has the instruction set.
namespace scalar {
extern const Kernels kKernels;
}
namespace avx2 {
extern const Kernels kKernels;
}
namespace avx512 {
extern const Kernels kKernels;
}

}  // namespace erne::cpu
