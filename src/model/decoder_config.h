// The parts of config.json that all decoder families spell alike.
#pragma once

#include "model/config_reader.h"
#include "model/model_spec.h"

namespace erne {

// Sizes beyond which a config is nonsense; far above any published model.
inline constexpr int64_t kMaxLayers = 1024;
inline constexpr int64_t kMaxExperts = 4096;

// What an absent field means in this family (transformers' configuration_*.py).
struct DecoderDefaults {
  RopeStyle rope_style = RopeStyle::kHalves;
  double rope_theta = 10000.0;
  double norm_eps = 1e-6;
  bool tied_head = false;
};

// Everything but biases, qk_norm, the FFN widths and the kinds of layers (spec.layers is sized, all
// kDense). Faults go to `reader`: missing or impossible numbers, an activation other than SiLU, a
// rope scaling that we do not know.
ModelSpec ReadDecoder(ConfigReader& reader, const DecoderDefaults& defaults);

// Refuses sliding-window attention where it would change the result: a window, switched on, that is
// shorter than the context and reaches some layer. `first_windowed_layer`: layers below it are full
// attention.
void RefuseSlidingWindow(ConfigReader& reader, const ModelSpec& spec, bool switched_on,
                         int64_t first_windowed_layer);

// The fields of Qwen2 and Qwen3: `use_sliding_window` for the layers from `max_window_layers` on.
void RefuseQwenSlidingWindow(ConfigReader& reader, const ModelSpec& spec);

// `attention_bias`: on all four projections of the attention; false where it is absent.
void ReadAttentionBias(ConfigReader& reader, ModelSpec& spec);

// `layers` of `spec` become kMoe where `is_moe(layer)`.
template <typename IsMoe>
void MarkMoeLayers(ModelSpec& spec, IsMoe is_moe) {
  for (int64_t layer = 0; layer < spec.num_layers(); ++layer) {
    if (is_moe(layer)) spec.layers[static_cast<size_t>(layer)] = FfnKind::kMoe;
  }
}

}  // namespace erne
