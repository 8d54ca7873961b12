// How a checkpoint's matrices are quantised: the `quantization_config` of config.json.
#pragma once

#include <cstdint>
#include <string>

#include "base/json.h"
#include "base/status.h"
#include "formats/int4.h"

namespace erne {

enum class QuantMethod { kNone, kAwq, kGptq };

struct QuantizationSpec {
  QuantMethod method = QuantMethod::kNone;
  int64_t group = 0;  // -1: one group spans all inputs
  GptqZeros gptq_zeros = GptqZeros::kMinusOne;
  bool act_order = false;  // GPTQ: g_idx is needed

  // The group of a matrix with `cols` inputs.
  int64_t GroupOf(int64_t cols) const { return group == -1 ? cols : group; }
};

// Refuses, naming the field: other methods, other widths than 4 bits, other layouts than we unpack.
Result<QuantizationSpec> ReadQuantization(const Json& config);

}  // namespace erne
