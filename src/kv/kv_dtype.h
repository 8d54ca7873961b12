// The types in which keys and values may be kept. A cache in fewer bytes holds more tokens and is
// read faster; what it costs in accuracy is in docs/performance.md.
//
// What is kept for a position depends on its own k and v alone, so no type makes a result depend on
// the batch or on the blocks.
#pragma once

#include <cstdint>

namespace erne {

enum class KvDType : uint8_t {
  kF32,
  kBF16,  // rounded to nearest, ties to even
  kF16,   // the same; beyond the range it saturates at +-65504, so a large key stays a large key
  kInt8,  // q = round(x / scale), scale = max |x| / 127: one float32 scale for the k and one for
          // the v of each position and kv head
};

// "f32", "bf16", "f16", "int8".
const char* KvDTypeName(KvDType dtype);

}  // namespace erne
