#include "executor/rope.h"

#include <cmath>
#include <numbers>

#include "base/check.h"
#include "tensor/dtype.h"

namespace erne {
namespace {

// transformers' _compute_llama3_parameters, in its own order and float32: long wavelengths are
// stretched by `factor`, short ones kept, those between blended.
float Llama3Frequency(const RopeSpec& spec, float frequency) {
  const auto original = static_cast<float>(spec.original_max_positions);
  const auto factor = static_cast<float>(spec.factor);
  const auto low = static_cast<float>(spec.low_freq_factor);
  const auto high = static_cast<float>(spec.high_freq_factor);
  const float wavelength = 2.0F * std::numbers::pi_v<float> / frequency;
  if (wavelength > original / low) return frequency / factor;
  if (wavelength < original / high) return frequency;
  const float smooth = (original / wavelength - low) / (high - low);
  return (1.0F - smooth) * frequency / factor + smooth * frequency;
}

}  // namespace

Rope::Rope(const RopeSpec& spec, int64_t head_dim) : style_(spec.style) {
  ERNE_CHECK(head_dim > 0 && head_dim % 2 == 0) << "head_dim " << head_dim;
  const auto theta = static_cast<float>(spec.theta);
  for (int64_t pair = 0; pair < head_dim / 2; ++pair) {
    const float exponent = static_cast<float>(2 * pair) / static_cast<float>(head_dim);
    float frequency = 1.0F / std::pow(theta, exponent);
    if (spec.scaling == RopeScaling::kLlama3) frequency = Llama3Frequency(spec, frequency);
    if (spec.bf16_frequencies) frequency = Bf16ToFloat(FloatToBf16(frequency));
    frequencies_.push_back(frequency);
  }
}

void Rope::Angles(int64_t position, std::span<float> cos, std::span<float> sin) const {
  ERNE_DCHECK(cos.size() == frequencies_.size() && sin.size() == frequencies_.size());
  for (size_t pair = 0; pair < frequencies_.size(); ++pair) {
    const float angle = static_cast<float>(position) * frequencies_[pair];
    cos[pair] = std::cos(angle);
    sin[pair] = std::sin(angle);
  }
}

void Rope::Rotate(std::span<const float> cos, std::span<const float> sin,
                  std::span<float> head) const {
  const size_t pairs = frequencies_.size();
  ERNE_DCHECK(head.size() == 2 * pairs && cos.size() == pairs && sin.size() == pairs);
  const bool interleaved = style_ == RopeStyle::kInterleaved;
  for (size_t pair = 0; pair < pairs; ++pair) {
    float& first = head[interleaved ? 2 * pair : pair];
    float& second = head[interleaved ? 2 * pair + 1 : pair + pairs];
    const float a = first;
    const float b = second;
    first = a * cos[pair] - b * sin[pair];
    second = b * cos[pair] + a * sin[pair];
  }
}

}  // namespace erne
