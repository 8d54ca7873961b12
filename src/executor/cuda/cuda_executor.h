// The CUDA executor: one GPU of compute capability 8.0 or newer. Weights f32, bf16, f16 or 4-bit;
// KV f32, bf16 or f16. 2-byte and 4-bit weights multiply f16 activations, added up in float32 (down
// matrices of bf16 models: bf16 ones, see device_model.h); the residual stream, norms, softmax and
// routers are float32.
//
// This header needs no CUDA: a build without it has these functions too, and they say so.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "executor/executor.h"

namespace erne {

// The GPU that the executor would run on.
struct CudaDevice {
  std::string name;  // "NVIDIA H200"
  uint64_t total_bytes = 0;
  uint64_t free_bytes = 0;
};

// Unavailable, with the reason in a sentence ("this machine has no NVIDIA driver"), when there is
// none that erne can use; Unimplemented in a build without CUDA.
Result<CudaDevice> FindCudaDevice();

// Packs the weights (progress reported) and takes all memory here; Run allocates nothing
// afterwards. Unavailable as FindCudaDevice; Unimplemented when it lacks the KV type;
// InvalidArgument when it cannot run the model's shape; ResourceExhausted, with how much was wanted
// and how much is free, when the GPU's memory does not suffice.
Result<std::unique_ptr<Executor>> MakeCudaExecutor(std::shared_ptr<const Model> model,
                                                   const ExecutorLimits& limits,
                                                   const LoadProgress& progress = {});

// What MakeCudaExecutor would run `model` with, without making it: names and types; the bytes are
// 0.
Result<ExecutorInfo> DescribeCudaExecutor(const Model& model, KvDType kv_dtype);

// What MakeCudaExecutor takes of the GPU, for those who plan memory: weights; a block of the KV
// cache; all else, which depends on the limits. Needs no GPU; 0 in a build without CUDA.
Result<uint64_t> CudaWeightBytes(const Model& model);
uint64_t CudaBlockBytes(const ModelSpec& spec, KvDType kv_dtype);
uint64_t CudaWorkspaceBytes(const ModelSpec& spec, const ExecutorLimits& limits);

}  // namespace erne
