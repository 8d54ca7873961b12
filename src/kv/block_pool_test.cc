#include "kv/block_pool.h"

#include <algorithm>
#include <deque>
#include <map>
#include <random>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace erne {
namespace {

using ::testing::ElementsAre;

TEST(BlocksForTokens, RoundsUp) {
  EXPECT_EQ(BlocksForTokens(0), 0);
  EXPECT_EQ(BlocksForTokens(1), 1);
  EXPECT_EQ(BlocksForTokens(kKvBlockSize), 1);
  EXPECT_EQ(BlocksForTokens(kKvBlockSize + 1), 2);
}

// All free blocks, in the order in which they are given away.
std::vector<BlockId> TakeAll(BlockPool& pool) {
  std::vector<BlockId> blocks;
  while (pool.num_free() > 0) blocks.push_back(pool.Take());
  return blocks;
}

TEST(BlockPool, GivesABlockToOneOnly) {
  BlockPool pool(3);
  EXPECT_EQ(pool.num_blocks(), 3);
  EXPECT_EQ(pool.num_free(), 3);
  EXPECT_EQ(pool.Take(), 0);
  EXPECT_EQ(pool.num_used(), 1);
  EXPECT_EQ(pool.references(0), 1);
  EXPECT_EQ(pool.references(1), 0);
  EXPECT_THAT(TakeAll(pool), ElementsAre(1, 2));
  EXPECT_EQ(pool.num_free(), 0);
  EXPECT_TRUE(pool.CheckIntegrity().ok());
}

TEST(BlockPool, WhatIsNotWorthKeepingIsGivenAwayFirst) {
  BlockPool pool(5);
  TakeAll(pool);
  pool.Release(3, true);
  pool.Release(0, false);
  pool.Release(1, true);
  pool.Release(4, false);
  pool.Release(2, true);
  EXPECT_TRUE(pool.CheckIntegrity().ok());
  // The worthless ones, the last freed first (its memory is warm); then the others, the first freed
  // first.
  EXPECT_THAT(TakeAll(pool), ElementsAre(4, 0, 3, 1, 2));
}

TEST(BlockPool, SharedBlocksAreFreeWhenTheLastReferenceGoes) {
  BlockPool pool(2);
  EXPECT_EQ(pool.Take(), 0);
  pool.Share(0);
  EXPECT_EQ(pool.references(0), 2);
  EXPECT_EQ(pool.num_used(), 1);
  pool.Release(0, true);
  EXPECT_EQ(pool.num_used(), 1);
  pool.Release(0, true);
  EXPECT_EQ(pool.num_used(), 0);
}

TEST(BlockPool, AFreeBlockIsTakenUpFromTheMiddleOfTheList) {
  BlockPool pool(4);
  TakeAll(pool);
  for (BlockId block = 0; block < 4; ++block) pool.Release(block, true);
  pool.Share(2);
  EXPECT_EQ(pool.references(2), 1);
  EXPECT_EQ(pool.num_free(), 3);
  EXPECT_TRUE(pool.CheckIntegrity().ok());
  pool.Share(0);
  pool.Release(0, true);  // used last now
  EXPECT_THAT(TakeAll(pool), ElementsAre(1, 3, 0));
}

TEST(BlockPool, APoolOfNothingIsFine) {
  BlockPool pool(0);
  EXPECT_EQ(pool.num_free(), 0);
  EXPECT_TRUE(pool.CheckIntegrity().ok());
}

TEST(BlockPoolDeathTest, MisuseIsCaught) {
  BlockPool pool(2);
  EXPECT_EQ(pool.Take(), 0);
  EXPECT_DEATH(pool.Release(1, false), "block 1 is released more often than held");
  EXPECT_DEATH(pool.Share(2), "block 2 of 2");
  EXPECT_DEATH(pool.Release(-1, false), "block -1 of 2");
  EXPECT_EQ(pool.Take(), 1);
  EXPECT_DEATH(pool.Take(), "all 2 blocks are in use");
}

// Random use against the simplest model there is: references counted with a map, free blocks in a
// deque.
TEST(BlockPool, RandomUseAgreesWithAModel) {
  for (uint32_t seed = 0; seed < 20; ++seed) {
    std::mt19937 random(seed);
    constexpr BlockId kBlocks = 23;
    BlockPool pool(kBlocks);
    std::map<BlockId, int32_t> references;
    std::deque<BlockId> free;
    for (BlockId block = 0; block < kBlocks; ++block) free.push_back(block);
    for (int step = 0; step < 5000; ++step) {
      const auto block = static_cast<BlockId>(random() % kBlocks);
      switch (random() % 4) {
        case 0:
          if (free.empty()) break;
          ASSERT_EQ(pool.Take(), free.front());
          ++references[free.front()];
          free.pop_front();
          break;
        case 1:
          pool.Share(block);
          if (references[block]++ == 0) std::erase(free, block);
          break;
        default: {
          if (references[block] == 0) break;
          const bool keep = random() % 2 == 0;
          pool.Release(block, keep);
          if (--references[block] > 0) break;
          free.insert(keep ? free.end() : free.begin(), block);
        }
      }
      ASSERT_EQ(pool.num_free(), static_cast<int64_t>(free.size()));
      ASSERT_EQ(pool.references(block), references[block]);
      const Status integrity = pool.CheckIntegrity();
      ASSERT_TRUE(integrity.ok()) << integrity.message();
    }
    ASSERT_EQ(TakeAll(pool), std::vector<BlockId>(free.begin(), free.end()));
  }
}

}  // namespace
}  // namespace erne
