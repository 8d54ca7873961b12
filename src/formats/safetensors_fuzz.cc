// Any bytes as a safetensors file: what parses must be readable to its last byte.
#include <cstdint>
#include <cstring>

#include "base/check.h"
#include "formats/safetensors.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto tensors = erne::ParseSafetensors({reinterpret_cast<const std::byte*>(data), size});
  if (!tensors.ok()) {
    ERNE_CHECK(!tensors.status().message().empty());
    return 0;
  }
  for (const auto& [name, view] : *tensors) {
    if (erne::IsFloat(view.dtype)) {
      (void)erne::ToFloats(view);
    } else if (view.bytes() > 0) {
      std::byte copy[8];
      std::memcpy(copy, view.data, erne::DTypeSize(view.dtype));
      std::memcpy(copy, view.data + view.bytes() - 1, 1);
    }
    (void)erne::ShapeString(view.shape);
  }
  return 0;
}
