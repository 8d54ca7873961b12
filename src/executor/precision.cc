#include "executor/precision.h"

#include "base/strings.h"

namespace erne {

Result<ActivationDType> ParseActivationDType(const std::string& name) {
  if (name == "auto") return ActivationDType::kAuto;
  if (name == "f32") return ActivationDType::kF32;
  if (name == "bf16") return ActivationDType::kBF16;
  if (name == "int8") return ActivationDType::kInt8;
  return InvalidArgument(
      StrCat("\"", name, "\" is no type of activations; there are auto, f32, bf16, int8"));
}

Quantization ParseQuantization(const std::string& name) {
  if (name == "int8") return Quantization::kInt8;
  if (name == "int4") return Quantization::kInt4;
  return Quantization::kNone;
}

const char* QuantizationName(Quantization quantization) {
  switch (quantization) {
    case Quantization::kInt8:
      return "int8";
    case Quantization::kInt4:
      return "int4";
    case Quantization::kNone:
      break;
  }
  return "none";
}

}  // namespace erne
