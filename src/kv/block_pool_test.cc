#include "kv/block_pool.h"

#include <map>
#include <random>
#include <set>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace erne {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(BlocksForTokens, RoundsUp) {
  EXPECT_EQ(BlocksForTokens(0), 0);
  EXPECT_EQ(BlocksForTokens(1), 1);
  EXPECT_EQ(BlocksForTokens(kKvBlockSize), 1);
  EXPECT_EQ(BlocksForTokens(kKvBlockSize + 1), 2);
}

TEST(BlockPool, AllocatesAllOrNothing) {
  BlockPool pool(4);
  std::vector<BlockId> table = {};
  EXPECT_TRUE(pool.Allocate(3, table));
  EXPECT_THAT(table, ElementsAre(0, 1, 2));
  EXPECT_EQ(pool.num_free(), 1);
  EXPECT_FALSE(pool.Allocate(2, table));
  EXPECT_THAT(table, ElementsAre(0, 1, 2));
  EXPECT_EQ(pool.num_free(), 1);
  EXPECT_TRUE(pool.Allocate(1, table));
  EXPECT_THAT(table, ElementsAre(0, 1, 2, 3));
  EXPECT_TRUE(pool.Allocate(0, table));
  EXPECT_EQ(pool.num_used(), 4);
  pool.Release(table);
  EXPECT_TRUE(table.empty());
  EXPECT_EQ(pool.num_free(), 4);
  EXPECT_TRUE(pool.CheckIntegrity().ok());
}

TEST(BlockPool, ReusesTheBlocksOfTheLastSequenceInOrder) {
  BlockPool pool(8);
  std::vector<BlockId> first;
  std::vector<BlockId> second;
  ASSERT_TRUE(pool.Allocate(3, first));
  ASSERT_TRUE(pool.Allocate(2, second));
  pool.Release(first);
  ASSERT_TRUE(pool.Allocate(3, first));
  EXPECT_THAT(first, ElementsAre(0, 1, 2));
}

TEST(BlockPool, ASharedBlockLivesUntilItsLastHolder) {
  BlockPool pool(2);
  std::vector<BlockId> table;
  ASSERT_TRUE(pool.Allocate(1, table));
  std::vector<BlockId> sharer = table;
  pool.AddReference(sharer[0]);
  pool.Release(table);
  EXPECT_EQ(pool.num_used(), 1);
  EXPECT_TRUE(pool.CheckIntegrity().ok());
  pool.Release(sharer);
  EXPECT_EQ(pool.num_used(), 0);
}

TEST(BlockPool, APoolOfNothingIsFine) {
  BlockPool pool(0);
  std::vector<BlockId> table;
  EXPECT_FALSE(pool.Allocate(1, table));
  EXPECT_TRUE(pool.CheckIntegrity().ok());
}

TEST(BlockPoolDeathTest, MisuseIsCaught) {
  BlockPool pool(2);
  std::vector<BlockId> table;
  ASSERT_TRUE(pool.Allocate(1, table));
  std::vector<BlockId> twice = {table[0], table[0]};
  EXPECT_DEATH(pool.Release(twice), "released more often than held");
  EXPECT_DEATH(pool.AddReference(1), "is free and cannot be shared");
  EXPECT_DEATH(pool.AddReference(2), "block 2 of 2");
  std::vector<BlockId> outside = {-1};
  EXPECT_DEATH(pool.Release(outside), "block -1 of 2");
}

// Random use against the simplest model there is: tables as lists, references counted with a map.
TEST(BlockPool, RandomUseAgreesWithAModel) {
  for (uint32_t seed = 0; seed < 20; ++seed) {
    std::mt19937 random(seed);
    constexpr int64_t kBlocks = 23;
    BlockPool pool(kBlocks);
    std::vector<std::vector<BlockId>> tables(6);
    for (int step = 0; step < 2000; ++step) {
      std::vector<BlockId>& table = tables[random() % tables.size()];
      std::map<BlockId, int> references;
      for (const auto& other : tables) {
        for (const BlockId block : other) ++references[block];
      }
      ASSERT_EQ(pool.num_used(), static_cast<int64_t>(references.size()));
      switch (random() % 3) {
        case 0: {
          const int64_t count = random() % 6;
          const std::vector<BlockId> before = table;
          const bool fits = count <= kBlocks - static_cast<int64_t>(references.size());
          ASSERT_EQ(pool.Allocate(count, table), fits);
          ASSERT_EQ(table.size(), before.size() + (fits ? count : 0));
          std::set<BlockId> fresh(table.begin() + before.size(), table.end());
          ASSERT_EQ(fresh.size(), table.size() - before.size());
          for (const BlockId block : fresh) ASSERT_EQ(references.count(block), 0U);
          break;
        }
        case 1: {
          const std::vector<BlockId>& source = tables[random() % tables.size()];
          if (&source == &table || table.size() + source.size() > 40) break;
          for (const BlockId block : source) {
            pool.AddReference(block);
            table.push_back(block);
          }
          break;
        }
        default:
          pool.Release(table);
          ASSERT_TRUE(table.empty());
      }
      const Status integrity = pool.CheckIntegrity();
      ASSERT_TRUE(integrity.ok()) << integrity.message();
    }
  }
}

}  // namespace
}  // namespace erne
