#include "engine/scheduler.h"

#include <algorithm>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <vector>

#include <gtest/gtest.h>

namespace erne {
namespace {

std::unique_ptr<Sequence> MakeSequence(int64_t prompt, int64_t max_new) {
  auto sequence = std::make_unique<Sequence>();
  sequence->tokens.assign(static_cast<size_t>(prompt), 1);
  sequence->max_total = prompt + max_new;
  return sequence;
}

void ExpectRows(const ScheduledRows& rows, const Sequence* sequence, int64_t start, int64_t count,
                bool reaches_end) {
  EXPECT_EQ(rows.sequence, sequence);
  EXPECT_EQ(rows.start, start);
  EXPECT_EQ(rows.count, count);
  EXPECT_EQ(rows.reaches_end, reaches_end);
}

TEST(Scheduler, EmptyWithoutSequences) {
  Scheduler scheduler({.max_num_seqs = 4, .max_num_batched_tokens = 8, .num_blocks = 8});
  EXPECT_TRUE(scheduler.Schedule().empty());
  EXPECT_EQ(scheduler.max_total(), 8 * kKvBlockSize);
}

TEST(Scheduler, CutsALongPromptToTheBudgetAndDecodesBesideIt) {
  Scheduler scheduler({.max_num_seqs = 4, .max_num_batched_tokens = 10, .num_blocks = 8});
  const auto first = MakeSequence(3, 10);
  const auto second = MakeSequence(15, 10);
  scheduler.Add(first.get());
  scheduler.Add(second.get());

  auto step = scheduler.Schedule();
  ASSERT_EQ(step.size(), 2U);
  ExpectRows(step[0], first.get(), 0, 3, true);
  ExpectRows(step[1], second.get(), 0, 7, false);
  first->tokens.push_back(1);

  step = scheduler.Schedule();
  ASSERT_EQ(step.size(), 2U);
  ExpectRows(step[0], first.get(), 3, 1, true);
  ExpectRows(step[1], second.get(), 7, 8, true);
  first->tokens.push_back(1);
  second->tokens.push_back(1);

  step = scheduler.Schedule();
  ASSERT_EQ(step.size(), 2U);
  ExpectRows(step[1], second.get(), 15, 1, true);
  EXPECT_TRUE(scheduler.CheckIntegrity().ok());
}

TEST(Scheduler, HoldsAtMostMaxNumSeqs) {
  Scheduler scheduler({.max_num_seqs = 2, .max_num_batched_tokens = 100, .num_blocks = 64});
  std::vector<std::unique_ptr<Sequence>> sequences;
  for (int i = 0; i < 3; ++i) {
    sequences.push_back(MakeSequence(2, 5));
    scheduler.Add(sequences.back().get());
  }
  EXPECT_EQ(scheduler.Schedule().size(), 2U);
  EXPECT_EQ(scheduler.num_waiting(), 1);
  scheduler.Remove(sequences[0].get());
  for (int i = 1; i < 2; ++i) sequences[static_cast<size_t>(i)]->tokens.push_back(1);
  const auto step = scheduler.Schedule();
  ASSERT_EQ(step.size(), 2U);
  ExpectRows(step[0], sequences[1].get(), 2, 1, true);
  ExpectRows(step[1], sequences[2].get(), 0, 2, true);
}

TEST(Scheduler, ALongPromptWaitsForItsBlocksAndNobodyOvertakes) {
  Scheduler scheduler({.max_num_seqs = 4, .max_num_batched_tokens = 100, .num_blocks = 4});
  const auto running = MakeSequence(32, 4);  // 2 blocks
  const auto large = MakeSequence(33, 4);    // 3 blocks
  const auto small = MakeSequence(1, 4);
  scheduler.Add(running.get());
  scheduler.Schedule();
  scheduler.Add(large.get());
  scheduler.Add(small.get());
  running->tokens.push_back(1);
  EXPECT_EQ(scheduler.Schedule().size(), 1U);
  EXPECT_EQ(scheduler.num_waiting(), 2);
  scheduler.Remove(running.get());
  EXPECT_EQ(scheduler.pool().num_used(), 0);
  const auto step = scheduler.Schedule();
  ASSERT_GE(step.size(), 1U);
  ExpectRows(step[0], large.get(), 0, 33, true);
}

TEST(Scheduler, PreemptsTheNewestWhichRecomputesWithItsTokens) {
  // Two sequences of one block each grow; the pool has three. The older gets the third, the newer
  // sits still with its block until the older needs that one too.
  Scheduler scheduler({.max_num_seqs = 2, .max_num_batched_tokens = 40, .num_blocks = 3});
  const auto older = MakeSequence(15, 30);
  const auto newer = MakeSequence(15, 30);
  scheduler.Add(older.get());
  scheduler.Add(newer.get());
  int step_count = 0;
  while (scheduler.num_preemptions() == 0) {
    ASSERT_LT(++step_count, 40);
    scheduler.Schedule();
    older->tokens.push_back(1);
    if (newer->computed == newer->total()) newer->tokens.push_back(1);
  }
  EXPECT_EQ(newer->state, Sequence::State::kWaiting);
  EXPECT_EQ(newer->computed, 0);
  EXPECT_TRUE(newer->blocks.empty());
  EXPECT_GT(newer->total(), 15);
  scheduler.Remove(older.get());
  const int64_t kept = newer->total();
  const auto step = scheduler.Schedule();
  ASSERT_EQ(step.size(), 1U);
  ExpectRows(step[0], newer.get(), 0, kept, true);
}

TEST(Scheduler, RemovesWaitingSequences) {
  Scheduler scheduler({.max_num_seqs = 1, .max_num_batched_tokens = 4, .num_blocks = 4});
  const auto a = MakeSequence(4, 4);
  const auto b = MakeSequence(4, 4);
  scheduler.Add(a.get());
  scheduler.Add(b.get());
  scheduler.Schedule();
  scheduler.Remove(b.get());
  EXPECT_EQ(scheduler.num_waiting(), 0);
  EXPECT_EQ(b->state, Sequence::State::kRemoved);
  scheduler.Remove(a.get());
  EXPECT_TRUE(scheduler.Schedule().empty());
  EXPECT_TRUE(scheduler.CheckIntegrity().ok());
}

// A life of a scheduler with random arrivals, ends and cancellations, checked after every step
// against a model that knows only what each sequence has been given so far.
class RandomLife {
 public:
  explicit RandomLife(uint32_t seed) : random_(seed) {
    options_.max_num_seqs = Uniform(1, 6);
    options_.max_num_batched_tokens = options_.max_num_seqs + Uniform(0, 40);
    options_.num_blocks = Uniform(1, 16);
    scheduler_ = std::make_unique<Scheduler>(options_);
  }

  void Run() {
    int64_t arrivals = Uniform(1, 25);
    int64_t steps = 0;
    while (arrivals > 0 || !live_.empty()) {
      while (arrivals > 0 && Chance(0.3)) {
        Arrive();
        --arrivals;
      }
      CancelSome();
      Step();
      if (testing::Test::HasFatalFailure()) return;
      // The oldest moves in every step, so each sequence costs at most its own rows, each a step.
      ASSERT_LT(++steps, 25 * scheduler_->max_total() + 1000);
    }
    EXPECT_EQ(scheduler_->pool().num_used(), 0);
    EXPECT_EQ(scheduler_->num_running() + scheduler_->num_waiting(), 0);
  }

  int64_t preemptions() const { return scheduler_->num_preemptions(); }
  int64_t chunks() const { return chunks_; }

 private:
  struct Life {
    std::unique_ptr<Sequence> sequence;
    int64_t computed = 0;  // rows given since the last (re)start
    int64_t target = 0;    // ends at this total
    std::vector<BlockId> blocks;
  };

  int64_t Uniform(int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(random_);
  }
  bool Chance(double p) { return std::bernoulli_distribution(p)(random_); }

  void Arrive() {
    const int64_t max_total = Uniform(2, scheduler_->max_total());
    const int64_t prompt = Uniform(1, max_total - 1);
    Life life;
    life.sequence = MakeSequence(prompt, max_total - prompt);
    life.target = Uniform(prompt + 1, max_total);
    scheduler_->Add(life.sequence.get());
    live_.push_back(std::move(life));
  }

  void CancelSome() {
    for (size_t i = live_.size(); i-- > 0;) {
      if (!Chance(0.01)) continue;
      scheduler_->Remove(live_[i].sequence.get());
      live_.erase(live_.begin() + static_cast<ptrdiff_t>(i));
    }
  }

  Life& Find(const Sequence* sequence) {
    return *std::find_if(live_.begin(), live_.end(),
                         [&](const Life& life) { return life.sequence.get() == sequence; });
  }

  void Step() {
    const std::span<const ScheduledRows> step = scheduler_->Schedule();
    const Status integrity = scheduler_->CheckIntegrity();
    ASSERT_TRUE(integrity.ok()) << integrity.message();
    if (live_.empty()) {
      ASSERT_TRUE(step.empty());
      return;
    }
    ASSERT_FALSE(step.empty());
    ASSERT_LE(scheduler_->num_running(), options_.max_num_seqs);
    // No starvation: the oldest of all is served first, in every step.
    ASSERT_EQ(step[0].sequence, live_.front().sequence.get());
    CheckPreempted();
    int64_t rows_in_all = 0;
    uint64_t next_arrival = 0;
    std::set<BlockId> owned;
    for (const ScheduledRows& rows : step) {
      rows_in_all += rows.count;
      ASSERT_GE(rows.sequence->arrival, next_arrival);  // in order, so nobody is served twice
      next_arrival = rows.sequence->arrival + 1;
      CheckRows(rows);
      for (const BlockId block : rows.sequence->blocks) ASSERT_TRUE(owned.insert(block).second);
    }
    ASSERT_LE(rows_in_all, options_.max_num_batched_tokens);
    // Work is not held back: rows are left over only when everyone running has what it lacks (or
    // lacks blocks).
    if (rows_in_all < options_.max_num_batched_tokens) {
      for (const ScheduledRows& rows : step) ASSERT_TRUE(rows.reaches_end);
      ASSERT_GE(static_cast<int64_t>(step.size()), scheduler_->num_running() - 1);
    }
    EndStep(std::vector<ScheduledRows>(step.begin(), step.end()));
  }

  void CheckPreempted() {
    for (Life& life : live_) {
      if (life.sequence->state != Sequence::State::kWaiting) continue;
      ASSERT_EQ(life.sequence->computed, 0);
      life.computed = 0;
      life.blocks.clear();
    }
  }

  void CheckRows(const ScheduledRows& rows) {
    Life& life = Find(rows.sequence);
    ASSERT_EQ(rows.start, life.computed);
    ASSERT_GT(rows.count, 0);
    life.computed += rows.count;
    ASSERT_LE(life.computed, rows.sequence->total());
    ASSERT_EQ(rows.reaches_end, life.computed == rows.sequence->total());
    ASSERT_LE(BlocksForTokens(life.computed), static_cast<int64_t>(rows.sequence->blocks.size()));
    // A table only grows: what was written stays where it was.
    ASSERT_TRUE(std::equal(life.blocks.begin(), life.blocks.end(), rows.sequence->blocks.begin()));
    life.blocks = rows.sequence->blocks;
    if (!rows.reaches_end) ++chunks_;
  }

  void EndStep(const std::vector<ScheduledRows>& step) {
    for (const ScheduledRows& rows : step) {
      if (!rows.reaches_end) continue;
      Life& life = Find(rows.sequence);
      life.sequence->tokens.push_back(1);
      if (life.sequence->total() < life.target) continue;
      scheduler_->Remove(life.sequence.get());
      live_.erase(live_.begin() + (&life - live_.data()));
    }
  }

  std::mt19937 random_;
  SchedulerOptions options_;
  std::unique_ptr<Scheduler> scheduler_;
  std::vector<Life> live_;  // by arrival
  int64_t chunks_ = 0;
};

TEST(SchedulerProperties, HoldThroughRandomLives) {
  int64_t preemptions = 0;
  int64_t chunks = 0;
  for (uint32_t seed = 0; seed < 3000; ++seed) {
    SCOPED_TRACE(seed);
    RandomLife life(seed);
    life.Run();
    if (HasFailure()) return;
    preemptions += life.preemptions();
    chunks += life.chunks();
  }
  // The lives did reach the interesting places.
  EXPECT_GT(preemptions, 300);
  EXPECT_GT(chunks, 1000);
}

}  // namespace
}  // namespace erne
