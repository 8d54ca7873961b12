// Routing rules: from router logits to chosen experts and their weights. Used by every CPU-side
// executor, so that routing is one piece of code (the CUDA kernels are tested against it).
#pragma once

#include <cstdint>
#include <span>

#include "model/model_spec.h"

namespace erne {

// One token. logits: [experts] float32; correction_bias: [experts], empty when the rule has none;
// ids, weights: [top_k], written in order of falling selection score, ties to the lower expert
// index. scratch: [2 * experts]. All arithmetic float32, in a fixed order. Source of the rule:
// transformers' modeling_ernie4_5_moe.py (Ernie4_5_MoeSparseMoeBlock); see RoutingSpec.
void RouteToken(const RoutingSpec& spec, std::span<const float> logits,
                std::span<const float> correction_bias, std::span<int32_t> ids,
                std::span<float> weights, std::span<float> scratch);

}  // namespace erne
