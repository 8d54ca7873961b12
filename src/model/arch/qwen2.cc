// Qwen2 and Qwen2.5 (transformers configuration_qwen2.py, modeling_qwen2.py): bias on q, k and v,
// always.
#include "model/arch/architectures.h"
#include "model/decoder_config.h"

namespace erne {
namespace {

Result<ModelSpec> ReadSpec(const Json& config) {
  ConfigReader reader(config);
  ModelSpec spec = ReadDecoder(reader, {});
  spec.attention.qkv_bias = true;
  spec.dense_intermediate = reader.Count("intermediate_size");
  RefuseQwenSlidingWindow(reader, spec);
  if (!reader.ok()) return reader.status();
  return spec;
}

}  // namespace

Architecture Qwen2Architecture() {
  return {.model_type = "qwen2", .read_spec = ReadSpec, .names = {}};
}

}  // namespace erne
