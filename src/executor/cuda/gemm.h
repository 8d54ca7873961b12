// Products with packed weights: y = W x + bias for some rows of activations, with what belongs to
// the result done on the way out.
//
// One arithmetic per kind of weights. The inputs are cut into kSlices slices (layout.h); within a
// slice the instructions follow each other unit by unit; the slices are added in order. So what a
// row gives depends on the matrix and the row alone. Two kernels do it:
//   few rows   a block takes one tile (16 outputs) and up to 64 rows, each of its 8 warps a slice.
//              Weights stream through a ring in shared memory that is filled before the kernel
//              waits for the one ahead of it.
//   many rows  a block takes 8 tiles x 64 or 128 rows, staged in shared memory, and walks the
//              slices one after the other.
// float32 weights have a kernel of their own: scalar fused multiply-adds, for small models and
// routers.
#pragma once

#include <cstdint>

#include <cuda_runtime_api.h>

#include "executor/cuda/layout.h"
#include "kv/kv_dtype.h"

namespace erne::cuda {

// A packed matrix on the device. Copied into kernels.
struct MatrixView {
  WeightKind kind = WeightKind::kF32;
  int sets = 0;                   // int4: sets of scales in a unit
  int tiles = 0;                  // of 16 outputs, the last one padded with zeros
  int units = 0;                  // of a tile
  int inputs = 0;                 // without padding
  const uint8_t* data = nullptr;  // [tiles][units][UnitBytes]
  const float* bias = nullptr;    // [tiles * 16] in packed order, or null
};

// Keys and values of one layer.
struct KvView {
  KvDType dtype = KvDType::kF32;
  int kv_heads = 0;
  int head_dim = 0;
  int dim = 0;              // padded
  uint8_t* data = nullptr;  // [blocks][kv_heads][KvHeadBytes]
};

enum class Epilogue : uint8_t {
  kStore,   // out = y, float32
  kAdd,     // out += y, float32
  kSwiGlu,  // out = silu(first) * second: rows packed as kGate, kUp
  kQkv,     // rotates q and k, writes q, and k and v into the cache: rows packed as rope pairs
};

struct EpilogueArgs {
  Epilogue kind = Epilogue::kStore;
  ActivationType type = ActivationType::kF32;  // of out (kSwiGlu) or q (kQkv)
  bool interleaved = false;                    // kQkv: rope style
  int heads = 0;                               // kQkv
  int outputs = 0;                             // kStore, kAdd: of the matrix; kSwiGlu: of each part
  void* out = nullptr;                         // [rows, stride]
  int64_t stride = 0;
  KvView kv;                           // kQkv
  const float2* angles = nullptr;      // kQkv: cos and sin [positions, head_dim / 2]
  const int32_t* positions = nullptr;  // kQkv: [rows]
  const int32_t* slots = nullptr;      // kQkv: [rows], block * 16 + offset in it
};

struct GemmArgs {
  MatrixView w;
  int rows = 0;
  const void* x = nullptr;          // [*, x_stride], of ActivationOf(w.kind)
  int64_t x_stride = 0;             // elements, a multiple of kActivationPad
  const int32_t* x_rows = nullptr;  // row i reads row x_rows[i]; null: row i
  // RMSNorm on the way in (x is unused then), where CanFuseNorm. [rows, norm_stride]
  const float* norm_x = nullptr;
  const int32_t* norm_rows = nullptr;  // of the plan: row i reads row norm_rows[i]; null: row i
  int64_t norm_stride = 0;
  const float* norm_weight = nullptr;  // [inputs]
  float norm_eps = 0;
  // Experts: `groups` matrices of the same shape, `group_bytes` (and `group_bias` floats) apart;
  // group g has the rows [group_begin[g], group_begin[g + 1]). `rows` is the most there can be.
  int groups = 1;
  const int32_t* group_begin = nullptr;  // on the device; null: no groups
  int64_t group_bytes = 0;
  int64_t group_bias = 0;
  EpilogueArgs out;
};

// Rows up to which a product can take its norm along.
inline constexpr int kMostNormRows = 8;

// What a launch needs to know of the device.
struct Stream {
  cudaStream_t stream = nullptr;
  int processors = 1;            // multiprocessors
  int shared_bytes = 48 * 1024;  // that a block can have
  bool dependent = false;        // programmatic dependent launch, compute capability 9.0 on
  bool follows_kernel = false;   // whether a kernel was launched last, which then may be overlapped
};

// Whether a product of so many rows can take its norm along (GemmArgs::norm_x).
bool CanFuseNorm(const Stream& stream, const MatrixView& w, int rows);

// Enqueues the product. `rows` > 0.
cudaError_t LaunchGemm(Stream& stream, const GemmArgs& args);
// Once per process and device, before the first launch: shared memory beyond 48 KiB is asked for.
cudaError_t PrepareGemm(int shared_bytes);

}  // namespace erne::cuda
