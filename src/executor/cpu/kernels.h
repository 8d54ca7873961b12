// The kernels of the CPU executor: plain structs and a table of functions, filled once per
// instruction set.
//
// One source of arithmetic. Everything is written on a vector of 16 floats (kernels.inc), which
// an instruction set makes of one 512-bit register, two 256-bit ones, or whatever the compiler has.
// What a lane computes never depends on how many registers hold the vector, so AVX2 and AVX-512
// agree bit for bit (the portable set too where the target has a fused multiply-add).
//
// Packed weights. The outputs of a matrix are cut into panels of 16. Within a panel the 16 outputs
// of one input, or of a few, are neighbours: a kernel loads one 64-byte line and multiplies it by
// those inputs, broadcast. Four panels that are multiplied together (a tile; the last may have
// fewer) lie interleaved, so that a matrix is read from its first byte to its last: where each
// panel is a stream of its own, hardware prefetchers find four short ones and lose a third of the
// bandwidth. So an output is one chain of operations over k = 0, 1, 2, ..., whatever
// the number of rows, threads or the place in a tile: that is what makes results independent of the
// batch. One layout serves one row and many, and every type of activations:
//   f32   [cols][16] float
//   f16   [cols][16] half
//   bf16  [ceil(cols / 2)][16][2]: the inputs (2 i, 2 i + 1) of one output are one 32-bit word
//   int8  [groups] of: q [ceil(group / 8) * 2][panels][16][4] bytes, 128 + w; scales [panels][16]
//         float
//   int4  [groups] of: q [ceil(group / 8)][panels][16][4] bytes, of which byte j holds input 8 i +
//   j
//         in its low nibble and input 8 i + 4 + j in its high one; scales [panels][16] float; zeros
//         [panels][16] int8, 8 - zero
// A group is `group` inputs that share a scale (and a zero); the last one may be shorter, and lies
// in as many bytes as the others. What pads a group or a panel is never multiplied by more than
// zero.
//
// Activations have a type of their own, which with that of the weights decides the arithmetic:
//   f32   an output is a chain of fused multiply-adds. Of int8 and int4 weights, a group sums
//         x * (q - 128) or x * (q - 8) + (8 - zero) * sum(x), is multiplied by its scale and joins
//         the total.
//   bf16  with bf16 weights: products of pairs where the instruction set has them (VDPBF16PS; with
//         AMX the tiles of TDPBF16PS, 32 inputs at a time, for one row as for many), else the chain
//         of f32 over inputs rounded to bf16.
//   int8  with int8 and int4 weights: x is rounded to 127 steps of the largest magnitude of its
//         group. A group sums q * x in integers, exactly, subtracts zero * sum(x), is multiplied by
//         both scales and joins the total. Every instruction set gets the same bits, so AMX takes
//         its tiles only where more rows come than one block of vectors has.
//
// The paged KV cache has panels that stand alone: f32, f16 and bf16 as above, and
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
inline constexpr int64_t kLineBytes = 64;  // that a panel has for one input, or for a few

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

enum class WeightType : uint8_t { kF32, kBF16, kF16, kInt8, kInt4 };
enum class ActivationType : uint8_t { kF32, kBF16, kInt8 };

// The largest group that int8 activations can have: 255 * 127 * 512 is below 2^24, so that the sum
// of a group is exact as a float.
inline constexpr int64_t kMaxInt8Group = 512;

// A packed matrix, y = W x + bias.
struct MatrixRef {
  WeightType type = WeightType::kF32;
  ActivationType activation = ActivationType::kF32;
  int64_t rows = 0;                     // outputs
  int64_t cols = 0;                     // inputs, as packed
  const unsigned char* data = nullptr;  // [panels][panel_bytes], interleaved by four
  int64_t panel_bytes = 0;
  // int8, int4:
  int64_t group = 0;         // inputs that share a scale
  int64_t groups = 0;        // ceil(cols / group)
  int64_t group_inputs = 0;  // inputs that a group has bytes for: `group`, rounded up to 8
  int64_t group_bytes = 0;   // of the q of a group of one panel
  int64_t group_stride = 0;  // with its scales and zeros
  // The activation that packed input c multiplies (GPTQ's act-order); null: activation c.
  const int32_t* columns = nullptr;  // [cols]
  const float* bias = nullptr;       // [rows], or null
};

// Rows of activations in the form that a matrix reads: elements of `type`, then what int8 and int4
// weights want to know of each group.
//   f32   [cols] float
//   bf16  [ceil(cols / 2) * 2] bf16, zero behind the last; [cols] float, rounded, where the
//         instruction set has no product for them
//   int8  [groups][group rounded up to 8] int8, zero behind the last of a group
struct Activations {
  const unsigned char* data = nullptr;
  int64_t stride = 0;  // bytes from row to row
  int64_t scales = 0;  // int8: where in a row [groups] float are, what one step is worth
  int64_t sums = 0;    // int8, or f32 for int4: where [groups] float are, the sum of the elements
};

// Puts rows of float activations into the form that `matrix` reads.
struct PrepareTask {
  const MatrixRef* matrix = nullptr;
  const float* x = nullptr;  // [*, x_stride]; row i is row x_rows[i] of x, or i when it is null
  int64_t x_stride = 0;
  const int32_t* x_rows = nullptr;
  int64_t row_begin = 0;
  int64_t row_end = 0;
  float* ordered = nullptr;      // [cols]: for a matrix with an order of its own
  Activations form;              // where things go in a row; its data is not looked at
  unsigned char* out = nullptr;  // [rows, form.stride]
};

// Where one worker keeps a tile, and the q of a tile of int4 as bytes.
struct GemmScratch {
  float* tile = nullptr;           // [2, kRowGroup, kTileWidth]
  unsigned char* bytes = nullptr;  // [kTilePanels, kUnpackBytes]
};

// Bytes of one panel that are unpacked at a time: 512 inputs, or one group.
inline constexpr int64_t kUnpackBytes = kLanes * 512;

enum class Epilogue : uint8_t {
  kStore,   // y = W x + bias
  kAdd,     // y += W x + bias
  kSwiGlu,  // y = silu(W x + bias) * (up x + up_bias)
};

// Panels [panel_begin, panel_end) of a matrix, whole tiles, for some rows of activations.
struct GemmTask {
  Epilogue epilogue = Epilogue::kStore;
  const MatrixRef* matrix = nullptr;
  const MatrixRef* up = nullptr;  // kSwiGlu: the second matrix, of the same shape
  int64_t panel_begin = 0;
  int64_t panel_end = 0;
  int64_t rows = 0;
  Activations x;                    // as `matrix` reads them
  Activations up_x;                 // as `up` reads them; often the same
  const int32_t* x_rows = nullptr;  // row i reads row x_rows[i] of x and up_x; null: row i
  float* y = nullptr;               // [rows, y_stride]
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
  float* scores = nullptr;   // [rows * group, kChunkTokens]
  uint16_t* bf16 = nullptr;  // [rows * group, head_dim]: queries for products of bf16
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
  bool bf16_products = false;  // bf16 activations are kept as bf16
  void (*prepare)(const PrepareTask& task) = nullptr;
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
namespace avx512_vnni {
extern const Kernels kKernels;
}
namespace avx512_bf16 {
extern const Kernels kKernels;
}
namespace amx {
extern const Kernels kKernels;
}

}  // namespace erne::cpu
