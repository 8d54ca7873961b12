// Test helper: small models with random weights.
#pragma once

#include <memory>
#include <string>

#include "base/json.h"
#include "bench/shapes.h"

namespace erne::bench {

// A mixture of experts, its first layer dense.
inline ModelSpec SmallSpec(bool moe = true) {
  Json config = Json::Parse(R"({
      "hidden_size": 64, "num_hidden_layers": 3, "num_attention_heads": 4, "num_key_value_heads": 2,
      "head_dim": 32, "intermediate_size": 96, "vocab_size": 320, "max_position_embeddings": 512,
      "moe_num_experts": 8, "moe_k": 2, "moe_intermediate_size": 32, "moe_num_shared_experts": 1})")
                    .value();
  config.Set("model_type", moe ? "ernie4_5_moe" : "ernie4_5");
  return SpecFromConfig(config).value();
}

inline std::shared_ptr<const Model> SmallModel(WeightForm form, bool moe = true, uint64_t seed = 0,
                                               int threads = 1) {
  return MakeRandomModel(SmallSpec(moe), form, seed, threads).value();
}

}  // namespace erne::bench
