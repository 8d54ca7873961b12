// The kernels behind LaunchGemm (gemm.h), for its use alone.
#pragma once

#include "executor/cuda/gemm.h"

namespace erne::cuda {

cudaError_t LaunchFewRows(Stream& stream, const GemmArgs& args);
cudaError_t LaunchManyRows(Stream& stream, const GemmArgs& args);
cudaError_t LaunchF32(Stream& stream, const GemmArgs& args);
cudaError_t PrepareFewRows(int shared_bytes);
cudaError_t PrepareManyRows(int shared_bytes);

}  // namespace erne::cuda
