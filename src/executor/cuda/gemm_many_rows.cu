// Products for many rows: bound by arithmetic. See gemm.h.
//
// A block of 8 warps takes 8 tiles (128 outputs) and 128 rows (int4: 64), laid out as 2 x 4 warps
// of 4 tiles and a quarter of the rows each. Units of weights, already in the order of registers,
// and the same inputs of the activations go through kStages stages of shared memory; the first
// weights are on their way before the kernel ahead has finished. 64 bytes (a plane: 32 inputs) of a
// row of activations are read by 8 rows at once, which leaves no bank idle or asked twice.
//
// The slices of the inputs are walked in order: at the end of each its sums are added to the
// totals, just as the kernel for few rows adds those of its warps. The totals lie in shared memory,
// where each lane keeps its own: that leaves registers for two blocks on a multiprocessor, one of
// which computes while the other one begins or ends.
#include "executor/cuda/epilogue.cuh"
#include "executor/cuda/gemm_kernels.h"
#include "executor/cuda/launch.cuh"
#include "executor/cuda/tile_math.cuh"

namespace erne::cuda {
namespace {

constexpr int kThreads = 128;

template <WeightKind kOfKind>
struct Shape {
  static constexpr WeightKind kKind = kOfKind;
  static constexpr int kTileWarps = 2;
  static constexpr int kWarpTiles = 4;
  static constexpr int kRowWarps = 2;
  // Groups of 8 rows of a warp. int4 needs another set of sums, for runs with the same scale.
  static constexpr int kWarpRows = kKind == WeightKind::kInt4 ? 4 : 8;
  static constexpr int kStages = 3;
  static_assert(kTileWarps * kRowWarps * 32 == kThreads);
  static constexpr int kTiles = kTileWarps * kWarpTiles;
  static constexpr int kRows = kRowWarps * kWarpRows * 8;
  static constexpr int kPlanes = PiecesOf(kKind);
  static constexpr int kMostUnitBytes = UnitBytes(kKind, 2);
  static constexpr int kWeightCopies =  // of 16 bytes, per thread and unit
      (kTiles * kMostUnitBytes / 16 + kThreads - 1) / kThreads;
  static constexpr int kRowBytes = kRows * UnitInputs(kKind) * 2;  // of a unit
  static constexpr int kRowCopies = kRowBytes / 16 / kThreads;
  static_assert(kRowCopies * kThreads * 16 == kRowBytes);
  static constexpr int kStageBytes = kTiles * kMostUnitBytes + kRowBytes;
  static constexpr int kTotalBytes = kTiles * kTileRows * kRows * 4;
  static constexpr int kSharedBytes = kTotalBytes + kStages * kStageBytes;
};

// What a thread copies: always the same pieces of a unit.
template <typename S>
struct Loader {
  const uint8_t* weights[S::kWeightCopies];
  int weight_at[S::kWeightCopies];  // in the stage; negative: nothing
  const uint16_t* rows[S::kRowCopies];
  int unit_bytes;

  __device__ Loader(const GemmArgs& args, int first_tile, int first_row) {
    const int thread = static_cast<int>(threadIdx.x);
    unit_bytes = UnitBytes(S::kKind, args.w.sets);
    const int pieces = unit_bytes / 16;
    const int64_t tile_bytes = int64_t{args.w.units} * unit_bytes;
#pragma unroll
    for (int i = 0; i < S::kWeightCopies; ++i) {
      const int piece = i * kThreads + thread;
      const int tile = piece / pieces;
      const int at = piece % pieces * 16;
      const bool exists = tile < S::kTiles && first_tile + tile < args.w.tiles;
      weights[i] = args.w.data + (exists ? first_tile + tile : 0) * tile_bytes + at;
      weight_at[i] = exists ? tile * unit_bytes + at : -1;
    }
#pragma unroll
    for (int i = 0; i < S::kRowCopies; ++i) {
      // Piece p of a plane is piece p % 4 of row p / 4.
      const int piece = i * kThreads + thread;
      const int plane = piece / (S::kRows * 4);
      const int row = min(first_row + piece % (S::kRows * 4) / 4, args.rows - 1);
      rows[i] =
          static_cast<const uint16_t*>(args.x) + row * args.x_stride + plane * 32 + piece % 4 * 8;
    }
  }

  __device__ void CopyWeights(uint8_t* stage, int unit) const {
#pragma unroll
    for (int i = 0; i < S::kWeightCopies; ++i) {
      if (weight_at[i] >= 0) {
        CopyAsync16(stage + weight_at[i], weights[i] + static_cast<int64_t>(unit) * unit_bytes);
      }
    }
  }
  __device__ void CopyRows(uint8_t* stage, int unit) const {
    uint8_t* x = stage + S::kTiles * S::kMostUnitBytes;
#pragma unroll
    for (int i = 0; i < S::kRowCopies; ++i) {
      CopyAsync16(x + (i * kThreads + static_cast<int>(threadIdx.x)) * 16,
                  rows[i] + unit * UnitInputs(S::kKind));
    }
  }
};

template <typename S>
__device__ inline void MultiplyStage(const uint8_t* stage, int sets, int tile_begin, int row_begin,
                                     int lane, float (&sums)[S::kWarpTiles][S::kWarpRows][4]) {
  const int unit_bytes = UnitBytes(S::kKind, sets);
  const auto* x = reinterpret_cast<const uint4*>(stage + S::kTiles * S::kMostUnitBytes);
  uint4 pieces[S::kWarpRows][S::kPlanes];
#pragma unroll
  for (int j = 0; j < S::kWarpRows; ++j) {
#pragma unroll
    for (int p = 0; p < S::kPlanes; ++p) {
      pieces[j][p] = x[p * S::kRows * 4 + (row_begin + j * 8) * 4 + lane];
    }
  }
#pragma unroll
  for (int i = 0; i < S::kWarpTiles; ++i) {
    MultiplyUnit<S::kKind, S::kWarpRows>(stage + (tile_begin + i) * unit_bytes, sets, lane, pieces,
                                         sums[i]);
  }
}

// Totals of a block: a float4 for each warp, tile, group of 8 rows and lane, in this order.
template <typename S>
__device__ inline int TotalIndex(int warp, int i, int j, int lane) {
  return ((warp * S::kWarpTiles + i) * S::kWarpRows + j) * 32 + lane;
}

// totals += sums, sums = 0. First: totals = 0 + sums, as the sum of slices begins.
template <typename S>
__device__ inline void EndSlice(float4* totals, int warp, int lane, bool first,
                                float (&sums)[S::kWarpTiles][S::kWarpRows][4]) {
#pragma unroll
  for (int i = 0; i < S::kWarpTiles; ++i) {
#pragma unroll
    for (int j = 0; j < S::kWarpRows; ++j) {
      float4& total = totals[TotalIndex<S>(warp, i, j, lane)];
      const float4 before = first ? float4{0, 0, 0, 0} : total;
      float(&sum)[4] = sums[i][j];
      total = {before.x + sum[0], before.y + sum[1], before.z + sum[2], before.w + sum[3]};
      sum[0] = sum[1] = sum[2] = sum[3] = 0;
    }
  }
}

template <typename S>
__global__ void __launch_bounds__(kThreads, 2) ManyRows(const __grid_constant__ GemmArgs args) {
  extern __shared__ uint4 shared[];
  auto* totals = reinterpret_cast<float4*>(shared);
  auto* stages = reinterpret_cast<uint8_t*>(shared) + S::kTotalBytes;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int first_tile = static_cast<int>(blockIdx.y) * S::kTiles;
  const int first_row = static_cast<int>(blockIdx.x) * S::kRows;
  const int units = args.w.units;
  TriggerDependents();
  const Loader<S> loader(args, first_tile, first_row);
  for (int s = 0; s < S::kStages - 1 && s < units; ++s) {
    loader.CopyWeights(stages + s * S::kStageBytes, s);
  }
  WaitForPrevious();
  for (int s = 0; s < S::kStages - 1; ++s) {
    if (s < units) loader.CopyRows(stages + s * S::kStageBytes, s);
    CommitCopies();
  }

  const int tile_begin = warp / S::kRowWarps * S::kWarpTiles;
  const int row_begin = warp % S::kRowWarps * S::kWarpRows * 8;
  float sums[S::kWarpTiles][S::kWarpRows][4] = {};
  int stage = 0;
  int fill = S::kStages - 1;  // the stage that is free
  int unit = 0;
  for (int slice = 0; slice < kSlices; ++slice) {
    const int end = SliceBegin(units, slice + 1);
    for (; unit < end; ++unit) {
      WaitForCopies<S::kStages - 2>();
      __syncthreads();
      const int ahead = unit + S::kStages - 1;
      if (ahead < units) {
        loader.CopyWeights(stages + fill * S::kStageBytes, ahead);
        loader.CopyRows(stages + fill * S::kStageBytes, ahead);
      }
      CommitCopies();
      MultiplyStage<S>(stages + stage * S::kStageBytes, args.w.sets, tile_begin, row_begin, lane,
                       sums);
      stage = stage + 1 == S::kStages ? 0 : stage + 1;
      fill = fill + 1 == S::kStages ? 0 : fill + 1;
    }
    EndSlice<S>(totals, warp, lane, slice == 0, sums);
  }
  __syncthreads();
  FinishBlock<kThreads, S::kTiles>(
      args.out, args.w.bias, first_tile, min(S::kTiles, args.w.tiles - first_tile), first_row,
      min(S::kRows, args.rows - first_row),
      [&](int tile, int r, int row, float& first, float& second) {
        constexpr int kWarpRowCount = S::kWarpRows * 8;
        const int of_warp = tile / S::kWarpTiles * S::kRowWarps + row / kWarpRowCount;
        const int index = TotalIndex<S>(of_warp, tile % S::kWarpTiles, row % kWarpRowCount / 8,
                                        r * 4 + row % 8 / 2);
        const float* sum = reinterpret_cast<const float*>(totals + index) + row % 2;
        first = sum[0];
        second = sum[2];
      });
}

template <WeightKind kKind>
cudaError_t LaunchKind(Stream& stream, const GemmArgs& args) {
  using S = Shape<kKind>;
  const dim3 grid(CeilDiv(args.rows, S::kRows), CeilDiv(args.w.tiles, S::kTiles));
  return Launch(stream, ManyRows<S>, grid, kThreads, S::kSharedBytes, args);
}

// Whether there are rows enough: a quarter of the device beats reading the weights once for each 64
// rows.
template <WeightKind kKind>
bool IsForManyRows(const Stream& stream, const GemmArgs& args) {
  using S = Shape<kKind>;
  if (S::kSharedBytes > stream.shared_bytes || args.group_begin != nullptr) return false;
  const int64_t blocks = int64_t{CeilDiv(args.rows, S::kRows)} * CeilDiv(args.w.tiles, S::kTiles);
  return args.rows > 64 && blocks >= stream.processors / 4;
}

bool IsForManyRows(const Stream& stream, const GemmArgs& args) {
  return args.w.kind == WeightKind::kInt4 ? IsForManyRows<WeightKind::kInt4>(stream, args)
                                          : IsForManyRows<WeightKind::kBF16>(stream, args);
}

template <WeightKind kKind>
cudaError_t PrepareKind(int shared_bytes) {
  using S = Shape<kKind>;
  if (S::kSharedBytes > shared_bytes) return cudaSuccess;  // never launched then
  return cudaFuncSetAttribute(ManyRows<S>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                              S::kSharedBytes);
}

}  // namespace

cudaError_t LaunchManyRows(Stream& stream, const GemmArgs& args) {
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

cudaError_t PrepareManyRows(int shared_bytes) {
  cudaError_t error = PrepareKind<WeightKind::kBF16>(shared_bytes);
  if (error == cudaSuccess) error = PrepareKind<WeightKind::kF16>(shared_bytes);
  if (error == cudaSuccess) error = PrepareKind<WeightKind::kInt4>(shared_bytes);
  return error;
}

cudaError_t PrepareGemm(int shared_bytes) {
  const cudaError_t error = PrepareFewRows(shared_bytes);
  return error == cudaSuccess ? PrepareManyRows(shared_bytes) : error;
}

cudaError_t LaunchGemm(Stream& stream, const GemmArgs& args) {
  if (args.w.kind == WeightKind::kF32) return LaunchF32(stream, args);
  return IsForManyRows(stream, args) ? LaunchManyRows(stream, args) : LaunchFewRows(stream, args);
}

}  // namespace erne::cuda
