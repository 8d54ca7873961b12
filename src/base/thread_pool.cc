#include "base/thread_pool.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <system_error>

#include "base/check.h"
#include "base/log.h"
#include "base/machine.h"

namespace erne {
namespace {

// How long a worker spins for the next loop before it sleeps. Loops of one step follow each other
// within microseconds; a sleep and wake-up costs about 50 of them.
constexpr auto kWorkerSpin = std::chrono::microseconds(200);

// How long the caller spins for the last pieces: longer than a piece takes, much shorter than a
// scheduler's time slice.
constexpr auto kCallerSpin = std::chrono::microseconds(100);

inline void CpuRelax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#else
  std::this_thread::yield();
#endif
}

// Spins until ready() or until the time is over; says whether it is ready.
template <typename Ready>
bool SpinFor(std::chrono::microseconds time, Ready ready) {
  if (ready()) return true;
  const auto end = std::chrono::steady_clock::now() + time;
  do {
    for (int i = 0; i < 64; ++i) {
      if (ready()) return true;
      CpuRelax();
    }
  } while (std::chrono::steady_clock::now() < end);
  return false;
}

}  // namespace

ThreadPool::ThreadPool(int threads, bool pin) {
  if (threads <= 0) threads = UsableCpus();
  if (pin) cpus_ = AllowedCpus();
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
  stop_.store(true, std::memory_order_relaxed);
  epoch_.fetch_add(1, std::memory_order_seq_cst);
  epoch_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

void ThreadPool::Run(int64_t count, int64_t grain, Piece piece, void* context) {
  if (count <= 0) return;
  grain = std::max<int64_t>(1, grain);
  if (workers_.empty() || count <= grain) {
    for (int64_t begin = 0; begin < count; begin += std::min(grain, count - begin)) {
      piece(context, begin, begin + std::min(grain, count - begin), 0);
    }
    return;
  }
  ERNE_DCHECK(unfinished_.load() == 0) << "ParallelFor is nested or called from two threads";
  const int64_t pieces = (count - 1) / grain + 1;
  ERNE_CHECK(pieces <= std::numeric_limits<uint32_t>::max()) << "a loop of " << pieces << " pieces";
  count_ = count;
  grain_ = grain;
  pieces_ = pieces;
  piece_ = piece;
  context_ = context;
  unfinished_.store(static_cast<uint32_t>(pieces), std::memory_order_relaxed);
  const uint64_t loop = (ticket_.load(std::memory_order_relaxed) >> 32) + 1;
  ticket_.store(loop << 32 | static_cast<uint64_t>(pieces), std::memory_order_release);
  // Sequentially consistent with the sleeper's own pair (it raises the flag, then looks at epoch_):
  // one of the two sees the other, so no wake-up is lost. The flag falls here, so that a worker
  // that has been woken but does not run yet costs the loops to come no system call.
  epoch_.fetch_add(1, std::memory_order_seq_cst);
  if (worker_sleeps_.load(std::memory_order_seq_cst) &&
      worker_sleeps_.exchange(false, std::memory_order_seq_cst)) {
    epoch_.notify_all();
  }
  TakePieces(0);
  WaitForPieces();
}

void ThreadPool::TakePieces(int worker) {
  uint64_t ticket = ticket_.load(std::memory_order_acquire);
  while (true) {
    const auto left = static_cast<uint32_t>(ticket);
    if (left == 0) return;
    if (!ticket_.compare_exchange_weak(ticket, ticket - 1, std::memory_order_acquire)) continue;
    // From here to the report below the loop cannot end, so its description stays.
    const int64_t begin = (pieces_ - left) * grain_;
    piece_(context_, begin, begin + std::min(grain_, count_ - begin), worker);
    // Sequentially consistent with the caller, who raises its flag, then looks at the count.
    if (unfinished_.fetch_sub(1, std::memory_order_seq_cst) == 1 && worker != 0 &&
        caller_sleeps_.load(std::memory_order_seq_cst)) {
      unfinished_.notify_one();
    }
    ticket = ticket_.load(std::memory_order_acquire);
  }
}

// Waits for the pieces that workers have taken and not finished.
void ThreadPool::WaitForPieces() {
  if (SpinFor(kCallerSpin, [&] { return unfinished_.load(std::memory_order_acquire) == 0; }))
    return;
  // A worker has lost its core in the middle of a piece. Asleep, the caller frees its own for it.
  caller_sleeps_.store(true, std::memory_order_seq_cst);
  while (const uint32_t unfinished = unfinished_.load(std::memory_order_seq_cst)) {
    unfinished_.wait(unfinished, std::memory_order_seq_cst);
  }
  caller_sleeps_.store(false, std::memory_order_relaxed);
}

void ThreadPool::PinWorker(int worker) const {
  if (!cpus_.empty()) PinThread(cpus_[static_cast<size_t>(worker) % cpus_.size()]);
}

void ThreadPool::WorkerLoop(int worker) {
  TakeLongTurns();
  PinWorker(worker);
  while (true) {
    const uint32_t seen = epoch_.load(std::memory_order_acquire);
    if (stop_.load(std::memory_order_relaxed)) return;
    TakePieces(worker);
    const auto moved = [&] { return epoch_.load(std::memory_order_acquire) != seen; };
    if (SpinFor(kWorkerSpin, moved)) continue;
    worker_sleeps_.store(true, std::memory_order_seq_cst);
    epoch_.wait(seen, std::memory_order_seq_cst);
  }
}

}  // namespace erne
