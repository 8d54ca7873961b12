// From the rows of a checkpoint, copied to the device as they are, to packed weights (layout.h).
#pragma once

#include <cstdint>

#include <cuda_runtime_api.h>

#include "executor/cuda/layout.h"

namespace erne::cuda {

// Where some rows of a source matrix go.
struct PackTarget {
  bool from_bf16 = false;  // rows are bf16, kind is kF16
  WeightKind kind = WeightKind::kF32;
  int sets = 0;             // int4: of scales per unit
  int units = 0;            // of a tile
  uint8_t* data = nullptr;  // first tile of the packed matrix, zeroed
  RowOrder order = RowOrder::kPlain;
  int head_dim = 0;              // of rope pairs
  int64_t first_packed_row = 0;  // of the part (q, k or v) in the packed matrix
  int64_t first_row = 0;         // of this piece in the part
};

// rows: [count, cols] of the kind's own type, or bf16.
cudaError_t PackFloatRows(cudaStream_t stream, const PackTarget& target, const void* rows,
                          int64_t count, int64_t cols);
// q: [count, cols / 2]; scales, zeros: [count, cols / group]; kind is kInt4 with 64 / sets inputs a
// set, a divisor of `group`.
cudaError_t PackInt4Rows(cudaStream_t stream, const PackTarget& target, const uint8_t* q,
                         const float* scales, const uint8_t* zeros, int64_t count, int64_t cols,
                         int64_t group);

}  // namespace erne::cuda
