#include "base/thread_pool.h"

#include <algorithm>
#include <chrono>
#include <system_error>

#include "base/check.h"
#include "base/log.h"
#include "base/machine.h"

namespace erne {
namespace {

// How long a worker spins for the next loop before it sleeps. Loops of one step follow each other within microseconds;
// a sleep and wake-up costs about 50 of them.
constexpr auto kSpin = std::chrono::microseconds(200);

inline void CpuRelax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#else
  std::this_thread::yield();
#endif
}

}  // namespace

ThreadPool::ThreadPool(int threads) {
  if (threads <= 0) threads = UsableCpus();
  try {
    for (int worker = 1; worker < threads; ++worker) {
      workers_.emplace_back([this, worker] { WorkerLoop(worker); });
    }
  } catch (const std::system_error& error) {  // results do not depend on the number of threads
    ERNE_LOG(kWarning, "threads") << "only " << this->threads() << " of " << threads
                                  << " threads could be started: " << error.code().message();
  }
}

ThreadPool::~ThreadPool() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

void ThreadPool::Run(int64_t count, int64_t grain, Piece piece, void* context) {
  if (count <= 0) return;
  grain = std::max<int64_t>(1, grain);
  if (workers_.empty() || count <= grain) {
    for (int64_t begin = 0; begin < count; begin += grain) {
      piece(context, begin, std::min(count, begin + grain), 0);
    }
    return;
  }
  ERNE_DCHECK(busy_.load() == 0) << "ParallelFor is nested or called from two threads";
  count_ = count;
  grain_ = grain;
  piece_ = piece;
  context_ = context;
  next_.store(0, std::memory_order_relaxed);
  busy_.store(static_cast<int>(workers_.size()), std::memory_order_relaxed);
  // Sequentially consistent with the sleeper's own pair (it counts itself, then looks at epoch_): one of the two
  // sees the other, so no wake-up is lost.
  epoch_.fetch_add(1, std::memory_order_seq_cst);
  if (sleepers_.load(std::memory_order_seq_cst) > 0) {
    { const std::lock_guard lock(mutex_); }
    wake_.notify_all();
  }
  TakePieces(0);
  int spins = 0;
  while (busy_.load(std::memory_order_acquire) != 0) {
    CpuRelax();
    // A worker may have lost its core to a neighbour: give ours away rather than spin against it.
    if (++spins > 4096) std::this_thread::yield();
  }
}

void ThreadPool::TakePieces(int worker) {
  while (true) {
    const int64_t begin = next_.fetch_add(grain_, std::memory_order_relaxed);
    if (begin >= count_) return;
    piece_(context_, begin, std::min(count_, begin + grain_), worker);
  }
}

void ThreadPool::WorkerLoop(int worker) {
  uint64_t seen = 0;
  while (true) {
    const auto spin_end = std::chrono::steady_clock::now() + kSpin;
    int spins = 0;
    while (epoch_.load(std::memory_order_acquire) == seen && !stop_.load(std::memory_order_relaxed)) {
      CpuRelax();
      if ((++spins & 63) != 0 || std::chrono::steady_clock::now() < spin_end) continue;
      std::unique_lock lock(mutex_);
      sleepers_.fetch_add(1, std::memory_order_seq_cst);
      wake_.wait(lock, [&] { return epoch_.load(std::memory_order_seq_cst) != seen || stop_; });
      sleepers_.fetch_sub(1, std::memory_order_seq_cst);
    }
    if (stop_.load(std::memory_order_relaxed)) return;
    seen = epoch_.load(std::memory_order_acquire);
    TakePieces(worker);
    busy_.fetch_sub(1, std::memory_order_release);
  }
}

}  // namespace erne
