// How a checkpoint's matrices are quantised: the `quantization_config` of config.json.
#pragma once

#include <cstdint>
#include <string>

#include "base/json.h"
#include "base/status.h"

namespace erne {

enum class QuantMethod { kNone, kAwq };

struct QuantizationSpec {
  QuantMethod method = QuantMethod::kNone;
  int64_t group = 0;  // -1: one group spans all inputs

  // The group of a matrix with `cols` inputs.
  int64_t GroupOf(int64_t cols) const { return group == -1 ? cols : group; }
};

// Refuses, naming the field: other methods, other widths than 4 bits, other layouts than we unpack.
Result<QuantizationSpec> ReadQuantization(const Json& config);

}  // namespace erne
