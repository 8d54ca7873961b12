// ERNIE-4.5, mixture of experts (transformers configuration_ernie4_5_moe.py,
// modeling_ernie4_5_moe.py).
#include "base/strings.h"
#include "model/arch/architectures.h"
#include "model/arch/ernie4_5.h"
#include "model/decoder_config.h"

namespace erne {
namespace {

void ReadMoe(ConfigReader& reader, MoeSpec& moe) {
  moe.routing.experts = reader.Count("moe_num_experts", kMaxExperts);
  moe.routing.top_k = reader.Count("moe_k", moe.routing.experts);
  // Selection by bias (DeepSeek's "auxiliary-loss-free" balancing); all published checkpoints have
  // it.
  moe.routing.correction_bias = reader.FlagOr("moe_use_aux_free", true);
  moe.routing.renormalize = true;
  moe.routing.norm_min = reader.NumberOr("moe_norm_min", 1e-12, 0.0, 1.0);
  const std::string gate = reader.TextOr("moe_gate_act", "softmax");
  if (gate != "softmax")
    reader.Fail("moe_gate_act", StrCat("`", gate, "` is not supported (softmax is)"));
  moe.intermediate = reader.Count("moe_intermediate_size");
  // The shared experts are stored as one MLP of their common width.
  const int64_t shared = reader.IntOr("moe_num_shared_experts", 2, 0, kMaxExperts);
  moe.shared_intermediate = shared * moe.intermediate;
  if (reader.ok() && moe.shared_intermediate > kMaxConfigNumber) {
    reader.Fail("moe_num_shared_experts",
                StrCat("times moe_intermediate_size is ", moe.shared_intermediate, ", above ",
                       kMaxConfigNumber));
  }
}

Result<ModelSpec> ReadSpec(const Json& config) {
  ConfigReader reader(config);
  ModelSpec spec = ReadErnie45Decoder(reader);
  ReadMoe(reader, spec.moe);
  const int64_t start = reader.IntOr("moe_layer_start_index", 1, 0, kMaxConfigNumber);
  const int64_t interval = reader.CountOr("moe_layer_interval", 1);
  int64_t end = reader.IntOr("moe_layer_end_index", -1, -1, kMaxConfigNumber);
  if (end == -1) end = spec.num_layers() - 1;
  if (!reader.ok()) return reader.status();
  MarkMoeLayers(spec, [&](int64_t layer) {
    return layer >= start && layer <= end && (layer + 1) % interval == 0;
  });
  return spec;
}

}  // namespace

Architecture Ernie45MoeArchitecture() {
  // mtp: heads for the model's own speculative decoding.
  return {.model_type = "ernie4_5_moe", .read_spec = ReadSpec, .names = {}, .skipped = {"mtp"}};
}

}  // namespace erne
