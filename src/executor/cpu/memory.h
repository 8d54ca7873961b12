// Memory of the CPU executor: aligned, counted, and taken before the first step. A shortage is a
// Status that names the bytes.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <type_traits>
#include <vector>

#include "base/status.h"
#include "base/thread_pool.h"

namespace erne::cpu {

// Owned bytes, aligned to a cache line (large ones to a huge page, which the kernel is asked to
// use). Where the process computes on several NUMA nodes, large ones are spread over them: which
// thread reads which weights changes from loop to loop, so no node is the right one.
class Buffer {
 public:
  Buffer() = default;
  // ResourceExhausted, naming `what` and the size, when there is not enough memory.
  static Result<Buffer> Allocate(const std::string& what, size_t bytes);

  std::byte* data() const { return data_.get(); }
  size_t bytes() const { return bytes_; }

 private:
  struct Free {
    void operator()(std::byte* data) const;
  };
  std::unique_ptr<std::byte, Free> data_;
  size_t bytes_ = 0;
};

// Pieces of large buffers, which huge pages can hold: reading many matrices of a megabyte from
// pages of 4 KiB costs a third of the bandwidth. Nothing is given back before the end. One thread
// at a time allocates.
class Arena {
 public:
  // At a cache line. Errors as of Buffer::Allocate.
  Result<std::byte*> Allocate(const std::string& what, size_t bytes);

 private:
  std::vector<Buffer> buffers_;
  std::byte* next_ = nullptr;
  size_t left_ = 0;
};

// Product of sizes that came from outside; no value when one is negative or the product exceeds
// 2^62.
std::optional<int64_t> CheckedProduct(std::initializer_list<int64_t> factors);

inline constexpr int64_t RoundUp(int64_t value, int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

// A set of arrays that are sized first and taken together.
class Workspace {
 public:
  enum class Start {
    kNan,  // bytes of ones (as floats: NaN), so that a value that was never written shows itself
    kUntouched,  // whatever there is; the system gives the pages in TakePages, or when they are
                 // written first. kNan where DCHECKs are on.
  };

  // Notes that `*array` is to have the product of `dims` elements.
  template <typename T>
  void Add(T** array, std::initializer_list<int64_t> dims) {
    static_assert(std::is_trivially_copyable_v<T>);
    requests_.push_back({reinterpret_cast<void**>(array), sizeof(T), CheckedProduct(dims)});
  }
  // Takes all of them. `what` names the whole in errors.
  Status Allocate(const std::string& what, Start start = Start::kNan);
  // Makes the system give the pages now, by all threads of `pool`, so that none is left to fail or
  // to wait for later. Stops after `seconds` with some left, if FinishPages can take them.
  // `progress` (may be empty) in [0, 1]. The contents stay.
  void TakePages(ThreadPool& pool, double seconds,
                 const std::function<void(double)>& progress = {});
  bool has_all_pages() const { return taken_ == bytes_; }
  // Takes what TakePages left, while others already use the memory; until `stop`.
  void FinishPages(const std::atomic<bool>& stop);

  size_t bytes() const { return bytes_; }

 private:
  struct Request {
    void** array;
    size_t element_bytes;
    std::optional<int64_t> elements;
  };
  std::vector<Request> requests_;
  // At most `size` bytes behind the first `taken_`, within one buffer.
  std::span<std::byte> NextPages(size_t size) const;

  std::vector<Buffer> buffers_;
  size_t bytes_ = 0;
  size_t taken_ = 0;  // bytes whose pages are there, in the order of the buffers
};

// Takes the pages that a Workspace lacks, on a thread of its own that gives way to all others.
class PageTaker {
 public:
  PageTaker() = default;
  PageTaker(const PageTaker&) = delete;
  PageTaker& operator=(const PageTaker&) = delete;
  ~PageTaker();

  // Once. The workspace stays where it is and outlives this.
  void Start(Workspace& workspace);

 private:
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

}  // namespace erne::cpu
