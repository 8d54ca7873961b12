// Products for few rows: bound by reading the weights once. See gemm.h.
//
// A block of 8 warps takes tiles (blockIdx.x, then every gridDim.x-th) for up to 64 rows, a warp
// one slice of the inputs. A warp walks the units of its slice in all tiles of the block as one
// stream through a ring in shared memory: groups of units, each with the activations that it
// multiplies. A lane copies and reads the same 16 bytes, so the ring needs no barrier (the scales
// of int4 units, which lanes share, need one of the warp). At the end of a tile the warps put their
// sums into shared memory, and they are added in the order of slices.
//
// Up to 8 rows are put into shared memory once, normed on the way where that is asked for; then the
// ring carries weights alone. Each warp does that for its slice.
//
// Bytes: each weight once for 64 rows; activations once per tile, from L2. Weights that fill the
// ring are on their way before the kernel ahead has finished.
#include <algorithm>

#include "executor/cuda/epilogue.cuh"
#include "executor/cuda/gemm_kernels.h"
#include "executor/cuda/launch.cuh"
#include "executor/cuda/tile_math.cuh"

namespace erne::cuda {
namespace {

constexpr int kWarps = kSlices;
constexpr int kThreads = kWarps * 32;

// kTiles groups of 8 rows. The ring is as deep as shared memory allows with two blocks or more on a
// multiprocessor; three groups of four bf16 units are a whole slice of 3072 inputs.
template <WeightKind kOfKind, int kOfTiles>
struct Shape {
  static constexpr WeightKind kKind = kOfKind;
  static constexpr int kTiles = kOfTiles;
  static constexpr int kRows = kTiles * 8;
  static constexpr int kPieces = PiecesOf(kKind);
  static constexpr int kInputs = UnitInputs(kKind);
  static constexpr bool kInt4 = kKind == WeightKind::kInt4;
  static constexpr int kBatch =  // units
      kInt4 ? (kTiles <= 2 ? 2 : 1)
            : (kTiles <= 2   ? 4
               : kTiles == 4 ? 2
                             : 1);
  static constexpr int kMostGroups = kTiles == 1 ? 3 : 2;
  static constexpr int kRowBytes = kTiles * kPieces * 512;  // activations of a unit
  static constexpr int kPartialFloats = kSlices * kRows * kTileRows;
};

// A row of staged activations in shared memory: 64 bytes more than its elements, so that the pieces
// of two neighbouring rows lie in different banks.
ERNE_HD constexpr int StagedStride(int units, int inputs) { return units * inputs + 32; }

// Bytes of a unit in the ring.
ERNE_HD constexpr int SlotBytes(int unit_bytes, int row_bytes, bool staged) {
  return unit_bytes + (staged ? 0 : row_bytes);
}

// Whether rows are staged. Experts are too many to know how many rows they have.
ERNE_HD inline bool IsStaged(const GemmArgs& args, int tiles) {
  return tiles == 1 && args.group_begin == nullptr;
}

// Groups of the ring: no more than a warp's stream has.
ERNE_HD constexpr int RingGroups(int units, int tiles, int batch, int most) {
  const int groups = ((units + kSlices - 1) / kSlices * tiles + batch - 1) / batch;
  return groups < most ? (groups > 0 ? groups : 1) : most;
}

// One unit of weights, by a warp.
template <typename S>
__device__ inline void CopyUnit(uint8_t* slot, const uint8_t* unit, int sets, int lane) {
  CopyAsync16(slot + lane * 16, unit + lane * 16);
  if (!S::kInt4 || lane < 6 * sets) CopyAsync16(slot + 512 + lane * 16, unit + 512 + lane * 16);
}

// A warp's stream of units: its slice of tile after tile.
struct UnitStream {
  const uint8_t* next = nullptr;
  int64_t tile_step = 0;  // from the end of the slice to its begin in the next tile
  int unit_bytes = 0;
  int per_tile = 0;  // units of the slice
  int left = 0;
  int in_tile = 0;

  __device__ void Advance() {
    --left;
    ++in_tile;
    next += unit_bytes;
    if (in_tile < per_tile) return;
    in_tile = 0;
    next += tile_step;
  }
};

// `count` elements of a row from `begin` on, normed and rounded, by one warp; multiples of 32.
// Beyond the row: zeros.
template <typename S>
__device__ void WriteNormed(const GemmArgs& args, const float* x, float scale, int begin, int count,
                            uint16_t* out, int lane) {
  constexpr bool kBf16 = S::kKind == WeightKind::kBF16;
#pragma unroll 8
  for (int i = begin + lane * 4; i < begin + count; i += 128) {
    const bool inside = i < args.w.inputs;
    const float4 zero = {0, 0, 0, 0};
    const float4 v = inside ? *reinterpret_cast<const float4*>(x + i) : zero;
    const float4 w = inside ? __ldg(reinterpret_cast<const float4*>(args.norm_weight + i)) : zero;
    *reinterpret_cast<uint2*>(out + i) = {
        PackPair<kBf16>(w.x * (v.x * scale), w.y * (v.y * scale)),
        PackPair<kBf16>(w.z * (v.z * scale), w.w * (v.w * scale))};
  }
}

// Copies of up to 8 rows: each warp's slice.
template <typename S>
__device__ void CopyRows(const GemmArgs& args, uint16_t* out, int warp, int lane) {
  const int begin = SliceBegin(args.w.units, warp) * S::kInputs;
  const int end = SliceBegin(args.w.units, warp + 1) * S::kInputs;
  for (int row = 0; row < args.rows; ++row) {
    const auto* x = static_cast<const uint16_t*>(args.x) + row * args.x_stride;
    uint16_t* to = out + row * StagedStride(args.w.units, S::kInputs);
    for (int i = begin + lane * 8; i < end; i += 256) CopyAsync16(to + i, x + i);
  }
  CommitCopies();
  WaitForCopies<0>();
  __syncwarp();
}

// RMSNorm of up to 8 rows into shared memory. One row: every warp computes the scale, and writes
// what its slice needs. More: a warp per row, then they meet.
template <typename S>
__device__ void NormRows(const GemmArgs& args, uint16_t* out, int warp, int lane) {
  const bool alone = args.rows == 1;
  const int row = alone ? 0 : warp;
  if (row < args.rows) {
    const int from = args.norm_rows == nullptr ? row : __ldg(args.norm_rows + row);
    const float* x = args.norm_x + from * args.norm_stride;
    const float scale = RmsScale(x, args.w.inputs, args.norm_eps, lane);
    const int begin = alone ? SliceBegin(args.w.units, warp) : 0;
    const int end = alone ? SliceBegin(args.w.units, warp + 1) : args.w.units;
    WriteNormed<S>(args, x, scale, begin * S::kInputs, (end - begin) * S::kInputs,
                   out + row * StagedStride(args.w.units, S::kInputs), lane);
  }
  if (alone) {
    __syncwarp();
  } else {
    __syncthreads();
  }
}

// What a block knows of itself.
struct Place {
  int lane, warp;
  int group = 0;      // expert
  int first_row = 0;  // of the group
  int rows = 0;       // of the group
  int row_block = 0;  // rows [kRows row_block, ...) of them
  bool waits = true;  // for the kernel ahead, once weights are on their way
};

// All tiles of the block for one block of rows.
template <typename S>
__device__ void RunRows(const GemmArgs& args, const Place& at, uint4* shared) {
  const int lane = at.lane;
  const bool is_normed = args.norm_x != nullptr;
  const bool is_staged = IsStaged(args, S::kTiles);
  const int unit_bytes = UnitBytes(S::kKind, args.w.sets);
  const int slot_bytes = SlotBytes(unit_bytes, S::kRowBytes, is_staged);
  const int first_tile = static_cast<int>(blockIdx.x);
  const int tile_step = static_cast<int>(gridDim.x);
  const int tiles = (args.w.tiles - first_tile + tile_step - 1) / tile_step;
  const int ring_groups = RingGroups(args.w.units, (args.w.tiles + tile_step - 1) / tile_step,
                                     S::kBatch, S::kMostGroups);
  auto* partial = reinterpret_cast<float*>(shared);  // [kSlices][kRows][kTileRows]
  auto* ring = reinterpret_cast<uint8_t*>(partial + S::kPartialFloats) +
               at.warp * ring_groups * S::kBatch * slot_bytes;
  auto* staged =
      reinterpret_cast<uint16_t*>(reinterpret_cast<uint8_t*>(partial + S::kPartialFloats) +
                                  kWarps * ring_groups * S::kBatch * slot_bytes);
  const int begin = SliceBegin(args.w.units, at.warp);
  const int64_t tile_bytes = int64_t{args.w.units} * unit_bytes;
  UnitStream stream;
  stream.per_tile = SliceBegin(args.w.units, at.warp + 1) - begin;
  stream.unit_bytes = unit_bytes;
  stream.next = args.w.data + at.group * args.group_bytes + first_tile * tile_bytes +
                static_cast<int64_t>(begin) * unit_bytes;
  stream.tile_step = tile_step * tile_bytes - int64_t{stream.per_tile} * unit_bytes;
  stream.left = stream.per_tile * tiles;
  const int first_in_ring = min(stream.left, ring_groups * S::kBatch);
  UnitStream ahead = stream;
  for (int i = 0; i < first_in_ring; ++i, ahead.Advance()) {
    CopyUnit<S>(ring + i * slot_bytes, ahead.next, args.w.sets, lane);
  }

  // With 8 rows a thread finishes at most one pair of outputs of a tile.
  constexpr bool kOnePair = S::kTiles == 1;
  const float* bias = args.w.bias == nullptr ? nullptr : args.w.bias + at.group * args.group_bias;
  const int my_r = static_cast<int>(threadIdx.x) % 8;
  const int my_row = static_cast<int>(threadIdx.x) / 8;
  const int rows_here = min(S::kRows, at.rows - at.row_block * S::kRows);
  const int row_base = at.first_row + at.row_block * S::kRows;
  const bool finishes = kOnePair && my_row < rows_here;
  Operands operands;
  if (finishes) LoadConstants(args.out, bias, first_tile, my_r, row_base + my_row, operands);
  if (is_normed && threadIdx.x * 32 < static_cast<unsigned>(args.w.inputs)) {
    Prefetch(args.norm_weight + threadIdx.x * 32);
  }
  if (at.waits) WaitForPrevious();

  // Activations: the pieces of lane 4 r + t are t of each 32 inputs of row r.
  const uint16_t* x[S::kTiles];
  if (!is_staged) {
#pragma unroll
    for (int j = 0; j < S::kTiles; ++j) {
      int row = row_base + min(j * 8 + lane / 4, rows_here - 1);
      if (args.x_rows != nullptr) row = args.x_rows[row];
      x[j] = static_cast<const uint16_t*>(args.x) + row * args.x_stride + begin * S::kInputs +
             lane % 4 * 8;
    }
  }
  const auto copy_rows = [&](uint8_t* slot, int unit) {
    if (is_staged) return;
#pragma unroll
    for (int j = 0; j < S::kTiles; ++j) {
#pragma unroll
      for (int p = 0; p < S::kPieces; ++p) {
        CopyAsync16(slot + unit_bytes + (j * S::kPieces + p) * 512 + lane * 16,
                    x[j] + unit * S::kInputs + p * 32);
      }
    }
  };
  ahead = stream;
  for (int g = 0; g < S::kMostGroups; ++g) {
    if (g < ring_groups) {
      for (int i = g * S::kBatch; i < min(first_in_ring, (g + 1) * S::kBatch);
           ++i, ahead.Advance()) {
        copy_rows(ring + i * slot_bytes, ahead.in_tile);
      }
    }
    CommitCopies();
  }
  if (is_staged) {
    if (is_normed) {
      NormRows<S>(args, staged, at.warp, lane);
    } else {
      CopyRows<S>(args, staged, at.warp, lane);
    }
  }
  const uint16_t* staged_row =
      staged + min(lane / 4, rows_here - 1) * StagedStride(args.w.units, S::kInputs) +
      begin * S::kInputs + lane % 4 * 8;

  uint8_t* slot = ring;
  uint8_t* const ring_end = ring + ring_groups * S::kBatch * slot_bytes;
  int in_group = 0;
  for (int t = 0; t < tiles; ++t) {
    const int tile = first_tile + t * tile_step;
    if (finishes) {
      if (t > 0) LoadConstants(args.out, bias, tile, my_r, row_base + my_row, operands);
      LoadResults(args.out, tile, my_r, row_base + my_row, operands);
    }
    float sums[S::kTiles][4] = {};
    for (int u = 0; u < stream.per_tile; ++u) {
      if (in_group == 0) {
        WaitForCopies<S::kMostGroups - 1>();
        if (S::kInt4) __syncwarp();
      }
      uint4 pieces[S::kTiles][S::kPieces];
      if (is_staged) {
#pragma unroll
        for (int p = 0; p < S::kPieces; ++p) {
          pieces[0][p] = *reinterpret_cast<const uint4*>(staged_row + u * S::kInputs + p * 32);
        }
      } else {
#pragma unroll
        for (int j = 0; j < S::kTiles; ++j) {
#pragma unroll
          for (int p = 0; p < S::kPieces; ++p) {
            pieces[j][p] = *reinterpret_cast<const uint4*>(slot + unit_bytes +
                                                           (j * S::kPieces + p) * 512 + lane * 16);
          }
        }
      }
      MultiplyUnit<S::kKind, S::kTiles>(slot, args.w.sets, lane, pieces, sums);
      slot += slot_bytes;
      if (++in_group < S::kBatch) continue;
      // The group is read: what comes ring_groups later takes its place.
      in_group = 0;
      if (ahead.left > 0) {
        if (S::kInt4) __syncwarp();
        uint8_t* to = slot - S::kBatch * slot_bytes;
        for (int i = 0; i < S::kBatch && ahead.left > 0; ++i, to += slot_bytes, ahead.Advance()) {
          CopyUnit<S>(to, ahead.next, args.w.sets, lane);
          copy_rows(to, ahead.in_tile);
        }
      }
      CommitCopies();
      if (slot == ring_end) slot = ring;
    }
#pragma unroll
    for (int j = 0; j < S::kTiles; ++j) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int row = j * 8 + lane % 4 * 2 + i % 2;
        partial[(at.warp * S::kRows + row) * kTileRows + lane / 4 + i / 2 * 8] = sums[j][i];
      }
    }
    __syncthreads();
    const auto add_up = [&](int r, int row, float& first, float& second) {
      first = second = 0;
#pragma unroll
      for (int s = 0; s < kSlices; ++s) {
        const float* sum = partial + (s * S::kRows + row) * kTileRows + r;
        first += sum[0];
        second += sum[8];
      }
    };
    if constexpr (kOnePair) {
      if (finishes) {
        float first;
        float second;
        add_up(my_r, my_row, first, second);
        Finish(args.out, operands, tile, my_r, row_base + my_row, first, second);
      }
    } else {
      FinishBlock<kThreads, 1>(
          args.out, bias, tile, 1, row_base, rows_here,
          [&](int, int r, int row, float& first, float& second) { add_up(r, row, first, second); });
    }
    __syncthreads();
  }
}

template <WeightKind kKind, int kTiles>
__global__ void __launch_bounds__(kThreads, kTiles == 1                                 ? 3
                                            : kTiles == 8 && kKind == WeightKind::kInt4 ? 1
                                                                                        : 2)
    FewRows(const __grid_constant__ GemmArgs args) {
  using S = Shape<kKind, kTiles>;
  extern __shared__ uint4 shared[];
  TriggerDependents();
  Place at;
  at.lane = static_cast<int>(threadIdx.x) % 32;
  at.warp = static_cast<int>(threadIdx.x) / 32;
  at.rows = args.rows;
  at.row_block = static_cast<int>(blockIdx.z);
  if (args.group_begin == nullptr) {
    RunRows<S>(args, at, shared);
    return;
  }
  WaitForPrevious();  // the router has to be through before weights are worth reading
  at.waits = false;
  at.group = static_cast<int>(blockIdx.y);
  at.first_row = args.group_begin[at.group];
  at.rows = args.group_begin[at.group + 1] - at.first_row;
  for (at.row_block = 0; at.row_block * S::kRows < at.rows; ++at.row_block) {
    RunRows<S>(args, at, shared);
  }
}

// Blocks of tiles: more of them than fit at once would only wait, so each takes its share then.
int TileBlocks(const Stream& stream, const GemmArgs& args) {
  const int most = 2 * stream.processors;
  return args.group_begin != nullptr || args.w.tiles <= 3 * most ? args.w.tiles : most;
}

template <WeightKind kKind, int kTiles>
size_t SharedBytes(const Stream& stream, const GemmArgs& args) {
  using S = Shape<kKind, kTiles>;
  const bool is_staged = IsStaged(args, kTiles);
  const int blocks = TileBlocks(stream, args);
  const int groups =
      RingGroups(args.w.units, (args.w.tiles + blocks - 1) / blocks, S::kBatch, S::kMostGroups);
  const int slot = SlotBytes(UnitBytes(kKind, args.w.sets), S::kRowBytes, is_staged);
  size_t bytes = size_t{S::kPartialFloats} * sizeof(float);
  bytes += static_cast<size_t>(kWarps * groups * S::kBatch) * static_cast<size_t>(slot);
  if (is_staged) bytes += size_t{2} * args.rows * StagedStride(args.w.units, S::kInputs);
  return bytes;
}

template <WeightKind kKind, int kTiles>
cudaError_t LaunchTiles(Stream& stream, const GemmArgs& args) {
  const unsigned row_blocks = args.group_begin != nullptr ? 1 : CeilDiv(args.rows, kTiles * 8);
  const dim3 grid(static_cast<unsigned>(TileBlocks(stream, args)),
                  static_cast<unsigned>(args.groups), row_blocks);
  return Launch(stream, FewRows<kKind, kTiles>, grid, kThreads,
                SharedBytes<kKind, kTiles>(stream, args), args);
}

template <WeightKind kKind>
cudaError_t LaunchKind(Stream& stream, const GemmArgs& args) {
  // Where a block cannot have what 64 rows take, it takes 32.
  const auto shared = static_cast<size_t>(stream.shared_bytes);
  if (args.rows <= 8 && SharedBytes<kKind, 1>(stream, args) <= shared) {
    return LaunchTiles<kKind, 1>(stream, args);
  }
  if (args.rows <= 16) return LaunchTiles<kKind, 2>(stream, args);
  if (args.rows <= 32 || SharedBytes<kKind, 8>(stream, args) > shared) {
    return LaunchTiles<kKind, 4>(stream, args);
  }
  return LaunchTiles<kKind, 8>(stream, args);
}

template <WeightKind kKind>
cudaError_t PrepareKind(int shared_bytes) {
  for (const void* kernel : {reinterpret_cast<const void*>(FewRows<kKind, 1>),
                             reinterpret_cast<const void*>(FewRows<kKind, 2>),
                             reinterpret_cast<const void*>(FewRows<kKind, 4>),
                             reinterpret_cast<const void*>(FewRows<kKind, 8>)}) {
    const cudaError_t error =
        cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared_bytes);
    if (error != cudaSuccess) return error;
  }
  return cudaSuccess;
}

}  // namespace

cudaError_t LaunchFewRows(Stream& stream, const GemmArgs& args) {
  switch (args.w.kind) {
    case WeightKind::kBF16:
      return LaunchKind<WeightKind::kBF16>(stream, args);
    case WeightKind::kF16:
      return LaunchKind<WeightKind::kF16>(stream, args);
    case WeightKind::kInt4:
      return LaunchKind<WeightKind::kInt4>(stream, args);
    case WeightKind::kF32:
      break;
  }
  return cudaErrorInvalidValue;
}

cudaError_t PrepareFewRows(int shared_bytes) {
  cudaError_t error = PrepareKind<WeightKind::kBF16>(shared_bytes);
  if (error == cudaSuccess) error = PrepareKind<WeightKind::kF16>(shared_bytes);
  if (error == cudaSuccess) error = PrepareKind<WeightKind::kInt4>(shared_bytes);
  return error;
}

bool CanFuseNorm(const Stream& stream, const MatrixView& w, int rows) {
  if (w.kind == WeightKind::kF32 || rows > kMostNormRows) return false;
  GemmArgs args;
  static constexpr float kSome = 0;
  args.w = w;
  args.rows = rows;
  args.norm_x = &kSome;
  const size_t bytes = w.kind == WeightKind::kInt4
                           ? SharedBytes<WeightKind::kInt4, 1>(stream, args)
                           : SharedBytes<WeightKind::kBF16, 1>(stream, args);
  return bytes <= static_cast<size_t>(stream.shared_bytes);
}

}  // namespace erne::cuda
