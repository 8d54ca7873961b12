// A fixed team of threads for data-parallel loops inside one step: no allocation and no lock per
// loop, and no waiting for a thread that has no part of the loop in its hands.
#pragma once

#include <atomic>
#include <cstdint>
#include <thread>
#include <type_traits>
#include <vector>

namespace erne {

// The caller's thread is worker 0; `threads - 1` more are started. Workers spin briefly after a
// loop (the next one of the same step follows within microseconds), then sleep. ParallelFor may be
// called by one thread at a time and must not be nested. Results must not depend on which worker
// runs which part: the split is dynamic.
//
// A loop ends when its pieces are done, whoever did them. A worker whose core a neighbour has taken
// delays the loop only if it was stopped in the middle of a piece; the caller then sleeps, which
// leaves its core to that worker.
class ThreadPool {
 public:
  // threads <= 0: one per CPU that this process may use (UsableCpus). Where the system refuses to
  // start so many, the pool has fewer, and the log says so. pin: worker i is bound to the i-th of
  // the CPUs that the constructing thread may use, counted round where there are fewer.
  explicit ThreadPool(int threads = 0, bool pin = false);
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;
  ~ThreadPool();

  int threads() const { return static_cast<int>(workers_.size()) + 1; }

  // Binds the calling thread as worker 0, where workers are bound.
  void PinCaller() const { PinWorker(0); }

  // Calls body(begin, end, worker) over pieces of [0, count) of at most `grain` items; worker is in
  // [0, threads()). Returns when all pieces are done. The body must not throw. There may be at most
  // 2^32 - 1 pieces.
  template <typename Body>
  void ParallelFor(int64_t count, int64_t grain, Body&& body) {
    using Plain = std::remove_reference_t<Body>;
    Run(
        count, grain,
        [](void* context, int64_t begin, int64_t end, int worker) {
          (*static_cast<Plain*>(context))(begin, end, worker);
        },
        const_cast<void*>(static_cast<const void*>(&body)));
  }

 private:
  using Piece = void (*)(void* context, int64_t begin, int64_t end, int worker);

  void Run(int64_t count, int64_t grain, Piece piece, void* context);
  void WorkerLoop(int worker);
  void PinWorker(int worker) const;
  void TakePieces(int worker);
  void WaitForPieces();

  std::vector<int> cpus_;  // that workers are bound to; empty: they are not
  std::vector<std::thread> workers_;

  // The current loop. Run writes these when no piece is out, before it publishes the ticket; a
  // worker reads them only between taking a piece and reporting it done. So they need not be
  // atomic.
  int64_t count_ = 0;
  int64_t grain_ = 1;
  int64_t pieces_ = 0;
  Piece piece_ = nullptr;
  void* context_ = nullptr;

  // The number of the loop in the upper half, the pieces not yet taken in the lower. A piece is
  // taken by exchanging the whole ticket, so a worker that comes late, with the ticket of an
  // earlier loop, takes nothing.
  alignas(64) std::atomic<uint64_t> ticket_{0};
  alignas(64) std::atomic<uint32_t> unfinished_{0};  // pieces of the loop that are not done
  std::atomic<bool> caller_sleeps_{false};
  alignas(64) std::atomic<uint32_t> epoch_{0};  // moves with each loop: what idle workers wait on
  std::atomic<bool> worker_sleeps_{false};
  std::atomic<bool> stop_{false};
};

}  // namespace erne
