#include "api/engine_watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace erne {
namespace {

using ::testing::HasSubstr;

TEST(FindFault, AnIdleEngineIsHealthyForEver) {
  EXPECT_FALSE(FindFault({.last_step_ms = 0}, 1'000'000'000, 100));
}

TEST(FindFault, WorkWithoutAStepIsAStall) {
  const EngineStats busy{.running = 1, .last_step_ms = 5000};
  EXPECT_FALSE(FindFault(busy, 5100, 100));
  const auto stalled = FindFault(busy, 7500, 100);
  ASSERT_TRUE(stalled);
  EXPECT_EQ(NameOf(stalled->kind), std::string("stalled"));
  EXPECT_EQ(stalled->seconds, 2.5);
  EXPECT_TRUE(FindFault({.waiting = 1, .last_step_ms = 5000}, 7500, 100));
}

TEST(FindFault, ThreeFailedStepsInARowAreTheDevices) {
  EXPECT_FALSE(FindFault({.consecutive_failed_steps = 2}, 0, 100));
  const auto failing = FindFault({.consecutive_failed_steps = 3}, 0, 100);
  ASSERT_TRUE(failing);
  EXPECT_EQ(NameOf(failing->kind), std::string("failing"));
  EXPECT_EQ(failing->failed_steps, 3);
}

TEST(StatsReporter, IsAboutTheTimeSinceTheLastLine) {
  EngineStats stats{.kv_blocks_total = 200, .prompt_tokens = 50, .prefix_queries = 10};
  StatsReporter reporter(stats);
  stats.running = 3;
  stats.waiting = 1;
  stats.kv_blocks_used = 25;
  stats.prompt_tokens += 300;
  stats.generated_tokens += 96;
  stats.prefix_queries += 64;
  stats.prefix_hits += 48;
  EXPECT_EQ(reporter.Line(stats, 60),
            "STATS num_requests_running=3, num_requests_waiting=1, gpu_cache_usage=12.5%, "
            "avg_prompt_throughput=5.0 tokens/s, avg_generation_throughput=1.6 tokens/s, "
            "prefix_cache_hit_rate=75.0%");
  stats.generated_tokens += 600;
  EXPECT_EQ(reporter.Line(stats, 60),
            "STATS num_requests_running=3, num_requests_waiting=1, gpu_cache_usage=12.5%, "
            "avg_prompt_throughput=0.0 tokens/s, avg_generation_throughput=10.0 tokens/s, "
            "prefix_cache_hit_rate=0.0%");
}

TEST(StatsReporter, IsSilentWhileNobodyIsThere) {
  EngineStats stats{.kv_blocks_total = 200};
  StatsReporter reporter(stats);
  EXPECT_FALSE(reporter.Line(stats, 60));
  stats.running = 1;
  EXPECT_TRUE(reporter.Line(stats, 60));
  EXPECT_TRUE(reporter.Line(stats, 60)) << "inside, though it has not moved";
  stats.running = 0;
  EXPECT_TRUE(reporter.Line(stats, 60)) << "it was inside for a part of the time";
  EXPECT_FALSE(reporter.Line(stats, 60));
  stats.generated_tokens = 4;
  EXPECT_TRUE(reporter.Line(stats, 60)) << "it came and went between two looks";
  EXPECT_FALSE(reporter.Line(stats, 60));
}

TEST(Watchdog, SpeaksWhenTheEngineStallsAndWhenItGoesOn) {
  Watchdog watchdog(1000);
  EngineStats stats{.running = 2, .waiting = 5, .last_step_ms = 10'000};
  EXPECT_FALSE(watchdog.Look(stats, 11'000));
  const auto stalled = watchdog.Look(stats, 11'400);
  ASSERT_TRUE(stalled);
  EXPECT_TRUE(stalled->bad);
  EXPECT_EQ(stalled->text,
            "the engine hangs: no step has ended for 1 s, with 2 running and 5 waiting requests "
            "inside; /health says stalled");
  EXPECT_FALSE(watchdog.Look(stats, 12'400));
  EXPECT_FALSE(watchdog.Look(stats, 50'000));
  stats.last_step_ms = 52'000;
  const auto recovered = watchdog.Look(stats, 52'100);
  ASSERT_TRUE(recovered);
  EXPECT_FALSE(recovered->bad);
  EXPECT_EQ(recovered->text,
            "the engine works again after 42 s, with 2 running and 5 waiting requests inside");
  EXPECT_FALSE(watchdog.Look(stats, 52'200));
  EXPECT_TRUE(watchdog.Look(stats, 60'000)) << "each stall is news";
}

TEST(Watchdog, SpeaksOfFailingSteps) {
  Watchdog watchdog(1000);
  EngineStats stats{.consecutive_failed_steps = 4};
  const auto failing = watchdog.Look(stats, 0);
  ASSERT_TRUE(failing);
  EXPECT_THAT(failing->text, HasSubstr("the last 4 steps of the engine failed"));
  stats.consecutive_failed_steps = 0;
  EXPECT_TRUE(watchdog.Look(stats, 100));
}

TEST(CacheAlarm, WarnsAtMostOnceAMinuteAboveNinetyTwoPercent) {
  CacheAlarm alarm;
  EngineStats stats{.running = 1, .kv_blocks_used = 92, .kv_blocks_total = 100};
  EXPECT_FALSE(alarm.Look(stats, 0));
  stats.kv_blocks_used = 93;
  const auto warning = alarm.Look(stats, 1000);
  ASSERT_TRUE(warning);
  EXPECT_THAT(*warning, HasSubstr("gpu_cache_usage is 93.0%, above 92.0%"));
  EXPECT_THAT(*warning, HasSubstr("Clear sessions"));
  EXPECT_THAT(*warning, HasSubstr("lower concurrency (--max-num-seqs"));
  EXPECT_FALSE(alarm.Look(stats, 60'000));
  stats.kv_blocks_used = 10;
  EXPECT_FALSE(alarm.Look(stats, 60'500));
  stats.kv_blocks_used = 100;
  EXPECT_FALSE(alarm.Look(stats, 60'900)) << "still within the minute";
  EXPECT_TRUE(alarm.Look(stats, 61'000));
  EXPECT_FALSE(CacheAlarm().Look({}, 0)) << "no cache, no alarm";
}

}  // namespace
}  // namespace erne
