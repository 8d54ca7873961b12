#include "formats/int8.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/check.h"

namespace erne {
namespace {

// Calls body(row, group, first column, the group's elements) for each group of some rows.
template <typename Body>
void ForEachGroup(const TensorView& matrix, int64_t row_begin, int64_t count, int64_t group,
                  const Body& body) {
  ERNE_CHECK(matrix.shape.size() == 2 && group > 0) << ShapeString(matrix.shape);
  const int64_t cols = matrix.shape[1];
  std::vector<float> row(static_cast<size_t>(cols));
  for (int64_t r = 0; r < count; ++r) {
    CopyToFloat(matrix, (row_begin + r) * cols, row);
    for (int64_t c = 0; c < cols; c += group) {
      const int64_t length = std::min(group, cols - c);
      body(r, c / group, c, std::span<const float>(row).subspan(c, length));
    }
  }
}

bool AllFinite(std::span<const float> values) {
  return std::all_of(values.begin(), values.end(), [](float v) { return std::isfinite(v); });
}

// Below this the reciprocal of a scale is no longer a normal number, and the group is 0.
constexpr float kSmallest = 0x1p-100F;

}  // namespace

void DequantizeRow(const Int8Matrix& matrix, int64_t row, std::span<float> out) {
  ERNE_CHECK(row >= 0 && row < matrix.rows) << "row " << row << " of " << matrix.rows;
  ERNE_CHECK(static_cast<int64_t>(out.size()) == matrix.cols)
      << out.size() << " for " << matrix.cols;
  for (int64_t c = 0; c < matrix.cols; ++c) {
    out[c] = static_cast<float>(matrix.q[row * matrix.cols + c]) *
             matrix.scales[row * matrix.groups() + c / matrix.group];
  }
}

Int8Matrix QuantizeInt8(const TensorView& matrix, int64_t row_begin, int64_t count, int64_t group) {
  Int8Matrix out;
  out.rows = count;
  out.cols = matrix.shape.at(1);
  out.group = group;
  out.q.resize(static_cast<size_t>(count * out.cols));
  out.scales.resize(static_cast<size_t>(count * out.groups()));
  ForEachGroup(matrix, row_begin, count, group,
               [&](int64_t r, int64_t g, int64_t begin, std::span<const float> values) {
                 float& scale = out.scales[r * out.groups() + g];
                 float largest = 0;
                 for (const float v : values) largest = std::max(largest, std::abs(v));
                 scale = AllFinite(values) ? largest / 127 : std::numeric_limits<float>::quiet_NaN();
                 if (!(largest >= kSmallest) || !AllFinite(values)) return;  // q stays 0
                 const float inverse = 127 / largest;
                 int8_t* q = out.q.data() + r * out.cols + begin;
                 for (const float v : values)
                   *q++ = static_cast<int8_t>(std::nearbyint(v * inverse));
               });
  return out;
}

Int4Matrix QuantizeInt4(const TensorView& matrix, int64_t row_begin, int64_t count, int64_t group) {
  Int4Matrix out;
  out.rows = count;
  out.cols = matrix.shape.at(1);
  out.group = group;
  ERNE_CHECK(group > 0 && group % 2 == 0 && out.cols % group == 0) << group << " of " << out.cols;
  const int64_t groups = out.cols / group;
  out.q.resize(static_cast<size_t>(count * (out.cols / 2)));
  out.scales.resize(static_cast<size_t>(count * groups));
  out.zeros.resize(static_cast<size_t>(count * groups));
  ForEachGroup(matrix, row_begin, count, group,
               [&](int64_t r, int64_t g, int64_t begin, std::span<const float> values) {
                 const auto [low, high] = std::minmax_element(values.begin(), values.end());
                 const float smallest = std::min(0.0F, *low);
                 const float range = std::max(0.0F, *high) - smallest;
                 float& scale = out.scales[r * groups + g];
                 scale = AllFinite(values) ? range / 15 : std::numeric_limits<float>::quiet_NaN();
                 if (!(range >= kSmallest) || !AllFinite(values)) return;  // q and zero stay 0
                 const float inverse = 15 / range;
                 const float zero = std::nearbyint(-smallest * inverse);
                 out.zeros[r * groups + g] = static_cast<uint8_t>(zero);
                 for (size_t i = 0; i < values.size(); ++i) {
                   const float q = std::nearbyint(values[i] * inverse) + zero;
                   const auto nibble = static_cast<uint8_t>(std::clamp(q, 0.0F, 15.0F));
                   const int64_t c = begin + static_cast<int64_t>(i);
                   out.q[r * (out.cols / 2) + c / 2] |= static_cast<uint8_t>(nibble << (c % 2 * 4));
                 }
               });
  return out;
}

int64_t Int4GroupFor(int64_t cols, int64_t wanted) {
  for (int64_t group = std::min(cols, wanted) / 2 * 2; group >= kLeastInt4Group; group -= 2) {
    if (cols % group == 0) return group;
  }
  return 0;
}

}  // namespace erne
