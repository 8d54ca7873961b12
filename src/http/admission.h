// What keeps requests from standing in each other's way: how many are worked on at a time, and how
// many bytes of them may wait in memory.
#pragma once

#include <atomic>
#include <cstddef>
#include <deque>
#include <functional>
#include <mutex>
#include <utility>

namespace erne {

// Lets a few in at a time; the others wait, first come, first served. Thread-safe.
class WorkLane {
 public:
  explicit WorkLane(int slots) : free_(slots) {}

  // Calls `begin` once there is a free slot: at once, or in another thread's Leave. It must not
  // block: it starts the work elsewhere, and Leave is called when that has ended.
  void Enter(std::function<void()> begin) {
    {
      const std::lock_guard lock(mutex_);
      if (free_ == 0) {
        waiting_.push_back(std::move(begin));
        return;
      }
      --free_;
    }
    begin();
  }

  void Leave() {
    std::function<void()> next;
    {
      const std::lock_guard lock(mutex_);
      if (waiting_.empty()) {
        ++free_;
        return;
      }
      next = std::move(waiting_.front());
      waiting_.pop_front();
    }
    next();  // takes over the slot
  }

 private:
  std::mutex mutex_;  // guards all below
  int free_;
  std::deque<std::function<void()>> waiting_;
};

// Bytes in use by all holders of a ByteShare. Thread-safe.
using ByteCount = std::atomic<size_t>;

// One holder's bytes; they are given back at its end. Not thread-safe; the count outlives it.
class ByteShare {
 public:
  explicit ByteShare(ByteCount& all) : all_(&all) {}
  ByteShare(ByteShare&& other) noexcept
      : all_(other.all_), bytes_(std::exchange(other.bytes_, 0)) {}
  ByteShare& operator=(ByteShare&&) = delete;
  ~ByteShare() { Set(0); }

  void Set(size_t bytes) {
    all_->fetch_add(bytes - bytes_, std::memory_order_relaxed);  // modulo 2^64: may be less
    bytes_ = bytes;
  }
  size_t bytes() const { return bytes_; }

 private:
  ByteCount* all_;
  size_t bytes_ = 0;
};

}  // namespace erne
