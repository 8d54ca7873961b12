#include "base/thread_pool.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <numeric>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <poll.h>
#include <pthread.h>

#include "base/machine.h"

namespace erne {
namespace {

TEST(ThreadPool, VisitsEachItemOnce) {
  for (const int threads : {1, 2, 5}) {
    ThreadPool pool(threads);
    EXPECT_EQ(pool.threads(), threads);
    for (const int64_t count : {0, 1, 2, 7, 64, 1000}) {
      for (const int64_t grain : {-1, 1, 3, 64, 5000}) {
        std::vector<int> visits(count, 0);
        pool.ParallelFor(count, grain, [&](int64_t begin, int64_t end, int worker) {
          EXPECT_LT(begin, end);
          EXPECT_LE(end - begin, std::max<int64_t>(1, grain));
          EXPECT_GE(worker, 0);
          EXPECT_LT(worker, threads);
          for (int64_t i = begin; i < end; ++i) ++visits[i];
        });
        EXPECT_EQ(visits, std::vector<int>(count, 1));
      }
    }
  }
}

TEST(ThreadPool, MakesDoWithTheThreadsThatStart) {
  pthread_attr_t usual;
  pthread_attr_t endless_stack;
  ASSERT_EQ(::pthread_getattr_default_np(&usual), 0);
  ASSERT_EQ(::pthread_attr_init(&endless_stack), 0);
  ASSERT_EQ(::pthread_attr_setstacksize(&endless_stack, size_t{1} << 47), 0);
  ASSERT_EQ(::pthread_setattr_default_np(&endless_stack), 0);
  ThreadPool pool(4);
  ASSERT_EQ(::pthread_setattr_default_np(&usual), 0);
  EXPECT_EQ(pool.threads(), 1);
  int64_t sum = 0;
  pool.ParallelFor(100, 7, [&](int64_t begin, int64_t end, int) { sum += end - begin; });
  EXPECT_EQ(sum, 100);
}

// Loop after loop, as in a step: each sees all that the one before has written.
TEST(ThreadPool, LoopsFollowEachOther) {
  ThreadPool pool(3);
  std::vector<int64_t> values(97, 0);
  for (int round = 1; round <= 2000; ++round) {
    pool.ParallelFor(static_cast<int64_t>(values.size()), 4, [&](int64_t begin, int64_t end, int) {
      for (int64_t i = begin; i < end; ++i) values[i] += round;
    });
    ASSERT_EQ(*std::min_element(values.begin(), values.end()),
              *std::max_element(values.begin(), values.end()));
  }
  EXPECT_EQ(values[0], 2000 * 2001 / 2);
}

TEST(ThreadPool, WakesWorkersThatSleep) {
  ThreadPool pool(3);
  for (int round = 0; round < 20; ++round) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));  // longer than workers spin
    std::atomic<int64_t> sum{0};
    pool.ParallelFor(100, 1, [&](int64_t begin, int64_t, int) { sum += begin; });
    EXPECT_EQ(sum, 4950);
  }
}

// Work that only ends when every thread has taken part: so they do run at the same time.
TEST(ThreadPool, ThreadsRunTogether) {
  ThreadPool pool(3);
  std::atomic<int> arrived{0};
  std::atomic<int> workers{0};
  pool.ParallelFor(3, 1, [&](int64_t, int64_t, int worker) {
    workers |= 1 << worker;
    ++arrived;
    while (arrived < 3) std::this_thread::yield();
  });
  EXPECT_EQ(workers, 7);
}

// Stops a thread wherever it is, as a scheduler does that gives its core to another process: in a
// signal handler, until it is released.
std::atomic<bool> g_held{false};
std::atomic<bool> g_release{false};

void HoldUntilReleased(int) {
  const int error = errno;
  g_held = true;
  while (!g_release) ::poll(nullptr, 0, 1);
  errno = error;
}

void HoldForAMillisecond(int) {
  const int error = errno;
  ::poll(nullptr, 0, 1);
  errno = error;
}

// SIGUSR1 with the given handler, as long as it lives.
class SignalHandler {
 public:
  explicit SignalHandler(void (*handler)(int)) {
    struct sigaction action {};
    action.sa_handler = handler;
    action.sa_flags = SA_RESTART;
    EXPECT_EQ(::sigaction(SIGUSR1, &action, &before_), 0);
  }
  SignalHandler(const SignalHandler&) = delete;
  SignalHandler& operator=(const SignalHandler&) = delete;
  ~SignalHandler() { ::sigaction(SIGUSR1, &before_, nullptr); }

 private:
  struct sigaction before_ {};
};

// The thread that is worker 1 of a pool of two.
pthread_t SecondWorker(ThreadPool& pool) {
  pthread_t thread{};
  std::atomic<int> arrived{0};
  pool.ParallelFor(2, 1, [&](int64_t, int64_t, int worker) {
    if (worker == 1) thread = ::pthread_self();
    ++arrived;
    while (arrived < 2) std::this_thread::yield();
  });
  return thread;
}

// ThreadSanitizer hands signals over late, or never to a thread that only waits: nothing would be
// held there.
#if defined(__SANITIZE_THREAD__)
constexpr bool kSignalsComeLate = true;
#else
constexpr bool kSignalsComeLate = false;
#endif

// A worker that was stopped between two loops has no piece in its hands: nobody waits for it.
TEST(ThreadPool, LoopsEndWithoutAWorkerThatIsStopped) {
  if (kSignalsComeLate) GTEST_SKIP() << "needs signals that arrive at once";
  // Outlives the worker, to whom a signal may still be on its way.
  const SignalHandler handler(HoldUntilReleased);
  ThreadPool pool(2);
  const pthread_t second = SecondWorker(pool);
  g_held = g_release = false;
  ASSERT_EQ(::pthread_kill(second, SIGUSR1), 0);
  while (!g_held) std::this_thread::yield();
  // A pool that does wait must fail here and not hang.
  std::atomic<bool> done{false};
  std::atomic<bool> waited{false};
  std::thread watchdog([&] {
    for (int i = 0; i < 2000 && !done; ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    waited = !done;
    g_release = true;
  });
  int64_t sum = 0;
  for (int round = 0; round < 1000; ++round) {
    pool.ParallelFor(10, 1, [&](int64_t begin, int64_t, int worker) {
      EXPECT_EQ(worker, 0);
      sum += begin;
    });
  }
  done = true;
  watchdog.join();
  EXPECT_FALSE(waited);
  EXPECT_EQ(sum, 45 * 1000);
  // Released, the worker takes part again.
  EXPECT_NE(::pthread_equal(SecondWorker(pool), second), 0);
}

// A worker that was stopped anywhere, even between looking at a loop and taking a piece, and comes
// back loops later does a piece of the loop of that time, with its body and bounds, or none.
TEST(ThreadPool, LateWorkersDoNoPieceOfAnotherLoop) {
  if (kSignalsComeLate) GTEST_SKIP() << "needs signals that arrive at once";
  // Outlives the worker, to whom a signal may still be on its way.
  const SignalHandler handler(HoldForAMillisecond);
  ThreadPool pool(2);
  const pthread_t second = SecondWorker(pool);
  std::atomic<bool> done{false};
  std::thread scheduler([&] {
    while (!done) {
      ::pthread_kill(second, SIGUSR1);
      std::this_thread::sleep_for(std::chrono::microseconds(1300));
    }
  });
  std::vector<int> visits;
  for (int round = 0; round < 3000000; ++round) {
    const int64_t count = 2 + round % 7;
    const int64_t grain = 1 + round % 2;
    visits.assign(count, 0);
    pool.ParallelFor(count, grain, [&visits, round](int64_t begin, int64_t end, int) {
      for (int64_t i = begin; i < end; ++i) visits[i] += round + 1;
    });
    if (visits == std::vector<int>(count, round + 1)) continue;
    ADD_FAILURE() << "round " << round;
    break;
  }
  done = true;
  scheduler.join();
}

TEST(ThreadPool, TakesAConstBody) {
  ThreadPool pool(2);
  std::atomic<int> calls{0};
  const auto body = [&](int64_t, int64_t, int) { ++calls; };
  pool.ParallelFor(10, 1, body);
  EXPECT_EQ(calls, 10);
}

TEST(ThreadPool, StartsAndEndsQuickly) {
  for (int i = 0; i < 50; ++i) ThreadPool pool(3);
}

// On a thread of its own, which is bound then.
TEST(ThreadPool, BindsEachWorkerToACpu) {
  std::thread([] {
    const std::vector<int> allowed = AllowedCpus();
    ASSERT_FALSE(allowed.empty());
    constexpr int kThreads = 3;
    ThreadPool pool(kThreads, true);
    EXPECT_EQ(AllowedCpus(), allowed) << "the caller is bound when it asks for it";
    pool.PinCaller();
    std::vector<std::vector<int>> seen(kThreads);
    std::atomic<int> arrived{0};
    // A piece ends when every worker has one.
    pool.ParallelFor(kThreads, 1, [&](int64_t, int64_t, int worker) {
      seen[static_cast<size_t>(worker)] = AllowedCpus();
      ++arrived;
      while (arrived < kThreads) std::this_thread::yield();
    });
    for (size_t i = 0; i < kThreads; ++i)
      EXPECT_EQ(seen[i], std::vector<int>{allowed[i % allowed.size()]}) << i;
  }).join();
}

TEST(ThreadPool, TakesEveryUsableCpu) { EXPECT_EQ(ThreadPool().threads(), UsableCpus()); }

}  // namespace
}  // namespace erne
