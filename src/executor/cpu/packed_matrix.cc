#include "executor/cpu/packed_matrix.h"

#include <algorithm>
#include <cstring>
#include <span>
#include <utility>

#include "base/strings.h"
#include "executor/cpu/group_packing.h"

namespace erne::cpu {
namespace {

// Columns moved at a time: 16 rows of them, read and written, stay in L1.
constexpr int64_t kPackCols = 64;

// Source bytes that are packed before the caller hears of it.
constexpr int64_t kPartBytes = int64_t{16} << 20;

// Where column `col` of output `lane` of a float panel is, in elements, when `panels` lie side by
// side.
int64_t ElementIndex(WeightType type, int64_t col, int64_t lane, int64_t panels) {
  const int64_t pair = col / 2 * 2 * kLanes * panels;
  if (type == WeightType::kBF16) return pair + lane * 2 + col % 2;
  return pair + col % 2 * kLanes + lane;
}

template <WeightType kType, typename Element>
void PackFloatPanel(const std::byte* source, int64_t rows, int64_t cols, int64_t panels,
                    unsigned char* panel) {
  constexpr auto kBytes = static_cast<int64_t>(sizeof(Element));
  for (int64_t begin = 0; begin < cols; begin += kPackCols) {
    const int64_t end = std::min(cols, begin + kPackCols);
    for (int64_t lane = 0; lane < rows; ++lane) {
      for (int64_t col = begin; col < end; ++col) {
        std::memcpy(panel + ElementIndex(kType, col, lane, panels) * kBytes,
                    source + (lane * cols + col) * kBytes, sizeof(Element));
      }
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

RoundedForm RoundedFormFor(WeightType wanted, int64_t cols) {
  const int64_t group = Int4GroupFor(cols, kInt4Group);
  if (wanted == WeightType::kInt4 && group > 0) return {WeightType::kInt4, group};
  return {WeightType::kInt8, std::min(cols, kInt8Group)};
}

struct PackedMatrix::Means {
  const std::string& name;
  Arena& arena;
  ThreadPool& pool;
};

Status PackedMatrix::AllocatePanels(const Means& means, int64_t panel_bytes) {
  const auto bytes = CheckedProduct({panels(), panel_bytes});
  if (!bytes) return ResourceExhausted(StrCat(means.name, ": too large to pack"));
  ERNE_ASSIGN_OR_RETURN(std::byte* const data, means.arena.Allocate(StrCat("packing ", means.name),
                                                                    static_cast<size_t>(*bytes)));
  panels_ = reinterpret_cast<unsigned char*>(data);
  ref_.data = panels_;
  ref_.panel_bytes = panel_bytes;
  return {};
}

Status PackedMatrix::SetGroups(const Means& means, WeightType type, int64_t group) {
  ref_.type = type;
  ref_.group = group;
  ref_.groups = (ref_.cols + group - 1) / group;
  ref_.group_inputs = RoundUp(group, 8);
  ref_.group_bytes = ref_.group_inputs * kLanes / (type == WeightType::kInt4 ? 2 : 1);
  ref_.group_stride = ref_.group_bytes + kLineBytes + (type == WeightType::kInt4 ? kLanes : 0);
  return AllocatePanels(means, ref_.groups * ref_.group_stride);
}

namespace {

// Calls body(tile) for all tiles, by all threads, and options.packed_a_part after every kPartBytes
// of the source.
template <typename Body>
void ForEachTile(ThreadPool& pool, int64_t panels, int64_t source_bytes, const PackOptions& options,
                 const Body& body) {
  const int64_t tiles = (panels + kTilePanels - 1) / kTilePanels;
  const int64_t part =
      std::max<int64_t>(1, tiles * kPartBytes / std::max<int64_t>(1, source_bytes));
  for (int64_t first = 0; first < tiles; first += part) {
    pool.ParallelFor(std::min(part, tiles - first), 1, [&](int64_t begin, int64_t end, int) {
      for (int64_t t = begin; t < end; ++t) body(first + t);
    });
    if (options.packed_a_part) options.packed_a_part();
  }
}

}  // namespace

Status PackedMatrix::PackFloat(const Means& means, const TensorView& matrix,
                               const PackOptions& options) {
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
      return InvalidArgument(StrCat(means.name, ": the CPU executor reads no weights of type ",
                                    DTypeName(matrix.dtype)));
  }
  if (options.quantize.has_value()) return PackRounded(means, matrix, options);
  if (ref_.type == WeightType::kBF16) ref_.activation = options.for_bf16;
  const auto element_bytes = static_cast<int64_t>(DTypeSize(matrix.dtype));
  const auto panel_bytes = CheckedProduct({RoundUp(ref_.cols, 2), kLanes, element_bytes});
  if (!panel_bytes) return ResourceExhausted(StrCat(means.name, ": too large to pack"));
  ERNE_RETURN_IF_ERROR(AllocatePanels(means, *panel_bytes));
  ForEachTile(means.pool, panels(), static_cast<int64_t>(matrix.bytes()), options, [&](int64_t t) {
    const PanelTile tile = TileAt(t);
    std::memset(tile.data, 0, static_cast<size_t>(tile.panels * ref_.panel_bytes));
    for (int64_t p = 0; p < tile.panels; ++p) {
      const int64_t first = (t * kTilePanels + p) * kLanes;
      const int64_t rows = std::min(kLanes, ref_.rows - first);
      const std::byte* source = matrix.data + first * ref_.cols * element_bytes;
      unsigned char* to = tile.data + p * 2 * kLanes * element_bytes;
      switch (ref_.type) {
        case WeightType::kF32:
          PackFloatPanel<WeightType::kF32, uint32_t>(source, rows, ref_.cols, tile.panels, to);
          break;
        case WeightType::kBF16:
          PackFloatPanel<WeightType::kBF16, uint16_t>(source, rows, ref_.cols, tile.panels, to);
          break;
        default:
          PackFloatPanel<WeightType::kF16, uint16_t>(source, rows, ref_.cols, tile.panels, to);
          break;
      }
    }
  });
  return {};
}

Status PackedMatrix::PackRounded(const Means& means, const TensorView& matrix,
                                 const PackOptions& options) {
  const RoundedForm form = RoundedFormFor(*options.quantize, ref_.cols);
  ref_.activation = options.for_integers;
  ERNE_RETURN_IF_ERROR(SetGroups(means, form.type, form.group));
  ForEachTile(means.pool, panels(), static_cast<int64_t>(matrix.bytes()), options, [&](int64_t t) {
    const int64_t first = t * kTilePanels * kLanes;
    const int64_t rows = std::min(kTilePanels * kLanes, ref_.rows - first);
    if (form.type == WeightType::kInt4) {
      PackTile(ref_, QuantizeInt4(matrix, first, rows, form.group), 0, TileAt(t));
    } else {
      PackTile(ref_, QuantizeInt8(matrix, first, rows, form.group), 0, TileAt(t));
    }
  });
  return {};
}

Status PackedMatrix::PackInt8(const Means& means, const Int8Matrix& matrix) {
  const auto rows = static_cast<size_t>(matrix.rows);
  if (matrix.group <= 0 || matrix.q.size() != rows * static_cast<size_t>(matrix.cols) ||
      matrix.scales.size() != rows * static_cast<size_t>(matrix.groups())) {
    return InvalidArgument(StrCat(means.name, ": the 8-bit arrays do not have the sizes of a [",
                                  matrix.rows, ", ", matrix.cols, "] matrix"));
  }
  ERNE_RETURN_IF_ERROR(SetGroups(means, WeightType::kInt8, KernelGroup(matrix.group)));
  ForEachTile(means.pool, panels(), 0, {},
              [&](int64_t t) { PackTile(ref_, matrix, t * kTilePanels * kLanes, TileAt(t)); });
  return {};
}

Status PackedMatrix::PackInt4(const Means& means, const Int4Matrix& matrix,
                              const PackedMatrix* like) {
  ERNE_RETURN_IF_ERROR(CheckInt4(means.name, matrix));
  ERNE_RETURN_IF_ERROR(SetGroups(means, WeightType::kInt4, KernelGroup(matrix.group)));
  ForEachTile(means.pool, panels(), 0, {},
              [&](int64_t t) { PackTile(ref_, matrix, t * kTilePanels * kLanes, TileAt(t)); });
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

Status PackedMatrix::PackBias(const Means& means, const TensorView& bias) {
  if (bias.elements() != ref_.rows || !IsFloat(bias.dtype)) {
    return InvalidArgument(StrCat(means.name, ": the bias is ", DTypeName(bias.dtype), " ",
                                  ShapeString(bias.shape), ", not ", ref_.rows, " floats"));
  }
  const auto rows = static_cast<size_t>(ref_.rows);
  ERNE_ASSIGN_OR_RETURN(std::byte* const data,
                        means.arena.Allocate(means.name, rows * sizeof(float)));
  auto* floats = reinterpret_cast<float*>(data);
  CopyToFloat(bias, 0, {floats, rows});
  ref_.bias = floats;
  return {};
}

Result<PackedMatrix> PackedMatrix::Pack(const std::string& name, const LinearWeights& weights,
                                        int64_t rows, int64_t cols, Arena& arena, ThreadPool& pool,
                                        const PackOptions& options) {
  if (!weights.present()) return InvalidArgument(StrCat(name, ": the weights are absent"));
  const auto* view = std::get_if<TensorView>(&weights.matrix);
  const bool shaped = view == nullptr || view->shape == Shape{rows, cols};
  if (!shaped || weights.rows() != rows || weights.cols() != cols || rows <= 0 || cols <= 0) {
    return InvalidArgument(StrCat(name, ": the weights are [", weights.rows(), ", ", weights.cols(),
                                  "], not [", rows, ", ", cols, "]"));
  }
  const Means means = {name, arena, pool};
  PackedMatrix packed;
  packed.ref_.rows = rows;
  packed.ref_.cols = cols;
  if (view != nullptr) {
    ERNE_RETURN_IF_ERROR(packed.PackFloat(means, *view, options));
  } else {
    packed.ref_.activation = options.for_integers;
    if (const auto* int8 = std::get_if<Int8Matrix>(&weights.matrix)) {
      ERNE_RETURN_IF_ERROR(packed.PackInt8(means, *int8));
    } else if (weights.unpack) {
      ERNE_ASSIGN_OR_RETURN(const Int4Matrix unpacked, weights.unpack());
      ERNE_RETURN_IF_ERROR(packed.PackInt4(means, unpacked, options.like));
      if (options.packed_a_part) options.packed_a_part();
    } else {
      ERNE_RETURN_IF_ERROR(
          packed.PackInt4(means, std::get<Int4Matrix>(weights.matrix), options.like));
    }
  }
  if (weights.bias.has_value()) ERNE_RETURN_IF_ERROR(packed.PackBias(means, *weights.bias));
  return packed;
}

uint64_t PackedMatrix::bytes() const {
  const auto rows = static_cast<uint64_t>(ref_.rows);
  return static_cast<uint64_t>(panels() * ref_.panel_bytes) +
         (ref_.bias == nullptr ? 0 : rows * sizeof(float)) +
         (order_ == nullptr ? 0 : order_->size() * sizeof(int32_t));
}

PanelTile PackedMatrix::TileAt(int64_t tile) const {
  return {panels_ + tile * kTilePanels * ref_.panel_bytes,
          std::min(kTilePanels, panels() - tile * kTilePanels)};
}

void PackedMatrix::CopyRow(int64_t row, float* out) const {
  ERNE_DCHECK(row >= 0 && row < ref_.rows);
  const int64_t panel = row / kLanes;
  const PanelTile tile = TileAt(panel / kTilePanels);
  if (ref_.type == WeightType::kInt8 || ref_.type == WeightType::kInt4)
    return UnpackLane(ref_, tile, panel % kTilePanels, row % kLanes, out);
  const int64_t element_bytes = ref_.type == WeightType::kF32 ? 4 : 2;
  const unsigned char* from = tile.data + panel % kTilePanels * 2 * kLanes * element_bytes;
  for (int64_t col = 0; col < ref_.cols; ++col) {
    const int64_t index = ElementIndex(ref_.type, col, row % kLanes, tile.panels);
    if (ref_.type == WeightType::kF32) {
      std::memcpy(&out[col], from + index * 4, sizeof(float));
      continue;
    }
    uint16_t bits;
    std::memcpy(&bits, from + index * 2, sizeof(bits));
    out[col] = ref_.type == WeightType::kBF16 ? Bf16ToFloat(bits) : F16ToFloat(bits);
  }
}

}  // namespace erne::cpu
