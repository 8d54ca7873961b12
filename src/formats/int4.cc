// 4-bit layouts and how they become the canonical one.
//
// AWQ packs eight output features into one little-endian 32-bit word per input feature. Nibble i
// (bits 4i .. 4i + 3) of a word holds output 8w + kAwqOrder[i]; the order was chosen for the first
// CUDA kernels of llm-awq and stayed. The zeros are packed the same way, one row of words per group
// of input features.
#include "formats/int4.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "base/check.h"
#include "base/strings.h"

namespace erne {
namespace {

constexpr int64_t kNibbles = 8;  // in a 32-bit word
constexpr std::array<int64_t, kNibbles> kAwqOrder = {0, 2, 4, 6, 1, 3, 5, 7};
constexpr std::array<int64_t, kNibbles> kPlainOrder = {0, 1, 2, 3, 4, 5, 6, 7};
// Stripes of one cache line of input words keep both sides of a transposition in cache.
constexpr int64_t kStripe = 64 / sizeof(uint32_t);

uint32_t LoadWord(const std::byte* data, int64_t index) {
  uint32_t word;
  std::memcpy(&word, data + index * static_cast<int64_t>(sizeof(word)), sizeof(word));
  return word;
}

uint8_t Nibble(uint32_t word, int64_t i) { return static_cast<uint8_t>((word >> (4 * i)) & 15); }

// `tensor` must be a matrix of `shape`.
Status CheckShape(const std::string& tensor_name, const TensorView& tensor, const Shape& shape) {
  if (tensor.shape == shape) return {};
  return InvalidArgument(StrCat("`", tensor_name, "` is ", ShapeString(tensor.shape), ", expected ",
                                ShapeString(shape)));
}

Status CheckType(const std::string& tensor_name, const TensorView& tensor, bool right,
                 std::string_view wanted) {
  if (right) return {};
  return InvalidArgument(
      StrCat("`", tensor_name, "` is ", DTypeName(tensor.dtype), ", expected ", wanted));
}

// What both layouts need of [rows, cols].
Status CheckSize(const std::string& name, int64_t rows, int64_t cols, int64_t group) {
  if (rows <= 0 || rows % kNibbles != 0) {
    return InvalidArgument(StrCat("`", name, "`: ", rows, " outputs, no multiple of 8"));
  }
  if (cols <= 0 || group <= 0 || group % 2 != 0 || cols % group != 0) {
    return InvalidArgument(StrCat("`", name, "`: ", cols, " inputs cannot be split into groups of ",
                                  group, " (the group size must be even and divide them)"));
  }
  return {};
}

Status CheckTypes(const std::string& name, const TensorView& qweight, const TensorView& qzeros,
                  const TensorView& scales) {
  ERNE_RETURN_IF_ERROR(CheckType(name + ".qweight", qweight, qweight.dtype == DType::kI32, "I32"));
  ERNE_RETURN_IF_ERROR(CheckType(name + ".qzeros", qzeros, qzeros.dtype == DType::kI32, "I32"));
  return CheckType(name + ".scales", scales, IsFloat(scales.dtype), "F16, BF16 or F32");
}

// scales [groups, rows] -> [rows, groups]
void TransposeScales(const TensorView& scales, Int4Matrix& out) {
  const int64_t groups = out.cols / out.group;
  std::vector<float> line(static_cast<size_t>(out.rows));
  for (int64_t g = 0; g < groups; ++g) {
    CopyToFloat(scales, g * out.rows, line);
    for (int64_t r = 0; r < out.rows; ++r) out.scales[r * groups + g] = line[r];
  }
}

// qzeros [groups, rows / 8], nibble i of word w being row 8w + order[i] -> zeros [rows, groups],
// plus `offset`, mod 16.
void UnpackZeros(const TensorView& qzeros, const std::array<int64_t, kNibbles>& order, int offset,
                 Int4Matrix& out) {
  const int64_t groups = out.cols / out.group;
  const int64_t words = out.rows / kNibbles;
  for (int64_t g = 0; g < groups; ++g) {
    for (int64_t w = 0; w < words; ++w) {
      const uint32_t word = LoadWord(qzeros.data, g * words + w);
      for (int64_t i = 0; i < kNibbles; ++i) {
        out.zeros[(w * kNibbles + order[i]) * groups + g] =
            static_cast<uint8_t>((Nibble(word, i) + offset) & 15);
      }
    }
  }
}

// GPTQ qweight [cols / 8, rows] -> q: a word is four bytes of a row.
void TransposeWords(const TensorView& qweight, Int4Matrix& out) {
  const int64_t words = out.cols / kNibbles;
  for (int64_t first = 0; first < out.rows; first += kStripe) {
    const int64_t last = std::min(first + kStripe, out.rows);
    for (int64_t w = 0; w < words; ++w) {
      for (int64_t r = first; r < last; ++r) {
        const uint32_t word = LoadWord(qweight.data, w * out.rows + r);
        for (int64_t b = 0; b < 4; ++b)
          out.q[(r * words + w) * 4 + b] = static_cast<uint8_t>(word >> (8 * b));
      }
    }
  }
}

// The same, with columns taken in out.input_order.
void GatherNibbles(const TensorView& qweight, Int4Matrix& out) {
  const auto load = [&](int64_t c, int64_t r) {
    const int64_t input = out.input_order[c];
    return Nibble(LoadWord(qweight.data, input / kNibbles * out.rows + r), input % kNibbles);
  };
  for (int64_t first = 0; first < out.rows; first += kStripe) {
    const int64_t last = std::min(first + kStripe, out.rows);
    for (int64_t c = 0; c < out.cols; c += 2) {
      for (int64_t r = first; r < last; ++r) {
        out.q[r * (out.cols / 2) + c / 2] =
            static_cast<uint8_t>(load(c, r) | (load(c + 1, r) << 4));
      }
    }
  }
}

// The inputs sorted by group (stable), or empty when they are sorted already.
Result<std::vector<int32_t>> OrderByGroup(const std::string& name, const TensorView& g_idx,
                                          int64_t cols, int64_t group) {
  ERNE_RETURN_IF_ERROR(CheckType(name + ".g_idx", g_idx, g_idx.dtype == DType::kI32, "I32"));
  ERNE_RETURN_IF_ERROR(CheckShape(name + ".g_idx", g_idx, {cols}));
  const int64_t groups = cols / group;
  std::vector<int32_t> order(static_cast<size_t>(cols));
  std::vector<int64_t> filled(static_cast<size_t>(groups));
  bool sorted = true;
  for (int64_t c = 0; c < cols; ++c) {
    const auto g = static_cast<int32_t>(LoadWord(g_idx.data, c));
    if (g < 0 || g >= groups) {
      return InvalidArgument(
          StrCat("`", name, ".g_idx`: input ", c, " is in group ", g, " of ", groups));
    }
    if (filled[g] == group) {
      return InvalidArgument(
          StrCat("`", name, ".g_idx`: group ", g, " has more than ", group, " inputs"));
    }
    order[g * group + filled[g]++] = static_cast<int32_t>(c);
    sorted = sorted && g == c / group;
  }
  if (sorted) order.clear();
  return order;
}

Int4Matrix MakeMatrix(int64_t rows, int64_t cols, int64_t group) {
  Int4Matrix out;
  out.rows = rows;
  out.cols = cols;
  out.group = group;
  out.q.resize(static_cast<size_t>(rows * (cols / 2)));
  out.scales.resize(static_cast<size_t>(rows * (cols / group)));
  out.zeros.resize(static_cast<size_t>(rows * (cols / group)));
  return out;
}

}  // namespace

void DequantizeRow(const Int4Matrix& matrix, int64_t row, std::span<float> out) {
  ERNE_CHECK(row >= 0 && row < matrix.rows) << "row " << row << " of " << matrix.rows;
  ERNE_CHECK(static_cast<int64_t>(out.size()) == matrix.cols)
      << out.size() << " for " << matrix.cols;
  const int64_t groups = matrix.cols / matrix.group;
  const uint8_t* q = matrix.q.data() + row * (matrix.cols / 2);
  const auto place = [&](int64_t c) {
    return matrix.input_order.empty() ? c : matrix.input_order[c];
  };
  for (int64_t g = 0; g < groups; ++g) {
    const float scale = matrix.scales[row * groups + g];
    const int zero = matrix.zeros[row * groups + g];
    for (int64_t c = g * matrix.group; c < (g + 1) * matrix.group; c += 2) {
      out[place(c)] = static_cast<float>((q[c / 2] & 15) - zero) * scale;
      out[place(c + 1)] = static_cast<float>((q[c / 2] >> 4) - zero) * scale;
    }
  }
}

Result<Int4Matrix> UnpackAwq(const std::string& name, const TensorView& qweight,
                             const TensorView& qzeros, const TensorView& scales, int64_t group) {
  ERNE_RETURN_IF_ERROR(CheckTypes(name, qweight, qzeros, scales));
  if (qweight.shape.size() != 2) {
    return InvalidArgument(
        StrCat("`", name, ".qweight` is ", ShapeString(qweight.shape), ", expected [in, out / 8]"));
  }
  const int64_t cols = qweight.shape[0];
  const int64_t words = qweight.shape[1];
  ERNE_RETURN_IF_ERROR(CheckSize(name, words * kNibbles, cols, group));
  ERNE_RETURN_IF_ERROR(CheckShape(name + ".qzeros", qzeros, {cols / group, words}));
  ERNE_RETURN_IF_ERROR(CheckShape(name + ".scales", scales, {cols / group, words * kNibbles}));

  Int4Matrix out = MakeMatrix(words * kNibbles, cols, group);
  for (int64_t first = 0; first < words; first += kStripe) {
    const int64_t last = std::min(first + kStripe, words);
    for (int64_t c = 0; c < cols; c += 2) {
      for (int64_t w = first; w < last; ++w) {
        const uint32_t even = LoadWord(qweight.data, c * words + w);
        const uint32_t odd = LoadWord(qweight.data, (c + 1) * words + w);
        for (int64_t i = 0; i < kNibbles; ++i) {
          const int64_t row = w * kNibbles + kAwqOrder[i];
          out.q[row * (cols / 2) + c / 2] =
              static_cast<uint8_t>(Nibble(even, i) | (Nibble(odd, i) << 4));
        }
      }
    }
  }
  UnpackZeros(qzeros, kAwqOrder, 0, out);
  TransposeScales(scales, out);
  return out;
}

Result<Int4Matrix> UnpackGptq(const std::string& name, const TensorView& qweight,
                              const TensorView& qzeros, const TensorView& scales,
                              const TensorView* g_idx, int64_t group, GptqZeros zeros) {
  ERNE_RETURN_IF_ERROR(CheckTypes(name, qweight, qzeros, scales));
  if (qweight.shape.size() != 2) {
    return InvalidArgument(
        StrCat("`", name, ".qweight` is ", ShapeString(qweight.shape), ", expected [in / 8, out]"));
  }
  const int64_t cols = qweight.shape[0] * kNibbles;
  const int64_t rows = qweight.shape[1];
  ERNE_RETURN_IF_ERROR(CheckSize(name, rows, cols, group));
  ERNE_RETURN_IF_ERROR(CheckShape(name + ".qzeros", qzeros, {cols / group, rows / kNibbles}));
  ERNE_RETURN_IF_ERROR(CheckShape(name + ".scales", scales, {cols / group, rows}));

  Int4Matrix out = MakeMatrix(rows, cols, group);
  if (g_idx != nullptr) {
    ERNE_ASSIGN_OR_RETURN(out.input_order, OrderByGroup(name, *g_idx, cols, group));
  }
  if (out.input_order.empty()) {
    TransposeWords(qweight, out);
  } else {
    GatherNibbles(qweight, out);
  }
  UnpackZeros(qzeros, kPlainOrder, zeros == GptqZeros::kMinusOne ? 1 : 0, out);
  TransposeScales(scales, out);
  return out;
}

}  // namespace erne
