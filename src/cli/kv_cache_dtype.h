// The flag --kv-cache-dtype, and what its `auto` stands for.
#pragma once

#include <optional>
#include <string>

#include "base/status.h"
#include "cli/flags.h"
#include "executor/precision.h"
#include "kv/kv_dtype.h"
#include "model/model.h"

namespace erne {

// Declares --kv-cache-dtype. `target` holds its text; the present one is the default.
Flag& AddKvCacheDTypeFlag(FlagTable& flags, std::string* target);

// The type that a value of the flag names, in vLLM's spelling or ours: f32 (float32, float), bf16
// (bfloat16), f16 (float16, half), int8; no value for "auto". InvalidArgument, with what there is,
// for anything else.
Result<std::optional<KvDType>> ParseKvCacheDType(const std::string& text);

// The same, and for "auto" float32 where the checkpoint is float32; else bf16 where the CPU
// multiplies it and activations are rounded anyway, and f16 otherwise. docs/performance.md has the
// measurement.
Result<KvDType> ResolveKvCacheDType(const std::string& text, const Model& model,
                                    ActivationDType activation);

}  // namespace erne
