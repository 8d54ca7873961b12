// Llama 2 and 3 (transformers configuration_llama.py).
#include "model/arch/architectures.h"
#include "model/decoder_config.h"

namespace erne {
namespace {

Result<ModelSpec> ReadSpec(const Json& config) {
  ConfigReader reader(config);
  ModelSpec spec = ReadDecoder(reader, {});
  ReadAttentionBias(reader, spec);
  spec.mlp_bias = reader.FlagOr("mlp_bias", false);
  spec.dense_intermediate = reader.Count("intermediate_size");
  if (!reader.ok()) return reader.status();
  return spec;
}

}  // namespace

Architecture LlamaArchitecture() {
  return {.model_type = "llama", .read_spec = ReadSpec, .names = {}};
}

}  // namespace erne
