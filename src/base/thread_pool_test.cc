#include "base/thread_pool.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <numeric>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
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

TEST(ThreadPool, TakesEveryUsableCpu) { EXPECT_EQ(ThreadPool().threads(), UsableCpus()); }

}  // namespace
}  // namespace erne
