// One decoder family: how its config.json becomes a ModelSpec, and what its checkpoints call the
// parts.
//
// A new family is one file in arch/ (a function that fills a ModelSpec, and a row of names), a line
// in arch/architectures.h and in the table of architecture.cc.
#pragma once

#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/status.h"
#include "model/model_spec.h"

namespace erne {

// Names below `model.layers.N.`; everything else is called the same in all families.
struct TensorNames {
  std::string_view dense_mlp = "mlp";
  std::string_view moe_block = "mlp";  // the names below are below this one
  std::string_view router = "gate.weight";
  std::string_view correction_bias = "moe_statics.e_score_correction_bias";
  std::string_view experts = "experts";  // then .E.
  std::string_view shared_expert = "shared_experts";
  // Of an expert; dense and shared MLPs say gate_proj, up_proj, down_proj in all families.
  std::string_view expert_gate = "gate_proj";
  std::string_view expert_up = "up_proj";
  std::string_view expert_down = "down_proj";
};

struct Architecture {
  std::string_view model_type;
  Result<ModelSpec> (*read_spec)(const Json& config);
  TensorNames names;
  // Tensors whose name contains one of these are not for us.
  std::vector<std::string_view> skipped = {};
};

// nullptr when unknown.
const Architecture* FindArchitecture(std::string_view model_type);

// The architecture of a config, or why there is none: no model_type, a vision-language model, an
// unknown one.
Result<const Architecture*> ArchitectureOf(const Json& config);

}  // namespace erne
