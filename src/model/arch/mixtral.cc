// Mixtral (transformers configuration_mixtral.py, modeling_mixtral.py): every layer is MoE; softmax
// over all experts, then top-k, then weights that sum to one.
#include "model/arch/architectures.h"
#include "model/decoder_config.h"

namespace erne {
namespace {

Result<ModelSpec> ReadSpec(const Json& config) {
  ConfigReader reader(config);
  ModelSpec spec = ReadDecoder(reader, {.rope_theta = 1e6, .norm_eps = 1e-5});
  spec.moe.routing.experts = reader.Count("num_local_experts", kMaxExperts);
  spec.moe.routing.top_k = reader.Count("num_experts_per_tok", spec.moe.routing.experts);
  spec.moe.routing.renormalize = true;
  spec.moe.intermediate = reader.Count("intermediate_size");
  MarkMoeLayers(spec, [](int64_t) { return true; });
  RefuseSlidingWindow(reader, spec, true, 0);
  if (!reader.ok()) return reader.status();
  return spec;
}

}  // namespace

Architecture MixtralArchitecture() {
  return {.model_type = "mixtral",
          .read_spec = ReadSpec,
          .names = {.moe_block = "block_sparse_moe",
                    .expert_gate = "w1",
                    .expert_up = "w3",
                    .expert_down = "w2"}};
}

}  // namespace erne
