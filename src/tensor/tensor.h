// A typed, shaped view of bytes that somebody else owns. Row-major, no strides.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "tensor/dtype.h"

namespace erne {

using Shape = std::vector<int64_t>;

std::string ShapeString(const Shape& shape);  // "[103424, 1024]"
int64_t NumElements(const Shape& shape);      // 1 for a scalar

// Plain data; copying copies the view, not the bytes. The bytes need not be aligned (safetensors promises nothing).
struct TensorView {
  DType dtype = DType::kF32;
  Shape shape;
  const std::byte* data = nullptr;

  int64_t elements() const { return NumElements(shape); }
  size_t bytes() const { return static_cast<size_t>(elements()) * DTypeSize(dtype); }
};

// Elements [begin, begin + out.size()) of a float tensor (f32, f16, bf16), converted exactly. CHECKs the type and range.
void CopyToFloat(const TensorView& tensor, int64_t begin, std::span<float> out);
// All elements.
std::vector<float> ToFloats(const TensorView& tensor);

}  // namespace erne
