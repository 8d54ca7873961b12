#include "executor/cuda/device.h"

#include <cstring>

#include "base/strings.h"

namespace erne::cuda {
namespace {

// Kernels are built on instructions of this generation (Ampere): bf16 products and asynchronous
// copies.
constexpr int kLeastMajor = 8;

std::string VersionText(int version) {  // 13000 -> 13.0
  return StrCat(version / 1000, ".", version % 1000 / 10);
}

}  // namespace

Result<Device> OpenDevice() {
  int driver = 0;
  if (cudaDriverGetVersion(&driver) != cudaSuccess || driver == 0) {
    return Unavailable("this machine has no NVIDIA driver");
  }
  if (driver / 1000 < CUDART_VERSION / 1000) {
    return Unavailable(StrCat("the NVIDIA driver of this machine knows CUDA ", VersionText(driver),
                              ", this build needs a driver for CUDA ",
                              VersionText(CUDART_VERSION / 1000 * 1000), " (580 or newer)"));
  }
  int count = 0;
  const cudaError_t found = cudaGetDeviceCount(&count);
  if (found == cudaErrorNoDevice || (found == cudaSuccess && count == 0)) {
    return Unavailable("the NVIDIA driver shows no GPU");
  }
  if (found != cudaSuccess) {
    return Unavailable(StrCat("the NVIDIA driver does not work: ", cudaGetErrorString(found)));
  }
  cudaDeviceProp properties;
  ERNE_RETURN_IF_CUDA_ERROR(cudaGetDeviceProperties(&properties, 0), "asking the GPU what it is");
  Device device;
  device.name = properties.name;
  device.major = properties.major;
  device.minor = properties.minor;
  device.processors = properties.multiProcessorCount;
  device.shared_bytes = static_cast<int>(properties.sharedMemPerBlockOptin);
  if (device.major < kLeastMajor) {
    return Unavailable(StrCat("the ", device.name, " has compute capability ", device.major, ".",
                              device.minor, ", erne's kernels need ", kLeastMajor,
                              ".0 or newer (Ampere, 2020)"));
  }
  size_t free_bytes = 0;
  size_t total_bytes = 0;
  const cudaError_t opened = cudaMemGetInfo(&free_bytes, &total_bytes);
  if (opened != cudaSuccess) {
    return Unavailable(
        StrCat("the ", device.name, " cannot be opened: ", cudaGetErrorString(opened)));
  }
  device.free_bytes = free_bytes;
  device.total_bytes = total_bytes;
  return device;
}

Status ToStatus(cudaError_t error, const std::string& what) {
  if (error == cudaSuccess) return {};
  const std::string message = StrCat(what, ": ", cudaGetErrorString(error));
  return error == cudaErrorMemoryAllocation ? ResourceExhausted(message) : Internal(message);
}

Memory& Memory::operator=(Memory&& other) noexcept {
  if (this != &other) {
    Free();
    place_ = other.place_;
    data_ = std::exchange(other.data_, nullptr);
    bytes_ = std::exchange(other.bytes_, 0);
  }
  return *this;
}

void Memory::Free() {
  if (data_ == nullptr) return;
  // Nobody can act on an error here; one of an earlier launch has been reported already.
  if (place_ == Place::kDevice) {
    static_cast<void>(cudaFree(data_));
  } else {
    static_cast<void>(cudaFreeHost(data_));
  }
  data_ = nullptr;
}

Result<Memory> Memory::Allocate(Place place, uint64_t bytes, const std::string& what) {
  Memory memory;
  memory.place_ = place;
  if (bytes == 0) return memory;
  void* data = nullptr;
  const bool device = place == Place::kDevice;
  const cudaError_t error = device ? cudaMalloc(&data, bytes) : cudaMallocHost(&data, bytes);
  if (error == cudaErrorMemoryAllocation) {
    static_cast<void>(cudaGetLastError());  // it is reported here, not at the next launch
    if (!device)
      return ResourceExhausted(StrCat(what, ": no ", FormatBytes(bytes), " of pinned memory"));
    size_t free_bytes = 0;
    size_t total_bytes = 0;
    static_cast<void>(cudaMemGetInfo(&free_bytes, &total_bytes));
    return ResourceExhausted(StrCat("not enough memory on the GPU for ", what, ": ",
                                    FormatBytes(bytes), " wanted, ", FormatBytes(free_bytes),
                                    " of ", FormatBytes(total_bytes), " free"));
  }
  ERNE_RETURN_IF_CUDA_ERROR(error, what);
  memory.data_ = static_cast<std::byte*>(data);
  memory.bytes_ = bytes;
  if (device) {
    ERNE_RETURN_IF_CUDA_ERROR(cudaMemset(data, 0, bytes), what);
  } else {
    std::memset(data, 0, bytes);
  }
  return memory;
}

Status Arena::Allocate(const std::string& what) {
  ERNE_ASSIGN_OR_RETURN(memory_, Memory::Allocate(Memory::Place::kDevice, bytes_, what));
  for (const Target& target : targets_) *target.pointer = memory_.data() + target.begin;
  return {};
}

}  // namespace erne::cuda
