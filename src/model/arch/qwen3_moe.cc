// Qwen3, mixture of experts (transformers configuration_qwen3_moe.py, modeling_qwen3_moe.py).
#include <set>

#include "base/strings.h"
#include "model/arch/architectures.h"
#include "model/decoder_config.h"

namespace erne {
namespace {

void ReadMoe(ConfigReader& reader, MoeSpec& moe) {
  // Newer configs use transformers' common name.
  const std::string_view experts_key =
      reader.Has("num_experts") ? "num_experts" : "num_local_experts";
  moe.routing.experts = reader.Count(experts_key, kMaxExperts);
  moe.routing.top_k = reader.Count("num_experts_per_tok", moe.routing.experts);
  moe.routing.renormalize = reader.FlagOr("norm_topk_prob", false);
  moe.intermediate = reader.Count("moe_intermediate_size");
}

// Layers that are dense whatever the step says.
std::set<int64_t> ReadDenseLayers(ConfigReader& reader) {
  constexpr std::string_view kKey = "mlp_only_layers";
  std::set<int64_t> layers;
  if (!reader.Has(kKey)) return layers;
  const Json& list = *reader.object().Find(kKey);
  if (!list.is_array() || list.AsArray().size() > static_cast<size_t>(kMaxLayers)) {
    reader.Fail(kKey, StrCat("must be a list of at most ", kMaxLayers, " layers"));
    return layers;
  }
  for (const Json& item : list.AsArray()) {
    if (!item.is_int()) {
      reader.Fail(kKey, "must list integers");
      return layers;
    }
    layers.insert(item.AsInt());
  }
  return layers;
}

Result<ModelSpec> ReadSpec(const Json& config) {
  ConfigReader reader(config);
  ModelSpec spec = ReadDecoder(reader, {});
  ReadAttentionBias(reader, spec);
  spec.attention.qk_norm = true;
  ReadMoe(reader, spec.moe);
  const int64_t step = reader.CountOr("decoder_sparse_step", 1);
  const std::set<int64_t> dense = ReadDenseLayers(reader);
  MarkMoeLayers(spec,
                [&](int64_t layer) { return dense.count(layer) == 0 && (layer + 1) % step == 0; });
  spec.dense_intermediate = reader.Count("intermediate_size");
  RefuseSlidingWindow(reader, spec, reader.FlagOr("use_sliding_window", false), 0);
  if (!reader.ok()) return reader.status();
  return spec;
}

}  // namespace

Architecture Qwen3MoeArchitecture() {
  return {.model_type = "qwen3_moe", .read_spec = ReadSpec, .names = {}};
}

}  // namespace erne
