// Test helper: builds safetensors files in memory, good ones and broken ones.
#pragma once

#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/strings.h"
#include "tensor/tensor.h"

namespace erne {

// An 8-byte little-endian length, the header as given, the data as given.
inline std::string SafetensorsFile(std::string_view header, std::string_view data,
                                   uint64_t claimed_header_size) {
  std::string file;
  for (int i = 0; i < 8; ++i) file.push_back(static_cast<char>(claimed_header_size >> (8 * i)));
  file += header;
  file += data;
  return file;
}
inline std::string SafetensorsFile(std::string_view header, std::string_view data) {
  return SafetensorsFile(header, data, header.size());
}

// Tensors one after the other, as the reference implementation writes them.
class SafetensorsBuilder {
 public:
  void Add(const std::string& name, DType dtype, const Shape& shape, std::string_view bytes) {
    Json::Array extents;
    for (const int64_t extent : shape) extents.emplace_back(extent);
    header_.Set(
        name,
        Json::Of({{"dtype", DTypeName(dtype)},
                  {"shape", Json(std::move(extents))},
                  {"data_offsets", Json(Json::Array{data_.size(), data_.size() + bytes.size()})}}));
    data_ += bytes;
  }
  template <typename T>
  void Add(const std::string& name, DType dtype, const Shape& shape, const std::vector<T>& values) {
    Add(name, dtype, shape,
        std::string_view(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)));
  }
  void Add(const std::string& name, const TensorView& view) {
    Add(name, view.dtype, view.shape,
        std::string_view(reinterpret_cast<const char*>(view.data), view.bytes()));
  }

  std::string Build() const { return SafetensorsFile(header_.Dump(), data_); }

 private:
  Json header_ = Json::Of({{"__metadata__", Json::Of({{"format", "pt"}})}});
  std::string data_;
};

inline std::span<const std::byte> AsBytes(std::string_view text) {
  return std::as_bytes(std::span(text));
}

}  // namespace erne
