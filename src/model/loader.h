// Tensors of a checkpoint -> ModelWeights, for any architecture.
#pragma once

#include <memory>
#include <string>

#include "base/status.h"
#include "formats/checkpoint.h"
#include "model/architecture.h"
#include "model/quantization.h"
#include "model/weights.h"

namespace erne {

struct LoadedWeights {
  ModelWeights weights;
  std::string precision;  // Model::precision
};

// Walks `spec`, finds every tensor that it asks for and checks its type and shape; then unpacks
// 4-bit matrices (on all CPUs), or with `unpack` false only notes their sizes. Errors name up to
// ten missing, misshapen and unused tensors each, and how many there are.
Result<LoadedWeights> LoadWeights(const ModelSpec& spec, const Architecture& architecture,
                                  const QuantizationSpec& quantization,
                                  std::shared_ptr<const Checkpoint> checkpoint, bool unpack);

}  // namespace erne
