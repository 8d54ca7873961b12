#include "executor/cpu/packed_matrix.h"

#include <algorithm>
#include <cstring>
#include <span>
#include <utility>

#include "base/strings.h"

namespace erne::cpu {
namespace {

// Columns moved at a time: 16 rows of them, read and written, stay in L1.
constexpr int64_t kPackCols = 64;

// Where column `col` of output `lane` is in its panel, in elements.
int64_t ElementIndex(WeightType type, int64_t col, int64_t lane) {
  if (type == WeightType::kBF16) return col / 2 * 2 * kLanes + lane * 2 + col % 2;
  return col * kLanes + lane;
}

template <WeightType kType, typename Element>
void PackFloatPanel(const std::byte* source, int64_t rows, int64_t cols, unsigned char* panel) {
  for (int64_t begin = 0; begin < cols; begin += kPackCols) {
    const int64_t end = std::min(cols, begin + kPackCols);
    for (int64_t lane = 0; lane < rows; ++lane) {
      for (int64_t col = begin; col < end; ++col) {
        Element element;
        std::memcpy(&element, source + (lane * cols + col) * static_cast<int64_t>(sizeof(Element)),
                    sizeof(Element));
        std::memcpy(panel + ElementIndex(kType, col, lane) * static_cast<int64_t>(sizeof(Element)),
                    &element, sizeof(Element));
      }
    }
  }
}

void PackInt4Panel(const Int4Matrix& matrix, int64_t first_row, int64_t rows,
                   unsigned char* panel) {
  const int64_t groups = matrix.cols / matrix.group;
  const int64_t pairs = matrix.group / 2;
  const int64_t group_bytes =
      kLanes * static_cast<int64_t>(sizeof(float)) + kLanes + pairs * kLanes;
  for (int64_t lane = 0; lane < rows; ++lane) {
    const int64_t row = first_row + lane;
    const uint8_t* q = matrix.q.data() + row * (matrix.cols / 2);
    for (int64_t g = 0; g < groups; ++g) {
      unsigned char* out = panel + g * group_bytes;
      std::memcpy(out + lane * static_cast<int64_t>(sizeof(float)),
                  &matrix.scales[static_cast<size_t>(row * groups + g)], sizeof(float));
      out += kLanes * static_cast<int64_t>(sizeof(float));
      out[lane] =
          static_cast<unsigned char>(8 - matrix.zeros[static_cast<size_t>(row * groups + g)]);
      out += kLanes;
      for (int64_t pair = 0; pair < pairs; ++pair) out[pair * kLanes + lane] = q[g * pairs + pair];
    }
  }
}

Status CheckInt4(const std::string& name, const Int4Matrix& m) {
  if (m.group <= 0 || m.group % 2 != 0 || m.cols % m.group != 0) {
    return InvalidArgument(StrCat(name, ": groups of ", m.group, " do not divide ", m.cols,
                                  " columns into even parts"));
  }
  const auto rows = static_cast<size_t>(m.rows);
  const auto groups = static_cast<size_t>(m.cols / m.group);
  if (m.q.size() != rows * static_cast<size_t>(m.cols / 2) || m.scales.size() != rows * groups ||
      m.zeros.size() != rows * groups) {
    return InvalidArgument(StrCat(name, ": the 4-bit arrays do not have the sizes of a [", m.rows,
                                  ", ", m.cols, "] matrix"));
  }
  if (!m.input_order.empty()) {
    if (m.input_order.size() != static_cast<size_t>(m.cols)) {
      return InvalidArgument(
          StrCat(name, ": the input order has ", m.input_order.size(), " of ", m.cols, " columns"));
    }
    for (const int32_t column : m.input_order) {
      if (column < 0 || column >= m.cols) {
        return InvalidArgument(
            StrCat(name, ": the input order names column ", column, " of ", m.cols));
      }
    }
  }
  return {};
}

}  // namespace

Status PackedMatrix::AllocatePanels(const std::string& name, int64_t panel_bytes) {
  const auto bytes = CheckedProduct({panels(), panel_bytes});
  if (!bytes) return ResourceExhausted(StrCat(name, ": too large to pack"));
  auto data = Buffer::Allocate(StrCat("packing ", name), static_cast<size_t>(*bytes));
  if (!data.ok()) return data.status();
  data_ = *std::move(data);
  ref_.data = reinterpret_cast<const unsigned char*>(data_.data());
  ref_.panel_bytes = panel_bytes;
  return {};
}

Status PackedMatrix::PackFloat(const std::string& name, const TensorView& matrix,
                               ThreadPool& pool) {
  switch (matrix.dtype) {
    case DType::kF32:
      ref_.type = WeightType::kF32;
      break;
    case DType::kBF16:
      ref_.type = WeightType::kBF16;
      break;
    case DType::kF16:
      ref_.type = WeightType::kF16;
      break;
    default:
      return InvalidArgument(
          StrCat(name, ": the CPU executor reads no weights of type ", DTypeName(matrix.dtype)));
  }
  const auto element_bytes = static_cast<int64_t>(DTypeSize(matrix.dtype));
  const int64_t stored_cols = ref_.type == WeightType::kBF16 ? RoundUp(ref_.cols, 2) : ref_.cols;
  const auto panel_bytes = CheckedProduct({stored_cols, kLanes, element_bytes});
  if (!panel_bytes) return ResourceExhausted(StrCat(name, ": too large to pack"));
  ERNE_RETURN_IF_ERROR(AllocatePanels(name, *panel_bytes));
  pool.ParallelFor(panels(), 1, [&](int64_t begin, int64_t end, int) {
    for (int64_t p = begin; p < end; ++p) {
      auto* panel = reinterpret_cast<unsigned char*>(data_.data()) + p * ref_.panel_bytes;
      const int64_t rows = std::min(kLanes, ref_.rows - p * kLanes);
      const std::byte* source = matrix.data + p * kLanes * ref_.cols * element_bytes;
      if (rows < kLanes || stored_cols != ref_.cols)
        std::memset(panel, 0, static_cast<size_t>(ref_.panel_bytes));
      switch (ref_.type) {
        case WeightType::kF32:
          PackFloatPanel<WeightType::kF32, uint32_t>(source, rows, ref_.cols, panel);
          break;
        case WeightType::kBF16:
          PackFloatPanel<WeightType::kBF16, uint16_t>(source, rows, ref_.cols, panel);
          break;
        default:
          PackFloatPanel<WeightType::kF16, uint16_t>(source, rows, ref_.cols, panel);
          break;
      }
    }
  });
  return {};
}

Status PackedMatrix::PackInt4(const std::string& name, const Int4Matrix& matrix, ThreadPool& pool,
                              const PackedMatrix* like) {
  ERNE_RETURN_IF_ERROR(CheckInt4(name, matrix));
  ref_.type = WeightType::kInt4;
  ref_.group = matrix.group;
  const int64_t group_bytes =
      kLanes * static_cast<int64_t>(sizeof(float)) + kLanes + matrix.group / 2 * kLanes;
  ERNE_RETURN_IF_ERROR(AllocatePanels(name, matrix.cols / matrix.group * group_bytes));
  pool.ParallelFor(panels(), 1, [&](int64_t begin, int64_t end, int) {
    for (int64_t p = begin; p < end; ++p) {
      auto* panel = reinterpret_cast<unsigned char*>(data_.data()) + p * ref_.panel_bytes;
      const int64_t rows = std::min(kLanes, ref_.rows - p * kLanes);
      if (rows < kLanes) std::memset(panel, 0, static_cast<size_t>(ref_.panel_bytes));
      PackInt4Panel(matrix, p * kLanes, rows, panel);
    }
  });
  if (!matrix.input_order.empty()) {
    if (like != nullptr && like->order_ != nullptr && *like->order_ == matrix.input_order) {
      order_ = like->order_;
    } else {
      order_ = std::make_shared<const std::vector<int32_t>>(matrix.input_order);
    }
    ref_.columns = order_->data();
  }
  return {};
}

Result<PackedMatrix> PackedMatrix::Pack(const std::string& name, const LinearWeights& weights,
                                        int64_t rows, int64_t cols, ThreadPool& pool,
                                        const PackedMatrix* like) {
  if (!weights.present()) return InvalidArgument(StrCat(name, ": the weights are absent"));
  const auto* view = std::get_if<TensorView>(&weights.matrix);
  const bool shaped = view == nullptr || view->shape == Shape{rows, cols};
  if (!shaped || weights.rows() != rows || weights.cols() != cols || rows <= 0 || cols <= 0) {
    return InvalidArgument(StrCat(name, ": the weights are [", weights.rows(), ", ", weights.cols(),
                                  "], not [", rows, ", ", cols, "]"));
  }
  PackedMatrix packed;
  packed.ref_.rows = rows;
  packed.ref_.cols = cols;
  if (view != nullptr) {
    ERNE_RETURN_IF_ERROR(packed.PackFloat(name, *view, pool));
  } else {
    ERNE_RETURN_IF_ERROR(packed.PackInt4(name, std::get<Int4Matrix>(weights.matrix), pool, like));
  }
  if (weights.bias.has_value()) {
    if (weights.bias->elements() != rows || !IsFloat(weights.bias->dtype)) {
      return InvalidArgument(StrCat(name, ": the bias is ", DTypeName(weights.bias->dtype), " ",
                                    ShapeString(weights.bias->shape), ", not ", rows, " floats"));
    }
    ERNE_ASSIGN_OR_RETURN(packed.bias_,
                          Buffer::Allocate(name, static_cast<size_t>(rows) * sizeof(float)));
    auto* bias = reinterpret_cast<float*>(packed.bias_.data());
    CopyToFloat(*weights.bias, 0, {bias, static_cast<size_t>(rows)});
    packed.ref_.bias = bias;
  }
  return packed;
}

uint64_t PackedMatrix::bytes() const {
  return data_.bytes() + bias_.bytes() + (order_ == nullptr ? 0 : order_->size() * sizeof(int32_t));
}

void PackedMatrix::CopyRow(int64_t row, float* out) const {
  ERNE_DCHECK(ref_.type != WeightType::kInt4 && row >= 0 && row < ref_.rows);
  const unsigned char* panel = ref_.data + row / kLanes * ref_.panel_bytes;
  for (int64_t col = 0; col < ref_.cols; ++col) {
    const int64_t index = ElementIndex(ref_.type, col, row % kLanes);
    if (ref_.type == WeightType::kF32) {
      std::memcpy(&out[col], panel + index * 4, sizeof(float));
      continue;
    }
    uint16_t bits;
    std::memcpy(&bits, panel + index * 2, sizeof(bits));
    out[col] = ref_.type == WeightType::kBF16 ? Bf16ToFloat(bits) : F16ToFloat(bits);
  }
}

}  // namespace erne::cpu
