#include "tensor/tensor.h"

#include <cstring>

#include "base/check.h"
#include "base/strings.h"

namespace erne {
namespace {

// out[i] = convert(element begin + i); elements are copied out because they may be unaligned.
template <typename Element, typename Convert>
void ConvertRange(const std::byte* data, std::span<float> out, Convert convert) {
  for (size_t i = 0; i < out.size(); ++i) {
    Element element;
    std::memcpy(&element, data + i * sizeof(Element), sizeof(Element));
    out[i] = convert(element);
  }
}

}  // namespace

std::string ShapeString(const Shape& shape) { return StrCat("[", Join(shape, ", "), "]"); }

int64_t NumElements(const Shape& shape) {
  int64_t count = 1;
  for (const int64_t extent : shape) count *= extent;
  return count;
}

void CopyToFloat(const TensorView& tensor, int64_t begin, std::span<float> out) {
  ERNE_CHECK(IsFloat(tensor.dtype)) << DTypeName(tensor.dtype);
  const int64_t total = tensor.elements();
  const auto count = static_cast<int64_t>(out.size());
  ERNE_CHECK(begin >= 0 && begin <= total && count <= total - begin)
      << "elements [" << begin << ", +" << count << ") of " << total;
  if (out.empty()) return;
  const std::byte* data = tensor.data + static_cast<size_t>(begin) * DTypeSize(tensor.dtype);
  switch (tensor.dtype) {
    case DType::kF32:
      std::memcpy(out.data(), data, out.size_bytes());
      return;
    case DType::kF16:
      ConvertRange<uint16_t>(data, out, F16ToFloat);
      return;
    default:
      ConvertRange<uint16_t>(data, out, Bf16ToFloat);
      return;
  }
}

std::vector<float> ToFloats(const TensorView& tensor) {
  std::vector<float> out(static_cast<size_t>(tensor.elements()));
  CopyToFloat(tensor, 0, out);
  return out;
}

}  // namespace erne
