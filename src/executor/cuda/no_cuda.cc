// What cuda_executor.h promises, in a build without CUDA.
#include "executor/cuda/cuda_executor.h"

namespace erne {
namespace {

Status Absent() {
  return Unimplemented("this build of erne has no CUDA executor (cmake -DERNE_CUDA=ON makes one)");
}

}  // namespace

Result<CudaDevice> FindCudaDevice() { return Absent(); }

Result<std::unique_ptr<Executor>> MakeCudaExecutor(std::shared_ptr<const Model>,
                                                   const ExecutorLimits&, const LoadProgress&) {
  return Absent();
}

Result<ExecutorInfo> DescribeCudaExecutor(const Model&, KvDType) { return Absent(); }

Result<uint64_t> CudaWeightBytes(const Model&) { return Absent(); }

uint64_t CudaBlockBytes(const ModelSpec&, KvDType) { return 0; }

uint64_t CudaWorkspaceBytes(const ModelSpec&, const ExecutorLimits&) { return 0; }

}  // namespace erne
