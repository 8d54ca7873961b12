// safetensors: an 8-byte little-endian header length, a JSON header, then raw tensor bytes.
// Format: https://github.com/huggingface/safetensors (README, "Format").
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>

#include "base/status.h"
#include "tensor/tensor.h"

namespace erne {

// The header is at most 100 MB, as in the reference implementation.
inline constexpr uint64_t kMaxSafetensorsHeader = 100'000'000;

// The tensors of one file by name; views into `bytes`, which must outlive them. Every field is
// checked against the file: known dtype, non-negative shape without overflow, offsets inside the
// data, size equal to shape x dtype, no overlap, no bytes left over. Errors (DataLoss for a
// truncated file, InvalidArgument else) name the tensor and the numbers.
Result<std::map<std::string, TensorView>> ParseSafetensors(std::span<const std::byte> bytes);

}  // namespace erne
