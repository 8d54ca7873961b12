#include "executor/cuda/device_code.cuh"
#include "executor/cuda/pack_kernels.h"

namespace erne::cuda {
namespace {

constexpr int kThreads = 256;
// A row in the grid's x, its elements strided over a block.

template <typename T>
__global__ void PackFloat(PackTarget target, const T* rows, int64_t cols) {
  const int64_t row = target.first_packed_row +
                      PackedRow(target.order, target.first_row + blockIdx.x, target.head_dim);
  const int unit_bytes = UnitBytes(target.kind, target.sets);
  const T* from = rows + blockIdx.x * cols;
  if (sizeof(T) == 4) {
    T* to = reinterpret_cast<T*>(target.data) + row * target.units * 32;
    for (int64_t c = threadIdx.x; c < cols; c += kThreads) to[c] = from[c];
    return;
  }
  uint8_t* tile = target.data + row / kTileRows * target.units * unit_bytes;
  for (int64_t c = threadIdx.x; c < cols; c += kThreads) {
    T* unit = reinterpret_cast<T*>(tile + c / 32 * unit_bytes);
    const int at = FragmentIndex(static_cast<int>(row % kTileRows), static_cast<int>(c % 32));
    unit[at] =
        target.from_bf16 ? F16Bits(__bfloat162float(__ushort_as_bfloat16(from[c]))) : from[c];
  }
}

// A word holds nibbles of two rows, which two blocks write.
__global__ void PackInt4(PackTarget target, const uint8_t* q, const float* scales,
                         const uint8_t* zeros, int64_t cols, int64_t group) {
  const int64_t row = target.first_packed_row +
                      PackedRow(target.order, target.first_row + blockIdx.x, target.head_dim);
  const int in_tile = static_cast<int>(row % kTileRows);
  const int unit_bytes = UnitBytes(WeightKind::kInt4, target.sets);
  uint8_t* tile = target.data + row / kTileRows * target.units * unit_bytes;
  const uint8_t* from = q + blockIdx.x * (cols / 2);
  for (int64_t c = threadIdx.x; c < cols; c += kThreads) {
    auto* unit = reinterpret_cast<uint32_t*>(tile + c / 64 * unit_bytes);
    const int index = NibbleIndex(in_tile, static_cast<int>(c % 64));
    const uint32_t nibble = c % 2 == 0 ? from[c / 2] & 15U : from[c / 2] >> 4;
    atomicOr(unit + index / 8, nibble << (index % 8 * 4));
  }
  const int per_set = 64 / target.sets;
  for (int64_t s = threadIdx.x; s < cols / per_set; s += kThreads) {
    const int64_t at = blockIdx.x * (cols / group) + s * per_set / group;
    uint8_t* set = tile + s / target.sets * unit_bytes + 512 + s % target.sets * 96;
    reinterpret_cast<float*>(set)[in_tile] = scales[at];
    reinterpret_cast<__half*>(set + 64)[in_tile] = __float2half_rn(1024.0F + zeros[at]);
  }
}

}  // namespace

cudaError_t PackFloatRows(cudaStream_t stream, const PackTarget& target, const void* rows,
                          int64_t count, int64_t cols) {
  const auto blocks = static_cast<unsigned>(count);
  if (target.kind == WeightKind::kF32) {
    PackFloat<<<blocks, kThreads, 0, stream>>>(target, static_cast<const uint32_t*>(rows), cols);
  } else {
    PackFloat<<<blocks, kThreads, 0, stream>>>(target, static_cast<const uint16_t*>(rows), cols);
  }
  return cudaGetLastError();
}

cudaError_t PackInt4Rows(cudaStream_t stream, const PackTarget& target, const uint8_t* q,
                         const float* scales, const uint8_t* zeros, int64_t count, int64_t cols,
                         int64_t group) {
  PackInt4<<<static_cast<unsigned>(count), kThreads, 0, stream>>>(target, q, scales, zeros, cols,
                                                                  group);
  return cudaGetLastError();
}

}  // namespace erne::cuda
