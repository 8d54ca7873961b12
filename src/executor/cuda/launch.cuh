// Kernel launches with the attributes that all of ours share.
#pragma once

#include <utility>

#include <cuda_runtime.h>

#include "executor/cuda/gemm.h"

namespace erne::cuda {

template <typename... Parameters, typename... Arguments>
cudaError_t Launch(Stream& stream, void (*kernel)(Parameters...), dim3 grid, int threads,
                   size_t shared, Arguments&&... arguments) {
  cudaLaunchConfig_t config = {};
  config.gridDim = grid;
  config.blockDim = dim3(static_cast<unsigned>(threads));
  config.dynamicSmemBytes = shared;
  config.stream = stream.stream;
  cudaLaunchAttribute overlap = {};
  overlap.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  overlap.val.programmaticStreamSerializationAllowed = 1;
  config.attrs = &overlap;
  config.numAttrs = stream.dependent && stream.follows_kernel ? 1 : 0;
  stream.follows_kernel = true;
  return cudaLaunchKernelEx(&config, kernel, Parameters(std::forward<Arguments>(arguments))...);
}

inline unsigned CeilDiv(int64_t a, int64_t b) { return static_cast<unsigned>((a + b - 1) / b); }

}  // namespace erne::cuda
