// float32 weights: scalar fused multiply-adds, for small models and routers. A warp computes two
// outputs (r and r + 8 of a tile) of up to 8 rows: lane l adds up the inputs 4 l .. 4 l + 3, then
// those 128 further on; then the lanes are added as a tree.
#include "executor/cuda/epilogue.cuh"
#include "executor/cuda/gemm_kernels.h"
#include "executor/cuda/launch.cuh"

namespace erne::cuda {
namespace {

constexpr int kRows = 8;

__device__ inline float Dot4(const float4& a, const float4& b, float sum) {
  sum = fmaf(a.x, b.x, sum);
  sum = fmaf(a.y, b.y, sum);
  sum = fmaf(a.z, b.z, sum);
  return fmaf(a.w, b.w, sum);
}

__global__ void __launch_bounds__(256) GemmF32(const __grid_constant__ GemmArgs args) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int r = static_cast<int>(threadIdx.x) / 32;
  const int tile = static_cast<int>(blockIdx.x);
  const int group = static_cast<int>(blockIdx.y);
  TriggerDependents();
  WaitForPrevious();
  const bool grouped = args.group_begin != nullptr;
  const int first_row = grouped ? args.group_begin[group] : 0;
  const int rows = grouped ? args.group_begin[group + 1] - first_row : args.rows;
  const int width = args.w.units * UnitInputs(WeightKind::kF32);
  const auto* matrix = reinterpret_cast<const float*>(args.w.data + group * args.group_bytes);
  const float* first = matrix + static_cast<int64_t>(tile * kTileRows + r) * width;
  const float* second = first + 8 * static_cast<int64_t>(width);
  const float* bias = args.w.bias == nullptr ? nullptr : args.w.bias + group * args.group_bias;
  for (int begin = static_cast<int>(blockIdx.z) * kRows; begin < rows;
       begin += static_cast<int>(gridDim.z) * kRows) {
    const float* x[kRows];
#pragma unroll
    for (int j = 0; j < kRows; ++j) {
      int row = min(begin + j, rows - 1) + first_row;
      if (args.x_rows != nullptr) row = args.x_rows[row];
      x[j] = static_cast<const float*>(args.x) + row * args.x_stride;
    }
    float sums[kRows][2] = {};
    for (int k = lane * 4; k < width; k += 128) {
      const float4 a = *reinterpret_cast<const float4*>(first + k);
      const float4 b = *reinterpret_cast<const float4*>(second + k);
#pragma unroll
      for (int j = 0; j < kRows; ++j) {
        const float4 v = *reinterpret_cast<const float4*>(x[j] + k);
        sums[j][0] = Dot4(a, v, sums[j][0]);
        sums[j][1] = Dot4(b, v, sums[j][1]);
      }
    }
#pragma unroll
    for (int j = 0; j < kRows; ++j) {
      const float a = WarpSum(sums[j][0]);
      const float b = WarpSum(sums[j][1]);
      if (lane == j && begin + j < rows) {
        Operands operands;
        LoadConstants(args.out, bias, tile, r, first_row + begin + j, operands);
        LoadResults(args.out, tile, r, first_row + begin + j, operands);
        Finish(args.out, operands, tile, r, first_row + begin + j, a, b);
      }
    }
  }
}

}  // namespace

cudaError_t LaunchF32(Stream& stream, const GemmArgs& args) {
  const unsigned row_blocks = args.group_begin != nullptr ? 1 : CeilDiv(args.rows, kRows);
  const dim3 grid(static_cast<unsigned>(args.w.tiles), static_cast<unsigned>(args.groups),
                  row_blocks);
  return Launch(stream, GemmF32, grid, 256, 0, args);
}

}  // namespace erne::cuda
