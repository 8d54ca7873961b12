// The device as the host sees it: whether there is one, its errors as Status, and its memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <cuda_runtime_api.h>

#include "base/status.h"

namespace erne::cuda {

// The device that this process computes on: the first one that the driver shows
// (CUDA_VISIBLE_DEVICES picks).
struct Device {
  std::string name;
  int major = 0;  // compute capability
  int minor = 0;
  int processors = 0;
  int shared_bytes = 0;  // that a block can have
  uint64_t total_bytes = 0;
  uint64_t free_bytes = 0;
};

// Unavailable, with the reason in one sentence, when there is no driver, no device, a driver that
// is too old for this build or a device that its kernels do not run on. Opens the device the first
// time, which takes a while and some of its memory.
Result<Device> OpenDevice();

// "what: error of the device". ResourceExhausted when its memory is full, else Internal.
Status ToStatus(cudaError_t error, const std::string& what);

#define ERNE_RETURN_IF_CUDA_ERROR(call, what)                                                 \
  do {                                                                                        \
    const cudaError_t erne_cuda_error = (call);                                               \
    if (erne_cuda_error != cudaSuccess) return ::erne::cuda::ToStatus(erne_cuda_error, what); \
  } while (false)

// Memory of the device, or of the host where the device reaches it without a detour (pinned).
// Movable; freed when destroyed.
class Memory {
 public:
  enum class Place { kDevice, kPinned };

  Memory() = default;
  Memory(Memory&& other) noexcept { *this = std::move(other); }
  Memory& operator=(Memory&& other) noexcept;
  ~Memory() { Free(); }

  // Zeroed. `what` is named when there is too little: with how much was wanted and how much is
  // free.
  static Result<Memory> Allocate(Place place, uint64_t bytes, const std::string& what);

  std::byte* data() const { return data_; }
  uint64_t bytes() const { return bytes_; }

 private:
  void Free();

  Place place_ = Place::kDevice;
  std::byte* data_ = nullptr;
  uint64_t bytes_ = 0;
};

// Takes the sizes of many arrays, then is one allocation.
class Arena {
 public:
  // Where an array will begin; every one is aligned for whatever reads it.
  uint64_t Reserve(uint64_t bytes) {
    constexpr uint64_t kAlignment = 256;
    const uint64_t begin = bytes_;
    bytes_ += (bytes + kAlignment - 1) / kAlignment * kAlignment;
    return begin;
  }
  // *target points to it once allocated.
  template <typename T>
  void Add(T** target, int64_t elements) {
    const uint64_t begin = Reserve(static_cast<uint64_t>(elements) * sizeof(T));
    targets_.push_back({reinterpret_cast<void**>(target), begin});
  }
  uint64_t bytes() const { return bytes_; }
  Status Allocate(const std::string& what);
  std::byte* at(uint64_t begin) const { return memory_.data() + begin; }

 private:
  struct Target {
    void** pointer;
    uint64_t begin;
  };
  uint64_t bytes_ = 0;
  std::vector<Target> targets_;
  Memory memory_;
};

}  // namespace erne::cuda
