// A fixed team of threads for data-parallel loops inside one step: no allocation and no lock taken per loop while the
// team is awake.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>
#include <type_traits>
#include <vector>

namespace erne {

// The caller's thread is worker 0; `threads - 1` more are started. Workers spin briefly after a loop (the next one of
// the same step follows within microseconds), then sleep. ParallelFor may be called by one thread at a time and
// must not be nested. Results must not depend on which worker runs which part: the split is dynamic.
class ThreadPool {
 public:
  // threads <= 0: one per CPU that this process may use (UsableCpus). Where the system refuses to
  // start so many, the pool has fewer, and the log says so.
  explicit ThreadPool(int threads = 0);
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;
  ~ThreadPool();

  int threads() const { return static_cast<int>(workers_.size()) + 1; }

  // Calls body(begin, end, worker) over pieces of [0, count) of at most `grain` items; worker is in [0, threads()).
  // Returns when all pieces are done. The body must not throw.
  template <typename Body>
  void ParallelFor(int64_t count, int64_t grain, Body&& body) {
    using Plain = std::remove_reference_t<Body>;
    Run(count, grain, [](void* context, int64_t begin, int64_t end, int worker) {
      (*static_cast<Plain*>(context))(begin, end, worker);
    }, const_cast<void*>(static_cast<const void*>(&body)));
  }

 private:
  using Piece = void (*)(void* context, int64_t begin, int64_t end, int worker);

  void Run(int64_t count, int64_t grain, Piece piece, void* context);
  void WorkerLoop(int worker);
  void TakePieces(int worker);

  std::vector<std::thread> workers_;

  // The current loop: written by Run before `epoch_` moves, read by workers after they see it.
  int64_t count_ = 0;
  int64_t grain_ = 1;
  Piece piece_ = nullptr;
  void* context_ = nullptr;
  alignas(64) std::atomic<int64_t> next_{0};
  alignas(64) std::atomic<int> busy_{0};
  alignas(64) std::atomic<uint64_t> epoch_{0};
  std::atomic<int> sleepers_{0};
  std::atomic<bool> stop_{false};
  std::mutex mutex_;
  std::condition_variable wake_;
};

}  // namespace erne
