// The CPU executor: threads, and kernels vectorised for AVX2 and AVX-512 (one source file per
// instruction set, the best one picked at run time). Weights f32, bf16, f16 (kept at 2 bytes), int8
// and int4; activations f32, bf16 and int8 (kernels.h says what pairs there are); KV of every
// KvDType.
#pragma once

#include <memory>
#include <string>

#include "executor/executor.h"
#include "executor/precision.h"

namespace erne {

struct CpuExecutorOptions {
  int threads = 0;           // 0: every CPU that this process may use
  bool pin_threads = false;  // to a CPU each (ThreadPool)
  // Instruction set: "" = the best that this CPU has, or ERNE_CPU_ISA from the environment;
  // "scalar", "avx2", "avx512", "avx512_vnni", "avx512_bf16", "amx".
  std::string isa;
  Precision precision;
};

// Packs the weights (progress reported) and takes all memory here; Run allocates nothing
// afterwards. InvalidArgument when the instruction set is unknown or this CPU lacks it.
Result<std::unique_ptr<Executor>> MakeCpuExecutor(std::shared_ptr<const Model> model,
                                                  const ExecutorLimits& limits,
                                                  const CpuExecutorOptions& options = {},
                                                  const LoadProgress& progress = {});

// Whether the instruction set that options leave open multiplies bf16 (kernels.h): then keys and
// values in bf16 are the fastest.
bool CpuHasBf16Products();

// What MakeCpuExecutor would run `model` with, without making it: the name and the types; the bytes
// are 0. Errors as those of MakeCpuExecutor about its options.
Result<ExecutorInfo> DescribeCpuExecutor(const Model& model, KvDType kv_dtype,
                                         const CpuExecutorOptions& options = {});

}  // namespace erne
