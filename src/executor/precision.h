// What a user may choose about the arithmetic of an executor: the flags --activation-dtype,
// --quantization and --head-dtype.
#pragma once

#include <cstdint>
#include <string>

#include "base/status.h"

namespace erne {

// Types of the activations that products read. An executor has no kernel for every pair of types;
// what it runs is in ExecutorInfo.
enum class ActivationDType : uint8_t {
  kAuto,  // the fastest whose error is far below that of the weights' own type: bf16 for bf16
          // weights where the machine has products of them, int8 for int8 and int4 weights
  kF32,
  kBF16,  // for bf16 weights; f32 for the others
  kInt8,  // for int8 and int4 weights; f32 for the others
};

// Integers that float weights are rounded to while loading (formats/int8.h).
enum class Quantization : uint8_t { kNone, kInt8, kInt4 };

struct Precision {
  ActivationDType activation = ActivationDType::kAuto;
  Quantization quantization = Quantization::kNone;  // of the layers, and of the head
  Quantization head = Quantization::kNone;          // of the head alone; kNone: as `quantization`
};

// "auto", "f32", "bf16", "int8"; InvalidArgument names these.
Result<ActivationDType> ParseActivationDType(const std::string& name);
// "int8", "int4"; kNone for any other name.
Quantization ParseQuantization(const std::string& name);
const char* QuantizationName(Quantization quantization);

}  // namespace erne
