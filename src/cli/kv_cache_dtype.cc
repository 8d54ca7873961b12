#include "cli/kv_cache_dtype.h"

#include <utility>
#include <variant>

#include "base/strings.h"
#include "executor/cpu/cpu_executor.h"
#include "tensor/dtype.h"

namespace erne {
namespace {

constexpr const char* kFlag = "kv-cache-dtype";

constexpr std::pair<const char*, KvDType> kNames[] = {
    {"f32", KvDType::kF32},     {"float32", KvDType::kF32},   {"float", KvDType::kF32},
    {"bf16", KvDType::kBF16},   {"bfloat16", KvDType::kBF16}, {"f16", KvDType::kF16},
    {"float16", KvDType::kF16}, {"half", KvDType::kF16},      {"int8", KvDType::kInt8},
};

// Whether the matrices that make keys are float32 in the checkpoint.
bool IsFloat32(const Model& model) {
  if (model.weights.layers.empty()) return false;
  const auto* matrix = std::get_if<TensorView>(&model.weights.layers.front().k.matrix);
  return matrix != nullptr && matrix->dtype == DType::kF32;
}

}  // namespace

Flag& AddKvCacheDTypeFlag(FlagTable& flags, std::string* target) {
  return flags.Add(
      kFlag, target, "TYPE",
      {"Type of the keys and values in the cache: auto, f32, bf16, f16 or int8. Fewer bytes hold "
       "longer contexts and more requests. auto: f32 for a float32 checkpoint, else bf16 on a "
       "CPU that multiplies it, or f16",
       "KV 缓存的数据类型：auto、f32、bf16、f16 或 int8。字节越少，能容纳的上下文和请求越多。"
       "auto：float32 检查点用 f32；其余在支持 bf16 乘法的 CPU 上用 bf16，否则用 f16"});
}

Result<std::optional<KvDType>> ParseKvCacheDType(const std::string& text) {
  const std::string lower = ToLowerAscii(text);
  if (lower == "auto") return std::optional<KvDType>();
  for (const auto& [name, dtype] : kNames) {
    if (lower == name) return std::optional(dtype);
  }
  const char* hint = lower.starts_with("fp8")
                         ? "8-bit floats are not supported, int8 takes the same memory; "
                         : "";
  return InvalidArgument(
      StrCat("--", kFlag, " ", text, ": ", hint, "there are auto, f32 (float32), ",
             "bf16 (bfloat16), f16 (float16, half) and int8"),
      StrCat("--", kFlag));
}

Result<KvDType> ResolveKvCacheDType(const std::string& text, const Model& model,
                                    ActivationDType activation) {
  ERNE_ASSIGN_OR_RETURN(const std::optional<KvDType> named, ParseKvCacheDType(text));
  if (named.has_value()) return *named;
  if (IsFloat32(model)) return KvDType::kF32;
  // bf16 errs more than f16, but far less than rounded activations do, and is twice as fast where
  // there are products of it.
  const bool bf16 = activation != ActivationDType::kF32 && CpuHasBf16Products();
  return bf16 ? KvDType::kBF16 : KvDType::kF16;
}

}  // namespace erne
