// The canonical form of matrices of 8-bit integers in groups, and the way from floats to it and to
// 4 bits: round to nearest, per output and group.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "formats/int4.h"
#include "tensor/tensor.h"

namespace erne {

// W[r, c] = q[r, c] * scale[r, c / group], with q in -127..127, computed as float32. The last group
// of a row may be shorter.
struct Int8Matrix {
  int64_t rows = 0;           // output features
  int64_t cols = 0;           // input features
  int64_t group = 0;          // columns that share a scale
  std::vector<int8_t> q;      // [rows, cols]
  std::vector<float> scales;  // [rows, groups()]

  int64_t groups() const { return (cols + group - 1) / group; }
  size_t bytes() const { return q.size() + scales.size() * sizeof(float); }
};

// Row `row` as float32. out: [cols]
void DequantizeRow(const Int8Matrix& matrix, int64_t row, std::span<float> out);

// Rows [row_begin, row_begin + count) of a float matrix [rows, cols]: scale = largest magnitude of
// the group / 127, q = w / scale rounded to nearest, ties to even. A group with a NaN or an
// infinity has a NaN for its scale.
Int8Matrix QuantizeInt8(const TensorView& matrix, int64_t row_begin, int64_t count, int64_t group);

// The same with 4 bits: scale = (largest - smallest) / 15, both taken to include 0, so that 0 stays
// exact; zero = -smallest / scale, rounded; q = w / scale + zero, rounded and kept within 0..15.
// `group` is even and divides cols (CHECKed).
Int4Matrix QuantizeInt4(const TensorView& matrix, int64_t row_begin, int64_t count, int64_t group);

// The largest group from kLeastInt4Group up to `wanted` that QuantizeInt4 takes for `cols` columns;
// 0: there is none. In smaller ones scales and zeros take so much that int8 in large groups is as
// small.
inline constexpr int64_t kLeastInt4Group = 16;
int64_t Int4GroupFor(int64_t cols, int64_t wanted);

}  // namespace erne
