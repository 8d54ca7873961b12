// ERNIE-4.5, dense (transformers configuration_ernie4_5.py, modeling_ernie4_5.py).
#include "model/arch/ernie4_5.h"

#include "model/arch/architectures.h"
#include "model/decoder_config.h"

namespace erne {
namespace {

Result<ModelSpec> ReadSpec(const Json& config) {
  ConfigReader reader(config);
  ModelSpec spec = ReadErnie45Decoder(reader);
  if (!reader.ok()) return reader.status();
  return spec;
}

}  // namespace

ModelSpec ReadErnie45Decoder(ConfigReader& reader) {
  ModelSpec spec = ReadDecoder(reader, {.rope_style = RopeStyle::kInterleaved,
                                        .rope_theta = 500000.0,
                                        .norm_eps = 1e-5,
                                        .tied_head = true});
  const bool bias = reader.FlagOr("use_bias", false);
  spec.attention.qkv_bias = bias;
  spec.attention.output_bias = bias;
  spec.mlp_bias = bias;
  spec.dense_intermediate = reader.Count("intermediate_size");
  return spec;
}

Architecture Ernie45Architecture() {
  // mtp: heads for the model's own speculative decoding.
  return {.model_type = "ernie4_5", .read_spec = ReadSpec, .names = {}, .skipped = {"mtp"}};
}

}  // namespace erne
