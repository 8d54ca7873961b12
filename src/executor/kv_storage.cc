#include "executor/kv_storage.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "kv/block_pool.h"
#include "tensor/dtype.h"

namespace erne {
namespace {

int64_t ElementBytes(KvDType dtype) {
  switch (dtype) {
    case KvDType::kF32:
      return 4;
    case KvDType::kBF16:
    case KvDType::kF16:
      return 2;
    case KvDType::kInt8:
      return 1;
  }
  return 0;
}

void RoundToInt8(std::span<float> x) {
  float largest = 0;
  for (const float value : x) {
    if (!std::isfinite(value)) {
      std::fill(x.begin(), x.end(), std::numeric_limits<float>::quiet_NaN());
      return;
    }
    largest = std::max(largest, std::abs(value));
  }
  // 127 / largest must stay finite; heads this small are zeros to everything that reads them.
  if (largest < 0x1p-100F) {
    std::fill(x.begin(), x.end(), 0.0F);
    return;
  }
  const float scale = largest / 127;
  const float inverse = 127 / largest;
  for (float& value : x) value = std::nearbyint(value * inverse) * scale;
}

}  // namespace

int64_t KvHeadBlockBytes(int64_t head_dim, KvDType dtype) {
  constexpr int64_t kLanes = 16;  // of a vector: no kernel wants a row of V that ends within one
  const int64_t padded = (head_dim + kLanes - 1) / kLanes * kLanes;
  const int64_t scales = dtype == KvDType::kInt8 ? 2 * static_cast<int64_t>(sizeof(float)) : 0;
  return kKvBlockSize * ((head_dim + padded) * ElementBytes(dtype) + scales);
}

uint64_t KvBlockBytes(const ModelSpec& spec, KvDType dtype) {
  return static_cast<uint64_t>(spec.num_layers() * spec.attention.kv_heads *
                               KvHeadBlockBytes(spec.attention.head_dim, dtype));
}

void RoundLikeKvCache(KvDType dtype, std::span<float> x) {
  constexpr float kLargestF16 = 65504;
  switch (dtype) {
    case KvDType::kF32:
      return;
    case KvDType::kBF16:
      for (float& value : x) value = Bf16ToFloat(FloatToBf16(value));
      return;
    case KvDType::kF16:
      for (float& value : x) {
        value = F16ToFloat(FloatToF16(std::clamp(value, -kLargestF16, kLargestF16)));
      }
      return;
    case KvDType::kInt8:
      RoundToInt8(x);
      return;
  }
}

}  // namespace erne
