#include "executor/cuda/step_plan.h"

#include <cstring>
#include <numeric>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kv/block_pool.h"

namespace erne::cuda {
namespace {

using ::testing::ElementsAre;

constexpr int32_t kSpare = 1000;

class StepPlanTest : public ::testing::Test {
 protected:
  static StepLimits Limits() {
    StepLimits limits;
    limits.group = 8;
    limits.max_states = 64;
    limits.max_split_ranges = 16;
    limits.spare_block = kSpare;
    limits.max_words = 4096;
    return limits;
  }

  // A sequence with its own blocks and tokens 1, 2, ...
  void Add(int64_t start, int64_t count,
           SequenceRows::Logits logits = SequenceRows::Logits::kLast) {
    auto& tokens = tokens_.emplace_back(static_cast<size_t>(count));
    std::iota(tokens.begin(), tokens.end(), static_cast<int32_t>(start + 1));
    auto& blocks = blocks_.emplace_back(static_cast<size_t>(BlocksForTokens(start + count)));
    std::iota(blocks.begin(), blocks.end(), next_block_);
    next_block_ += static_cast<BlockId>(blocks.size());
    batch_.push_back({start, tokens, blocks, logits});
  }

  void Plan(const StepLimits& limits, int pad_to = 0) {
    StepPlanner planner(limits);
    planner.Plan(batch_, pad_to, plan_);
    shape_ = planner.shape();
    words_ = planner.words();
    at_ = LayoutOf(shape_);
  }

  std::vector<int32_t> Words(int64_t begin, int64_t count) const {
    return {plan_.begin() + begin, plan_.begin() + begin + count};
  }
  QueryRange Range(int64_t begin, int index) const {
    QueryRange range;
    std::memcpy(static_cast<void*>(&range),
                plan_.data() + begin + index * int64_t{sizeof(range) / 4}, sizeof(range));
    return range;
  }

  std::vector<std::vector<int32_t>> tokens_;
  std::vector<std::vector<BlockId>> blocks_;
  BlockId next_block_ = 0;
  Batch batch_;
  std::vector<int32_t> plan_ = std::vector<int32_t>(4096, -1);
  StepShape shape_;
  StepLayout at_;
  int64_t words_ = 0;
};

TEST_F(StepPlanTest, DecodingIsPaddedWithRowsOfNobody) {
  tokens_.reserve(4);
  blocks_.reserve(4);
  Add(17, 1);
  Add(64, 1);
  Plan(Limits(), 4);
  EXPECT_EQ(shape_.rows, 4);
  EXPECT_EQ(shape_.logit_rows, 4);
  EXPECT_TRUE(shape_.all_have_logits);
  EXPECT_EQ(shape_.split_ranges, 4);
  EXPECT_EQ(shape_.walked_ranges, 0);
  EXPECT_THAT(Words(at_.tokens, 4), ElementsAre(18, 65, 0, 0));
  EXPECT_THAT(Words(at_.positions, 4), ElementsAre(17, 64, 0, 0));
  // Blocks 0, 1 and 2 .. 6; the padding writes into the spare block.
  EXPECT_THAT(Words(at_.slots, 4), ElementsAre(16 + 1, 6 * 16, kSpare * 16, kSpare * 16));
  EXPECT_THAT(Words(at_.logit_rows, 4), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(Words(at_.tables, words_ - at_.tables),
              ElementsAre(0, 1, 2, 3, 4, 5, 6, kSpare, kSpare));
  const QueryRange second = Range(at_.split_ranges, 1);
  EXPECT_EQ(second.first_row, 1);
  EXPECT_EQ(second.position, 64);
  EXPECT_EQ(second.begin, 0);
  EXPECT_EQ(second.end, 8);
  EXPECT_EQ(second.table, 2);
  EXPECT_EQ(second.first_state, 1);                          // after the one span of the first
  EXPECT_EQ(Range(at_.split_ranges, 2).first_state, 1 + 2);  // position 64 is in a second span
}

TEST_F(StepPlanTest, PromptsWalkAndAreNotPadded) {
  tokens_.reserve(4);
  blocks_.reserve(4);
  Add(5, 40);
  Add(100, 1);
  Plan(Limits(), 64);
  EXPECT_EQ(shape_.rows, 41);
  EXPECT_EQ(shape_.logit_rows, 2);
  EXPECT_FALSE(shape_.all_have_logits);
  EXPECT_THAT(Words(at_.logit_rows, 2), ElementsAre(39, 40));
  // 40 rows of 8 heads are 320 queries in ranges of 128.
  EXPECT_EQ(shape_.walked_ranges, 3);
  EXPECT_EQ(Range(at_.walked_ranges, 2).begin, 256);
  EXPECT_EQ(Range(at_.walked_ranges, 2).end, 320);
  EXPECT_EQ(Range(at_.walked_ranges, 2).position, 5);
  EXPECT_EQ(shape_.split_ranges, 1);
  EXPECT_EQ(Range(at_.split_ranges, 0).first_row, 40);
  EXPECT_EQ(Range(at_.split_ranges, 0).table, 3);
}

TEST_F(StepPlanTest, WhatTheWorkspaceDoesNotHoldWalks) {
  tokens_.reserve(4);
  blocks_.reserve(4);
  StepLimits limits = Limits();
  limits.max_states = 3;
  Add(127, 1);  // two spans
  Add(127, 1);  // two more than there is room for
  Add(10, 1);   // one
  Plan(limits, 8);
  EXPECT_EQ(shape_.rows, 3) << "not padded: a graph splits all of its rows";
  EXPECT_EQ(shape_.split_ranges, 2);
  EXPECT_EQ(shape_.walked_ranges, 1);
  EXPECT_EQ(Range(at_.walked_ranges, 0).first_row, 1);
  EXPECT_EQ(Range(at_.split_ranges, 1).first_row, 2);
  EXPECT_EQ(Range(at_.split_ranges, 1).first_state, 2);
}

TEST_F(StepPlanTest, SomeRowsOfOneSequenceSplitIntoTiles) {
  Add(62, 5, SequenceRows::Logits::kAll);  // as guesses are checked
  Plan(Limits(), 8);
  EXPECT_EQ(shape_.rows, 5) << "not padded: not single rows";
  EXPECT_TRUE(shape_.all_have_logits);
  EXPECT_EQ(shape_.split_ranges, 3);  // 40 queries
  EXPECT_EQ(Range(at_.split_ranges, 2).begin, 32);
  EXPECT_EQ(Range(at_.split_ranges, 2).end, 40);
  EXPECT_EQ(Range(at_.split_ranges, 2).first_state, 4);  // each tile has room for two spans
}

TEST_F(StepPlanTest, WithoutASplitKernelAllWalk) {
  StepLimits limits = Limits();
  limits.split = false;
  Add(3, 1);
  Plan(limits, 4);
  EXPECT_EQ(shape_.rows, 1);
  EXPECT_EQ(shape_.split_ranges, 0);
  EXPECT_EQ(shape_.walked_ranges, 1);
  EXPECT_EQ(Range(at_.walked_ranges, 0).end, 8);
}

TEST_F(StepPlanTest, TheBufferHoldsTheLargestStep) {
  ExecutorLimits limits;
  limits.max_rows = 64;
  limits.max_sequences = 8;
  limits.max_context = 100;
  // One token each but for a prompt of the rest, all with logits: every part is as long as it can
  // be.
  tokens_.reserve(8);
  blocks_.reserve(8);
  for (int i = 0; i < 7; ++i) Add(99, 1);
  Add(0, 57, SequenceRows::Logits::kAll);
  Plan(Limits());
  EXPECT_LE(words_, StepPlanner::MostWords(limits, 64, 16, 8));
}

}  // namespace
}  // namespace erne::cuda
