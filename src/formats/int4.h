// The one canonical form of 4-bit group-quantised matrices, whatever file layout they came in (AWQ, later GPTQ, ...).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "tensor/tensor.h"

namespace erne {

// W[r, c] = (q[r, c] - zero[r, c / group]) * scale[r, c / group], with q and zero in 0..15, computed as float32.
struct Int4Matrix {
  int64_t rows = 0;   // output features
  int64_t cols = 0;   // input features; a multiple of `group`
  int64_t group = 0;  // columns that share a scale and a zero; even
  std::vector<uint8_t> q;       // [rows, cols / 2], the even column in the low nibble
  std::vector<float> scales;    // [rows, cols / group]
  std::vector<uint8_t> zeros;   // [rows, cols / group]

  size_t bytes() const { return q.size() + zeros.size() + scales.size() * sizeof(float); }
};

// Row `row` as float32. out: [cols]
void DequantizeRow(const Int4Matrix& matrix, int64_t row, std::span<float> out);

// AWQ "gemm" layout (AutoAWQ's WQLinear_GEMM; order 0 2 4 6 1 3 5 7 within a word):
//   qweight [in, out / 8] int32, qzeros [in / group, out / 8] int32, scales [in / group, out] f16/bf16/f32
// `name` is the matrix's name for error messages. Errors name the tensor and both shapes.
Result<Int4Matrix> UnpackAwq(const std::string& name, const TensorView& qweight, const TensorView& qzeros,
                             const TensorView& scales, int64_t group);

}  // namespace erne
