#include "engine/scheduler.h"

#include <algorithm>
#include <limits>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/scheduler_simulator.h"

namespace erne {
namespace {

using ::testing::ElementsAre;

constexpr int64_t kAllRows = std::numeric_limits<int64_t>::max();

std::unique_ptr<Sequence> MakeSequence(int64_t prompt, int64_t max_new) {
  auto sequence = std::make_unique<Sequence>();
  sequence->tokens.assign(static_cast<size_t>(prompt), 1);
  sequence->max_total = prompt + max_new;
  return sequence;
}

// With tokens that no sequence of another `first` has.
std::unique_ptr<Sequence> MakeOwnSequence(int32_t first, int64_t prompt, int64_t max_new) {
  auto sequence = MakeSequence(prompt, max_new);
  std::iota(sequence->tokens.begin(), sequence->tokens.end(), first * 10000);
  return sequence;
}

// Options without limits that a test does not set itself.
SchedulerOptions Roomy(int64_t num_blocks = 64) {
  return {.max_num_seqs = 8,
          .max_num_batched_tokens = 1000,
          .max_logit_rows = 1000,
          .num_blocks = num_blocks};
}

std::vector<ScheduledRows> Plan(Scheduler& scheduler, int64_t max_prompt_rows = kAllRows) {
  const auto step = scheduler.Schedule(max_prompt_rows);
  const Status integrity = scheduler.CheckIntegrity();
  EXPECT_TRUE(integrity.ok()) << integrity.message();
  return {step.begin(), step.end()};
}

// The step went well; who is at its end gets token 1. Guesses were all wrong.
void Finish(Scheduler& scheduler, const std::vector<ScheduledRows>& step) {
  for (const ScheduledRows& rows : step) {
    Sequence& sequence = *rows.sequence;
    const int64_t drafts = std::exchange(sequence.drafts, 0);
    sequence.tokens.resize(sequence.tokens.size() - static_cast<size_t>(drafts));
    scheduler.Commit(rows, drafts);
    if (rows.reaches_end) sequence.tokens.push_back(1);
  }
  const Status integrity = scheduler.CheckIntegrity();
  EXPECT_TRUE(integrity.ok()) << integrity.message();
}

std::vector<ScheduledRows> RunStep(Scheduler& scheduler, int64_t max_prompt_rows = kAllRows) {
  std::vector<ScheduledRows> step = Plan(scheduler, max_prompt_rows);
  Finish(scheduler, step);
  return step;
}

void AddGuesses(Sequence& sequence, int64_t count) {
  sequence.tokens.resize(sequence.tokens.size() + static_cast<size_t>(count), 1);
  sequence.drafts = count;
}

void ExpectRows(const ScheduledRows& rows, const Sequence* sequence, int64_t start, int64_t count,
                bool reaches_end) {
  EXPECT_EQ(rows.sequence, sequence);
  EXPECT_EQ(rows.start, start);
  EXPECT_EQ(rows.count, count);
  EXPECT_EQ(rows.reaches_end, reaches_end);
}

TEST(Scheduler, EmptyWithoutSequences) {
  Scheduler scheduler(Roomy(8));
  EXPECT_TRUE(scheduler.Schedule(kAllRows).empty());
  EXPECT_EQ(scheduler.max_total(), 8 * kKvBlockSize);
}

TEST(Scheduler, CutsALongPromptToTheBudgetAndDecodesBesideIt) {
  SchedulerOptions options = Roomy(8);
  options.max_num_batched_tokens = 10;
  Scheduler scheduler(options);
  const auto first = MakeSequence(3, 10);
  const auto second = MakeSequence(15, 10);
  scheduler.Add(first.get());
  scheduler.Add(second.get());

  auto step = RunStep(scheduler);
  ASSERT_EQ(step.size(), 2U);
  ExpectRows(step[0], first.get(), 0, 3, true);
  EXPECT_EQ(step[0].logits, 1);
  ExpectRows(step[1], second.get(), 0, 7, false);
  EXPECT_EQ(step[1].logits, 0);
  EXPECT_EQ(scheduler.num_prefilling(), 1);

  step = RunStep(scheduler);
  ASSERT_EQ(step.size(), 2U);
  ExpectRows(step[0], first.get(), 3, 1, true);
  ExpectRows(step[1], second.get(), 7, 8, true);
  EXPECT_EQ(scheduler.num_prefilling(), 0);

  step = RunStep(scheduler);
  ASSERT_EQ(step.size(), 2U);
  ExpectRows(step[1], second.get(), 15, 1, true);
}

TEST(Scheduler, EveryRunningSequenceMovesHoweverLongThePromptBeforeIt) {
  SchedulerOptions options = Roomy();
  options.max_num_batched_tokens = 12;
  Scheduler scheduler(options);
  const auto small = MakeOwnSequence(1, 2, 10);
  scheduler.Add(small.get());
  RunStep(scheduler);
  const auto large = MakeOwnSequence(2, 100, 10);
  large->priority = -1;  // goes before the small one, and still leaves it a row
  scheduler.Add(large.get());
  ExpectRows(RunStep(scheduler)[0], large.get(), 0, 11, false);
  const auto step = RunStep(scheduler);
  ASSERT_EQ(step.size(), 2U);
  ExpectRows(step[0], large.get(), 11, 11, false);
  ExpectRows(step[1], small.get(), 3, 1, true);
}

TEST(Scheduler, MaxPromptRowsBoundsWhatIsBeyondTheFirstRow) {
  Scheduler scheduler(Roomy());
  const auto decoding = MakeOwnSequence(1, 1, 50);
  scheduler.Add(decoding.get());
  RunStep(scheduler);
  const auto first = MakeOwnSequence(2, 40, 5);
  const auto second = MakeOwnSequence(3, 40, 5);
  scheduler.Add(first.get());
  scheduler.Add(second.get());
  auto step = RunStep(scheduler, 9);
  ASSERT_EQ(step.size(), 2U);
  ExpectRows(step[1], first.get(), 0, 10, false);  // nobody is admitted with what is not left
  step = RunStep(scheduler, 0);
  ASSERT_EQ(step.size(), 2U);
  ExpectRows(step[1], first.get(), 10, 2, false);  // one goes on in any case
  step = RunStep(scheduler, 40);
  ASSERT_EQ(step.size(), 3U);
  ExpectRows(step[1], first.get(), 12, 28, true);
  ExpectRows(step[2], second.get(), 0, 14, false);
}

TEST(Scheduler, HoldsAtMostMaxNumSeqs) {
  SchedulerOptions options = Roomy();
  options.max_num_seqs = 2;
  Scheduler scheduler(options);
  std::vector<std::unique_ptr<Sequence>> sequences;
  for (int i = 0; i < 3; ++i) {
    sequences.push_back(MakeSequence(2, 5));
    scheduler.Add(sequences.back().get());
  }
  EXPECT_EQ(RunStep(scheduler).size(), 2U);
  EXPECT_EQ(scheduler.num_waiting(), 1);
  scheduler.Remove(sequences[0].get());
  const auto step = RunStep(scheduler);
  ASSERT_EQ(step.size(), 2U);
  ExpectRows(step[0], sequences[1].get(), 2, 1, true);
  ExpectRows(step[1], sequences[2].get(), 0, 2, true);
}

TEST(Scheduler, ALongPromptWaitsForItsBlocksAndNobodyOvertakes) {
  Scheduler scheduler(Roomy(4));
  const auto running = MakeOwnSequence(1, 32, 4);  // 2 blocks
  const auto large = MakeOwnSequence(2, 33, 4);    // 3 blocks
  const auto small = MakeOwnSequence(3, 1, 4);
  scheduler.Add(running.get());
  RunStep(scheduler);
  scheduler.Add(large.get());
  scheduler.Add(small.get());
  EXPECT_EQ(RunStep(scheduler).size(), 1U);
  EXPECT_EQ(scheduler.num_waiting(), 2);
  scheduler.Remove(running.get());
  EXPECT_EQ(scheduler.pool().num_used(), 0);
  const auto step = RunStep(scheduler);
  ASSERT_EQ(step.size(), 1U);
  ExpectRows(step[0], large.get(), 0, 33, true);
}

TEST(Scheduler, WaitsInOrderOfPriorityThenArrival) {
  SchedulerOptions options = Roomy();
  options.max_num_seqs = 1;
  Scheduler scheduler(options);
  const std::vector<int64_t> priorities = {5, 0, 0, -3};
  std::vector<std::unique_ptr<Sequence>> sequences;
  for (const int64_t priority : priorities) {
    sequences.push_back(MakeSequence(2, 5));
    sequences.back()->priority = priority;
    scheduler.Add(sequences.back().get());
  }
  for (const size_t next : {3, 1, 2, 0}) {
    const auto step = RunStep(scheduler);
    ASSERT_EQ(step.size(), 1U);
    EXPECT_EQ(step[0].sequence, sequences[next].get());
    scheduler.Remove(sequences[next].get());
  }
}

TEST(Scheduler, RunningSequencesDoNotGiveWayToAPriorityButAreServedAfterIt) {
  SchedulerOptions options = Roomy();
  options.max_num_seqs = 2;
  Scheduler scheduler(options);
  const auto a = MakeOwnSequence(1, 2, 9);
  const auto b = MakeOwnSequence(2, 2, 9);
  const auto urgent = MakeOwnSequence(3, 2, 9);
  urgent->priority = -1;
  scheduler.Add(a.get());
  scheduler.Add(b.get());
  RunStep(scheduler);
  scheduler.Add(urgent.get());
  EXPECT_EQ(RunStep(scheduler)[0].sequence, a.get());
  EXPECT_EQ(scheduler.num_waiting(), 1);
  scheduler.Remove(a.get());
  const auto step = RunStep(scheduler);
  ASSERT_EQ(step.size(), 2U);
  EXPECT_EQ(step[0].sequence, urgent.get());
  EXPECT_EQ(step[1].sequence, b.get());
}

TEST(Scheduler, PreemptsTheLastWhichRecomputesWithItsTokens) {
  // Two sequences of one block each grow; the pool has three. The first to need another block gets
  // the third, the second has to give its own back.
  SchedulerOptions options = Roomy(3);
  options.prefix_caching = false;
  Scheduler scheduler(options);
  const auto older = MakeSequence(15, 30);
  const auto newer = MakeSequence(14, 30);
  scheduler.Add(older.get());
  scheduler.Add(newer.get());
  int step_count = 0;
  while (scheduler.counters().preemptions == 0) {
    ASSERT_LT(++step_count, 40);
    RunStep(scheduler);
  }
  EXPECT_EQ(newer->state, Sequence::State::kWaiting);
  EXPECT_EQ(newer->preemptions, 1);
  EXPECT_EQ(newer->computed, 0);
  EXPECT_TRUE(newer->blocks.empty());
  const int64_t kept = newer->known();
  EXPECT_EQ(kept, 17);
  scheduler.Remove(older.get());
  const auto step = RunStep(scheduler);
  ASSERT_EQ(step.size(), 1U);
  ExpectRows(step[0], newer.get(), 0, kept, true);
}

TEST(Scheduler, ThePriorityDecidesWhoIsPreempted) {
  Scheduler scheduler(Roomy(3));
  const auto older = MakeOwnSequence(1, 15, 30);
  const auto urgent = MakeOwnSequence(2, 14, 30);
  urgent->priority = -1;
  scheduler.Add(older.get());
  RunStep(scheduler);
  scheduler.Add(urgent.get());
  while (scheduler.counters().preemptions == 0) RunStep(scheduler);
  EXPECT_EQ(older->state, Sequence::State::kWaiting);
  EXPECT_EQ(urgent->state, Sequence::State::kRunning);
}

TEST(Scheduler, RemovesWaitingSequences) {
  SchedulerOptions options = Roomy();
  options.max_num_seqs = 1;
  Scheduler scheduler(options);
  const auto a = MakeSequence(4, 4);
  const auto b = MakeSequence(4, 4);
  scheduler.Add(a.get());
  scheduler.Add(b.get());
  RunStep(scheduler);
  scheduler.Remove(b.get());
  EXPECT_EQ(scheduler.num_waiting(), 0);
  EXPECT_EQ(b->state, Sequence::State::kRemoved);
  scheduler.Remove(a.get());
  EXPECT_TRUE(Plan(scheduler).empty());
}

TEST(Scheduler, KeepsTheOrderOfThousandsThroughCancellations) {
  SchedulerOptions options = Roomy();
  options.max_num_seqs = 1;
  Scheduler scheduler(options);
  std::mt19937 random(1);
  std::vector<std::unique_ptr<Sequence>> kept;
  std::vector<std::unique_ptr<Sequence>> cancelled;
  for (int i = 0; i < 5000; ++i) {
    auto sequence = MakeSequence(1, 1);
    sequence->priority = static_cast<int64_t>(random() % 3);
    scheduler.Add(sequence.get());
    (i % 10 == 0 ? kept : cancelled).push_back(std::move(sequence));
  }
  std::shuffle(cancelled.begin(), cancelled.end(), random);
  for (const auto& sequence : cancelled) scheduler.Remove(sequence.get());
  std::stable_sort(kept.begin(), kept.end(),
                   [](const auto& a, const auto& b) { return a->priority < b->priority; });
  for (const auto& sequence : kept) {
    const auto step = RunStep(scheduler);
    ASSERT_EQ(step.size(), 1U);
    ASSERT_EQ(step[0].sequence, sequence.get());
    scheduler.Remove(sequence.get());
  }
  EXPECT_EQ(scheduler.num_waiting(), 0);
}

TEST(SchedulerPrefix, ASequenceBeginsBehindWhatIsCached) {
  Scheduler scheduler(Roomy());
  const auto first = MakeOwnSequence(1, 40, 10);
  scheduler.Add(first.get());
  RunStep(scheduler);
  const auto second = MakeOwnSequence(1, 40, 10);  // while the first runs
  scheduler.Add(second.get());
  auto step = RunStep(scheduler);
  ASSERT_EQ(step.size(), 2U);
  ExpectRows(step[1], second.get(), 32, 8, true);
  EXPECT_EQ(second->cached, 32);
  EXPECT_EQ(second->blocks[0], first->blocks[0]);
  EXPECT_EQ(second->blocks[1], first->blocks[1]);
  EXPECT_NE(second->blocks[2], first->blocks[2]);
  EXPECT_EQ(scheduler.pool().num_used(), 4);
  scheduler.Remove(first.get());
  EXPECT_EQ(scheduler.pool().num_used(), 3);
  scheduler.Remove(second.get());
  EXPECT_EQ(scheduler.pool().num_used(), 0);

  const auto third = MakeOwnSequence(1, 33, 10);  // and when nobody does
  scheduler.Add(third.get());
  step = RunStep(scheduler);
  ExpectRows(step[0], third.get(), 32, 1, true);
  EXPECT_EQ(scheduler.counters().prefix_queries, 3 * 32);
  EXPECT_EQ(scheduler.counters().prefix_hits, 2 * 32);
  EXPECT_EQ(scheduler.counters().blocks_taken, 9);
  EXPECT_EQ(scheduler.counters().blocks_reused, 4);
}

TEST(SchedulerPrefix, TheLastKnownTokenIsComputedInAnyCase) {
  Scheduler scheduler(Roomy());
  const auto first = MakeOwnSequence(1, 32, 10);
  scheduler.Add(first.get());
  RunStep(scheduler);
  const auto second = MakeOwnSequence(1, 32, 10);
  scheduler.Add(second.get());
  ExpectRows(RunStep(scheduler)[1], second.get(), 16, 16, true);
}

TEST(SchedulerPrefix, GeneratedTokensAreFoundAsWell) {
  Scheduler scheduler(Roomy());
  const auto first = MakeOwnSequence(1, 30, 10);
  scheduler.Add(first.get());
  for (int i = 0; i < 4; ++i) RunStep(scheduler);
  const auto next_turn = MakeOwnSequence(1, 30, 30);
  next_turn->tokens.insert(next_turn->tokens.end(), {1, 1, 5, 6});
  scheduler.Remove(first.get());
  scheduler.Add(next_turn.get());
  ExpectRows(RunStep(scheduler)[0], next_turn.get(), 32, 2, true);
}

TEST(SchedulerPrefix, WhatIsNotYetComputedIsNotFound) {
  SchedulerOptions options = Roomy();
  options.max_num_batched_tokens = 24;
  Scheduler scheduler(options);
  const auto first = MakeOwnSequence(1, 40, 10);
  const auto second = MakeOwnSequence(1, 40, 10);
  scheduler.Add(first.get());
  scheduler.Add(second.get());
  EXPECT_EQ(RunStep(scheduler).size(), 1U);  // 24 rows: one full block
  const auto step = RunStep(scheduler);      // the other 16, and 8 for the second
  ASSERT_EQ(step.size(), 2U);
  ExpectRows(step[1], second.get(), 16, 8, false);
  // The block that both computed is the first one's in the cache; the second keeps its own.
  scheduler.Remove(first.get());
  RunStep(scheduler);
  scheduler.Remove(second.get());
}

TEST(SchedulerPrefix, SaltsAreSeparate) {
  Scheduler scheduler(Roomy());
  const auto first = MakeOwnSequence(1, 40, 10);
  first->root = scheduler.Root("a");
  const auto other = MakeOwnSequence(1, 40, 10);
  other->root = scheduler.Root("b");
  const auto same = MakeOwnSequence(1, 40, 10);
  same->root = scheduler.Root("a");
  scheduler.Add(first.get());
  RunStep(scheduler);
  scheduler.Add(other.get());
  scheduler.Add(same.get());
  const auto step = RunStep(scheduler);
  ASSERT_EQ(step.size(), 3U);
  ExpectRows(step[1], other.get(), 0, 40, true);
  ExpectRows(step[2], same.get(), 32, 8, true);
}

TEST(SchedulerPrefix, OffMeansOff) {
  SchedulerOptions options = Roomy();
  options.prefix_caching = false;
  Scheduler scheduler(options);
  const auto first = MakeOwnSequence(1, 40, 10);
  const auto second = MakeOwnSequence(1, 40, 10);
  scheduler.Add(first.get());
  RunStep(scheduler);
  scheduler.Add(second.get());
  ExpectRows(RunStep(scheduler)[1], second.get(), 0, 40, true);
  EXPECT_TRUE(first->keys.empty());
  EXPECT_EQ(scheduler.counters().prefix_queries, 0);
}

TEST(SchedulerPrefix, APreemptedSequenceFindsItsOwnBlocks) {
  Scheduler scheduler(Roomy(5));
  const auto older = MakeOwnSequence(1, 30, 30);
  const auto newer = MakeOwnSequence(2, 31, 30);
  scheduler.Add(older.get());
  scheduler.Add(newer.get());
  while (scheduler.counters().preemptions == 0) RunStep(scheduler);
  const int64_t kept = newer->known();
  scheduler.Remove(older.get());
  const auto step = RunStep(scheduler);
  // The older one's block came from what the newer had freed last in its chain, if from there.
  ExpectRows(step[0], newer.get(), 32, kept - 32, true);
  EXPECT_EQ(newer->cached, 32);
  EXPECT_EQ(scheduler.counters().prefix_queries, 16 + 16) << "a preemption is no new query";
}

TEST(SchedulerPrefix, TheEndsOfChainsAreLostFirst) {
  Scheduler scheduler(Roomy(5));
  const auto first = MakeOwnSequence(1, 65, 1);
  scheduler.Add(first.get());
  RunStep(scheduler);
  scheduler.Remove(first.get());
  const auto other = MakeOwnSequence(2, 33, 1);  // takes the partial block, then two of the chain
  scheduler.Add(other.get());
  RunStep(scheduler);
  scheduler.Remove(other.get());
  const auto again = MakeOwnSequence(1, 65, 1);
  scheduler.Add(again.get());
  ExpectRows(RunStep(scheduler)[0], again.get(), 32, 33, true);
}

TEST(SchedulerPrefix, FreeBlocksThatAreFoundCountAsTaken) {
  // 2 of the newcomer's 3 blocks are found, but free: with one running, 3 of 4 are too many.
  Scheduler scheduler(Roomy(5));
  const auto first = MakeOwnSequence(1, 33, 1);
  scheduler.Add(first.get());
  RunStep(scheduler);
  scheduler.Remove(first.get());
  const auto running = MakeOwnSequence(2, 17, 9);
  scheduler.Add(running.get());
  RunStep(scheduler);
  EXPECT_EQ(scheduler.pool().num_free(), 3);
  const auto again = MakeOwnSequence(1, 33, 1);
  scheduler.Add(again.get());
  EXPECT_EQ(RunStep(scheduler).size(), 1U);
  scheduler.Remove(running.get());
  ExpectRows(RunStep(scheduler)[0], again.get(), 32, 1, true);
}

TEST(SchedulerLogits, APromptWithLogitsTakesNothingFromTheCacheAndGivesToIt) {
  Scheduler scheduler(Roomy());
  const auto first = MakeOwnSequence(1, 40, 10);
  const auto second = MakeOwnSequence(1, 40, 10);
  first->prompt_logits = second->prompt_logits = true;
  scheduler.Add(first.get());
  EXPECT_EQ(RunStep(scheduler)[0].logits, 40);
  scheduler.Add(second.get());
  auto step = RunStep(scheduler);
  ExpectRows(step[1], second.get(), 0, 40, true);
  EXPECT_EQ(step[1].logits, 40);
  const auto third = MakeOwnSequence(1, 40, 10);
  scheduler.Add(third.get());
  ExpectRows(RunStep(scheduler)[2], third.get(), 32, 8, true);
  EXPECT_EQ(scheduler.counters().prefix_queries, 32);
}

TEST(SchedulerLogits, APromptWithLogitsTakesTheLogitRowsThatAreLeft) {
  SchedulerOptions options = Roomy();
  options.max_logit_rows = 10;
  Scheduler scheduler(options);
  const auto decoding = MakeOwnSequence(1, 1, 20);
  const auto prompt = MakeOwnSequence(2, 30, 10);
  prompt->prompt_logits = true;
  scheduler.Add(decoding.get());
  scheduler.Add(prompt.get());
  auto step = RunStep(scheduler);
  ExpectRows(step[1], prompt.get(), 0, 9, false);
  EXPECT_EQ(step[1].logits, 9);
  const auto newcomer = MakeOwnSequence(3, 20, 10);
  scheduler.Add(newcomer.get());
  step = RunStep(scheduler);  // one is left to the newcomer
  ASSERT_EQ(step.size(), 3U);
  ExpectRows(step[1], prompt.get(), 9, 8, false);
  ExpectRows(step[2], newcomer.get(), 0, 20, true);
  step = RunStep(scheduler);
  ExpectRows(step[1], prompt.get(), 17, 8, false);
  step = RunStep(scheduler);
  ExpectRows(step[1], prompt.get(), 25, 5, true);
}

TEST(SchedulerGuesses, RunBehindTheNewestTokenAndTheWrongOnesAreTakenBack) {
  Scheduler scheduler(Roomy());
  const auto sequence = MakeOwnSequence(1, 4, 40);
  scheduler.Add(sequence.get());
  RunStep(scheduler);
  AddGuesses(*sequence, 5);
  auto step = Plan(scheduler);
  ExpectRows(step[0], sequence.get(), 4, 6, true);
  EXPECT_EQ(step[0].logits, 6);
  EXPECT_EQ(sequence->known(), 5);
  // Two are right.
  sequence->drafts = 0;
  sequence->tokens.resize(7);
  scheduler.Commit(step[0], 3);
  EXPECT_EQ(sequence->computed, 7);
  sequence->tokens.push_back(1);
  ExpectRows(RunStep(scheduler)[0], sequence.get(), 7, 1, true);
}

TEST(SchedulerGuesses, TakeTheRowsThatAreLeft) {
  SchedulerOptions options = Roomy();
  options.max_num_batched_tokens = 20;
  options.max_logit_rows = 8;
  Scheduler scheduler(options);
  const auto a = MakeOwnSequence(1, 1, 40);
  const auto b = MakeOwnSequence(2, 1, 40);
  scheduler.Add(a.get());
  scheduler.Add(b.get());
  RunStep(scheduler);
  AddGuesses(*a, 5);
  AddGuesses(*b, 5);
  auto step = Plan(scheduler);  // 8 logit rows
  EXPECT_EQ(step[0].count, 6);
  EXPECT_EQ(step[1].count, 2);
  EXPECT_EQ(b->drafts, 1);
  EXPECT_EQ(b->tokens.size(), 3U);
  Finish(scheduler, step);
  const auto prompt = MakeOwnSequence(3, 16, 10);
  scheduler.Add(prompt.get());
  AddGuesses(*a, 5);
  AddGuesses(*b, 5);
  step = Plan(scheduler);  // 20 rows: 2 decoding, 16 of the prompt
  ASSERT_EQ(step.size(), 3U);
  ExpectRows(step[2], prompt.get(), 0, 16, true);
  EXPECT_EQ(step[0].count, 3);
  EXPECT_EQ(step[1].count, 1);
  EXPECT_EQ(b->drafts, 0);
  Finish(scheduler, step);
}

TEST(SchedulerGuesses, TakeOnlyBlocksThatNobodyIsGoingToNeed) {
  SchedulerOptions options = Roomy(3);
  options.max_num_seqs = 2;
  Scheduler scheduler(options);
  const auto a = MakeOwnSequence(1, 13, 30);
  scheduler.Add(a.get());
  RunStep(scheduler);  // 14 known: 2 more fit its block
  AddGuesses(*a, 6);
  auto step = Plan(scheduler);  // two blocks are free, one of them is kept for the sequence
  EXPECT_EQ(step[0].count, 7);
  EXPECT_EQ(scheduler.pool().num_used(), 2);
  Finish(scheduler, step);
  EXPECT_EQ(scheduler.pool().num_used(), 1) << "the guesses' block is free again";
  const auto waiting = MakeOwnSequence(2, 20, 10);
  scheduler.Add(waiting.get());
  AddGuesses(*a, 6);
  step = Plan(scheduler);
  ASSERT_EQ(step.size(), 1U);
  EXPECT_EQ(step[0].count, 2) << "15 known: one more fits the block";
  EXPECT_EQ(a->tokens.size(), 16U);
  Finish(scheduler, step);
}

TEST(SchedulerGuesses, APreemptedSequenceForgetsThem) {
  Scheduler scheduler(Roomy(3));
  const auto older = MakeOwnSequence(1, 15, 30);
  const auto newer = MakeOwnSequence(2, 10, 30);
  scheduler.Add(older.get());
  scheduler.Add(newer.get());
  while (newer->known() <= 16) RunStep(scheduler);  // the older one has the third block
  ASSERT_EQ(newer->state, Sequence::State::kRunning);
  AddGuesses(*newer, 3);
  const int64_t known = newer->known();
  Plan(scheduler);
  EXPECT_EQ(newer->state, Sequence::State::kWaiting);
  EXPECT_EQ(newer->drafts, 0);
  EXPECT_EQ(static_cast<int64_t>(newer->tokens.size()), known);
}

class RecordingListener : public BlockListener {
 public:
  void OnTaken(BlockId block) override { Add("taken", block); }
  void OnReused(BlockId block) override { Add("reused", block); }
  void OnReleased(BlockId block) override { Add("released", block); }
  void OnEvicted(BlockId block) override { Add("evicted", block); }
  std::vector<std::string> Take() { return std::exchange(events_, {}); }

 private:
  void Add(const char* what, BlockId block) {
    events_.push_back(std::string(what) + " " + std::to_string(block));
  }
  std::vector<std::string> events_;
};

TEST(Scheduler, TellsItsListenerWhatHappensToBlocks) {
  RecordingListener listener;
  Scheduler scheduler(Roomy(3), &listener);
  const auto first = MakeOwnSequence(1, 20, 1);
  scheduler.Add(first.get());
  RunStep(scheduler);
  EXPECT_THAT(listener.Take(), ElementsAre("taken 0", "taken 1"));
  const auto second = MakeOwnSequence(1, 17, 1);
  scheduler.Remove(first.get());
  EXPECT_THAT(listener.Take(), ElementsAre("released 1", "released 0"));
  scheduler.Add(second.get());
  RunStep(scheduler);
  EXPECT_THAT(listener.Take(), ElementsAre("reused 0", "taken 1"));
  scheduler.Remove(second.get());
  listener.Take();
  const auto large = MakeOwnSequence(2, 33, 1);
  scheduler.Add(large.get());
  RunStep(scheduler);
  EXPECT_THAT(listener.Take(), ElementsAre("taken 1", "taken 2", "evicted 0", "taken 0"));
}

TEST(SchedulerDeathTest, MisuseIsCaught) {
  Scheduler scheduler(Roomy(4));
  const auto sequence = MakeSequence(3, 10);
  scheduler.Add(sequence.get());
  const auto step = Plan(scheduler);
  EXPECT_DEATH(scheduler.Commit(step[0], 3), "3 rejected");
  scheduler.Commit(step[0], 0);
  EXPECT_DEATH(scheduler.Schedule(kAllRows), "got no token after its last row");
  EXPECT_DEATH(scheduler.Add(sequence.get()), "kNew");
  sequence->tokens.push_back(1);
  AddGuesses(*sequence, 9);  // the token that follows them would be one too many
  EXPECT_DEATH(scheduler.Schedule(kAllRows), "9 guesses behind 4 tokens");
  EXPECT_DEATH(Scheduler({.max_num_seqs = 3, .max_num_batched_tokens = 3, .max_logit_rows = 2}),
               "do not move 3 sequences");
}

// Lives at random; what is checked in each step is in scheduler_simulator.cc.
TEST(SchedulerProperties, HoldThroughRandomLives) {
  SchedulerSimulator::Counts sum;
  for (uint32_t seed = 0; seed < 2000; ++seed) {
    std::mt19937 random(seed);
    SchedulerSimulator simulator([&random](int64_t low, int64_t high) {
      return std::uniform_int_distribution<int64_t>(low, high)(random);
    });
    const Status status = simulator.Run();
    ASSERT_TRUE(status.ok()) << "seed " << seed << ": " << status.message();
    const SchedulerSimulator::Counts& counts = simulator.counts();
    sum.chunks += counts.chunks;
    sum.preemptions += counts.preemptions;
    sum.hits += counts.hits;
    sum.hits_again += counts.hits_again;
    sum.evictions += counts.evictions;
    sum.right_guesses += counts.right_guesses;
    sum.wrong_guesses += counts.wrong_guesses;
    sum.dropped_guesses += counts.dropped_guesses;
    sum.overtaken += counts.overtaken;
    sum.prompt_logits += counts.prompt_logits;
    sum.failed_steps += counts.failed_steps;
    sum.cancelled += counts.cancelled;
    sum.ended += counts.ended;
  }
  // The lives did reach the interesting places.
  EXPECT_GT(sum.chunks, 10000);
  EXPECT_GT(sum.preemptions, 500);
  EXPECT_GT(sum.hits, 500);
  EXPECT_GT(sum.hits_again, 300);
  EXPECT_GT(sum.evictions, 10000);
  EXPECT_GT(sum.right_guesses, 10000);
  EXPECT_GT(sum.wrong_guesses, 10000);
  EXPECT_GT(sum.dropped_guesses, 10000);
  EXPECT_GT(sum.overtaken, 1000);
  EXPECT_GT(sum.prompt_logits, 1000);
  EXPECT_GT(sum.failed_steps, 500);
  EXPECT_GT(sum.cancelled, 1000);
  EXPECT_GT(sum.ended, 10000);
}

}  // namespace
}  // namespace erne
