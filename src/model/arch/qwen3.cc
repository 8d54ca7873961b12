// Qwen3, dense (transformers configuration_qwen3.py, modeling_qwen3.py): RMSNorm on q and k.
#include "model/arch/architectures.h"
#include "model/decoder_config.h"

namespace erne {
namespace {

Result<ModelSpec> ReadSpec(const Json& config) {
  ConfigReader reader(config);
  ModelSpec spec = ReadDecoder(reader, {});
  ReadAttentionBias(reader, spec);
  spec.attention.qk_norm = true;
  spec.dense_intermediate = reader.Count("intermediate_size");
  RefuseQwenSlidingWindow(reader, spec);
  if (!reader.ok()) return reader.status();
  return spec;
}

}  // namespace

Architecture Qwen3Architecture() {
  return {.model_type = "qwen3", .read_spec = ReadSpec, .names = {}};
}

}  // namespace erne
