// The one canonical form of 4-bit group-quantised matrices, whatever file layout they came in (AWQ,
// GPTQ).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "tensor/tensor.h"

namespace erne {

// W[r, c] = (q[r, c] - zero[r, c / group]) * scale[r, c / group], with q and zero in 0..15,
// computed as float32.
//
// Stored column c multiplies input feature c, or input_order[c] when that is not empty. A group is
// always a run of stored columns, so a kernel needs to know nothing of orders: y = W x is the plain
// product with the gathered x'[c] = x[input_order[c]].
struct Int4Matrix {
  int64_t rows = 0;            // output features
  int64_t cols = 0;            // input features; a multiple of `group`
  int64_t group = 0;           // columns that share a scale and a zero; even
  std::vector<uint8_t> q;      // [rows, cols / 2], the even column in the low nibble
  std::vector<float> scales;   // [rows, cols / group]
  std::vector<uint8_t> zeros;  // [rows, cols / group]
  std::vector<int32_t>
      input_order;  // [cols], a permutation (GPTQ's act-order); empty: columns are in order

  size_t bytes() const {
    return q.size() + zeros.size() + scales.size() * sizeof(float) +
           input_order.size() * sizeof(int32_t);
  }
};

// Row `row` as float32, by input feature (input_order is undone). out: [cols]
void DequantizeRow(const Int4Matrix& matrix, int64_t row, std::span<float> out);

// AWQ "gemm" layout (AutoAWQ's WQLinear_GEMM; order 0 2 4 6 1 3 5 7 within a word):
//   qweight [in, out / 8] int32, qzeros [in / group, out / 8] int32, scales [in / group, out]
//   f16/bf16/f32
// `name` is the matrix's name for error messages. Errors name the tensor and both shapes.
Result<Int4Matrix> UnpackAwq(const std::string& name, const TensorView& qweight,
                             const TensorView& qzeros, const TensorView& scales, int64_t group);

// How a GPTQ checkpoint stores a zero point z: as (z - 1) mod 16 ("gptq", the first format) or as
// it is ("gptq_v2").
enum class GptqZeros { kMinusOne, kPlain };

// GPTQ layout (AutoGPTQ's and GPTQModel's QuantLinear):
//   qweight [in / 8, out] int32, qzeros [in / group, out / 8] int32, scales [in / group, out]
//   f16/bf16/f32, g_idx [in] int32: the group of each input, or nullptr for input / group. Every
//   group must have `group` inputs.
// Errors as of UnpackAwq.
Result<Int4Matrix> UnpackGptq(const std::string& name, const TensorView& qweight,
                              const TensorView& qzeros, const TensorView& scales,
                              const TensorView* g_idx, int64_t group, GptqZeros zeros);

}  // namespace erne
