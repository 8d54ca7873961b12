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

// What one warp does for all tiles of its block and one block of rows.
template <typename S>
struct Walk {
  // With 8 rows a thread finishes at most one pair of outputs of a tile.
  static constexpr bool kOnePair = S::kTiles == 1;

  const GemmArgs& args;
  const Place& at;
  bool is_staged;
  int unit_bytes, slot_bytes, ring_groups;
  int first_tile, tile_step, tiles;  // of the block
  int rows_here, row_base;           // the rows are row_base, ... of all
  float* partial;                    // [kSlices][kRows][kTileRows]
  uint8_t* ring;                     // of this warp
  uint16_t* staged;                  // [rows][StagedStride]
  const float* bias;
  UnitStream stream;             // from its begin
  UnitStream ahead;              // from the first unit that is not in the ring yet
  const uint16_t* x[S::kTiles];  // this lane's pieces of the slice, for each group of 8 rows
  uint8_t* slot;                 // of the next unit to multiply
  int in_group = 0;              // its place in its group

  __device__ Walk(const GemmArgs& job, const Place& place, uint4* shared) : args(job), at(place) {
    is_staged = IsStaged(args, S::kTiles);
    unit_bytes = UnitBytes(S::kKind, args.w.sets);
    slot_bytes = SlotBytes(unit_bytes, S::kRowBytes, is_staged);
    first_tile = static_cast<int>(blockIdx.x);
    tile_step = static_cast<int>(gridDim.x);
    tiles = (args.w.tiles - first_tile + tile_step - 1) / tile_step;
    ring_groups = RingGroups(args.w.units, (args.w.tiles + tile_step - 1) / tile_step, S::kBatch,
                             S::kMostGroups);
    rows_here = min(S::kRows, at.rows - at.row_block * S::kRows);
    row_base = at.first_row + at.row_block * S::kRows;
    partial = reinterpret_cast<float*>(shared);
    auto* rings = reinterpret_cast<uint8_t*>(partial + S::kPartialFloats);
    slot = ring = rings + at.warp * RingBytes();
    staged = reinterpret_cast<uint16_t*>(rings + kWarps * RingBytes());
    bias = args.w.bias == nullptr ? nullptr : args.w.bias + at.group * args.group_bias;
    const int begin = SliceBegin(args.w.units, at.warp);
    const int64_t tile_bytes = int64_t{args.w.units} * unit_bytes;
    stream.per_tile = SliceBegin(args.w.units, at.warp + 1) - begin;
    stream.unit_bytes = unit_bytes;
    stream.next = args.w.data + at.group * args.group_bytes + first_tile * tile_bytes +
                  static_cast<int64_t>(begin) * unit_bytes;
    stream.tile_step = tile_step * tile_bytes - int64_t{stream.per_tile} * unit_bytes;
    stream.left = stream.per_tile * tiles;
  }

  __device__ int RingBytes() const { return ring_groups * S::kBatch * slot_bytes; }
  __device__ int FirstInRing() const { return min(stream.left, ring_groups * S::kBatch); }

  // Fills the ring with weights, which no kernel writes.
  __device__ void FillWeights() {
    ahead = stream;
    for (int i = 0; i < FirstInRing(); ++i, ahead.Advance()) {
      CopyUnit<S>(ring + i * slot_bytes, ahead.next, args.w.sets, at.lane);
    }
  }

  // The pieces of lane 4 r + t are t of each 32 inputs of row r.
  __device__ void FindRows() {
    const int begin = SliceBegin(args.w.units, at.warp) * S::kInputs + at.lane % 4 * 8;
    if (is_staged) {
      x[0] =
          staged + min(at.lane / 4, rows_here - 1) * StagedStride(args.w.units, S::kInputs) + begin;
      return;
    }
#pragma unroll
    for (int j = 0; j < S::kTiles; ++j) {
      int row = row_base + min(j * 8 + at.lane / 4, rows_here - 1);
      if (args.x_rows != nullptr) row = args.x_rows[row];
      x[j] = static_cast<const uint16_t*>(args.x) + row * args.x_stride + begin;
    }
  }

  // Where piece p of the j-th group of rows lies behind a unit's weights.
  __device__ uint8_t* PieceOf(uint8_t* unit_slot, int j, int p) const {
    return unit_slot + unit_bytes + (j * S::kPieces + p) * 512 + at.lane * 16;
  }

  __device__ void CopyPieces(uint8_t* unit_slot, int unit) const {
    if (is_staged) return;
#pragma unroll
    for (int j = 0; j < S::kTiles; ++j) {
#pragma unroll
      for (int p = 0; p < S::kPieces; ++p) {
        CopyAsync16(PieceOf(unit_slot, j, p), x[j] + unit * S::kInputs + p * 32);
      }
    }
  }

  // Activations: those of the units in the ring, a group at a time, or all of them.
  __device__ void FillRows() {
    UnitStream units = stream;
    for (int g = 0; g < S::kMostGroups; ++g) {
      const int end = g < ring_groups ? min(FirstInRing(), (g + 1) * S::kBatch) : 0;
      for (int i = g * S::kBatch; i < end; ++i, units.Advance()) {
        CopyPieces(ring + i * slot_bytes, units.in_tile);
      }
      CommitCopies();
    }
    if (!is_staged) return;
    if (args.norm_x != nullptr) {
      NormRows<S>(args, staged, at.warp, at.lane);
    } else {
      CopyRows<S>(args, staged, at.warp, at.lane);
    }
  }

  // Unit u of the slice.
  __device__ void Multiply(int u, float (&sums)[S::kTiles][4]) {
    if (in_group == 0) {
      WaitForCopies<S::kMostGroups - 1>();
      if (S::kInt4) __syncwarp();
    }
    uint4 pieces[S::kTiles][S::kPieces];
#pragma unroll
    for (int j = 0; j < S::kTiles; ++j) {
#pragma unroll
      for (int p = 0; p < S::kPieces; ++p) {
        pieces[j][p] = is_staged ? *reinterpret_cast<const uint4*>(x[j] + u * S::kInputs + p * 32)
                                 : *reinterpret_cast<const uint4*>(PieceOf(slot, j, p));
      }
    }
    MultiplyUnit<S::kKind, S::kTiles>(slot, args.w.sets, at.lane, pieces, sums);
    slot += slot_bytes;
    if (++in_group == S::kBatch) Refill();
  }

  // The group before `slot` is read: what comes ring_groups later takes its place.
  __device__ void Refill() {
    in_group = 0;
    if (ahead.left > 0) {
      if (S::kInt4) __syncwarp();
      uint8_t* to = slot - S::kBatch * slot_bytes;
      for (int i = 0; i < S::kBatch && ahead.left > 0; ++i, to += slot_bytes, ahead.Advance()) {
        CopyUnit<S>(to, ahead.next, args.w.sets, at.lane);
        CopyPieces(to, ahead.in_tile);
      }
    }
    CommitCopies();
    if (slot == ring + RingBytes()) slot = ring;
  }

  __device__ void PutSums(const float (&sums)[S::kTiles][4]) const {
#pragma unroll
    for (int j = 0; j < S::kTiles; ++j) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int row = j * 8 + at.lane % 4 * 2 + i % 2;
        partial[(at.warp * S::kRows + row) * kTileRows + at.lane / 4 + i / 2 * 8] = sums[j][i];
      }
    }
  }
  // The pair r, r + 8 of a row: the slices' sums in order.
  __device__ void AddUp(int r, int row, float& first, float& second) const {
    first = second = 0;
#pragma unroll
    for (int s = 0; s < kSlices; ++s) {
      const float* sum = partial + (s * S::kRows + row) * kTileRows + r;
      first += sum[0];
      second += sum[8];
    }
  }
};

// All tiles of the block for one block of rows.
template <typename S>
__device__ void RunRows(const GemmArgs& args, const Place& at, uint4* shared) {
  Walk<S> walk(args, at, shared);
  walk.FillWeights();
  const int my_r = static_cast<int>(threadIdx.x) % 8;
  const int my_row = static_cast<int>(threadIdx.x) / 8;
  const bool finishes = Walk<S>::kOnePair && my_row < walk.rows_here;
  Operands operands;
  if (finishes) {
    LoadConstants(args.out, walk.bias, walk.first_tile, my_r, walk.row_base + my_row, operands);
  }
  if (args.norm_x != nullptr && threadIdx.x * 32 < static_cast<unsigned>(args.w.inputs)) {
    Prefetch(args.norm_weight + threadIdx.x * 32);
  }
  if (at.waits) WaitForPrevious();
  walk.FindRows();
  walk.FillRows();
  for (int t = 0; t < walk.tiles; ++t) {
    const int tile = walk.first_tile + t * walk.tile_step;
    if (finishes) {
      const int row = walk.row_base + my_row;
      if (t > 0) LoadConstants(args.out, walk.bias, tile, my_r, row, operands);
      LoadResults(args.out, tile, my_r, row, operands);
    }
    float sums[S::kTiles][4] = {};
    for (int u = 0; u < walk.stream.per_tile; ++u) walk.Multiply(u, sums);
    walk.PutSums(sums);
    __syncthreads();
    if constexpr (Walk<S>::kOnePair) {
      if (finishes) {
        float first;
        float second;
        walk.AddUp(my_r, my_row, first, second);
        Finish(args.out, operands, tile, my_r, walk.row_base + my_row, first, second);
      }
    } else {
      FinishBlock<kThreads, 1>(args.out, walk.bias, tile, 1, walk.row_base, walk.rows_here,
                               [&](int, int r, int row, float& first, float& second) {
                                 walk.AddUp(r, row, first, second);
                               });
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
