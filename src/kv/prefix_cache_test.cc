#include "kv/prefix_cache.h"

#include <map>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace erne {
namespace {

constexpr std::array<uint64_t, 2> kSecret = {1, 2};

std::vector<int32_t> Tokens(int32_t first) {
  std::vector<int32_t> tokens(kKvBlockSize);
  for (int32_t& token : tokens) token = first++;
  return tokens;
}

TEST(PrefixCache, FindsWhatWasInserted) {
  PrefixCache cache(4, kSecret);
  const PrefixKey root = cache.Root("");
  const PrefixKey key = cache.Next(root, Tokens(5));
  EXPECT_EQ(cache.Find(key, root, Tokens(5)), std::nullopt);
  EXPECT_TRUE(cache.Insert(2, key, root, Tokens(5)));
  EXPECT_EQ(cache.Find(key, root, Tokens(5)), 2);
  EXPECT_TRUE(cache.Has(2));
  EXPECT_FALSE(cache.Has(1));
  EXPECT_EQ(cache.size(), 1);
  EXPECT_FALSE(cache.Insert(1, key, root, Tokens(5))) << "block 2 holds that already";
  EXPECT_EQ(cache.Find(key, root, Tokens(5)), 2);
  cache.Erase(2);
  cache.Erase(2);
  EXPECT_EQ(cache.Find(key, root, Tokens(5)), std::nullopt);
  EXPECT_EQ(cache.size(), 0);
  EXPECT_TRUE(cache.Insert(1, key, root, Tokens(5)));
  EXPECT_EQ(cache.Find(key, root, Tokens(5)), 1);
  EXPECT_TRUE(cache.CheckIntegrity().ok());
}

TEST(PrefixCache, AKeyStandsForEverythingFromTheStart) {
  const PrefixCache cache(4, kSecret);
  std::vector<PrefixKey> keys;
  // Two blocks of two contents in every order, each token changed, two salts.
  for (const std::string& salt : std::vector<std::string>{"", "a", {'a', '\0'}}) {
    keys.push_back(cache.Root(salt));
    for (const int32_t first : {1, 2}) {
      keys.push_back(cache.Next(cache.Root(salt), Tokens(first)));
      for (const int32_t second : {1, 2}) {
        keys.push_back(cache.Next(cache.Next(cache.Root(salt), Tokens(first)), Tokens(second)));
      }
    }
  }
  for (size_t i = 0; i < kKvBlockSize; ++i) {
    std::vector<int32_t> tokens = Tokens(1);
    tokens[i] = -1;
    keys.push_back(cache.Next(cache.Root(""), tokens));
  }
  for (size_t i = 0; i < keys.size(); ++i) {
    for (size_t j = 0; j < i; ++j) EXPECT_NE(keys[i], keys[j]) << i << " and " << j;
  }
  EXPECT_EQ(cache.Next(cache.Root("a"), Tokens(1)), cache.Next(cache.Root("a"), Tokens(1)));
}

TEST(PrefixCache, AnotherSecretGivesOtherKeys) {
  const PrefixCache one(4, {1, 2});
  const PrefixCache other(4, {1, 3});
  EXPECT_NE(one.Root("salt"), other.Root("salt"));
  EXPECT_NE(one.Next({7, 8}, Tokens(1)), other.Next({7, 8}, Tokens(1)));
}

TEST(PrefixCache, NoSaltPassesForABlock) {
  // The bytes that Next hashes, as a salt.
  const PrefixCache cache(4, kSecret);
  std::string salt(sizeof(PrefixKey) + kKvBlockSize * sizeof(int32_t), '\0');
  const std::vector<int32_t> zeros(kKvBlockSize, 0);
  EXPECT_NE(cache.Root(salt), cache.Next({0, 0}, zeros));
}

// Beyond all odds with real keys, so the keys are made up.
TEST(PrefixCache, ContentsOfTheSameKeyAreToldApart) {
  PrefixCache cache(4, kSecret);
  const PrefixKey key = {3, 4};
  const PrefixKey parent = {5, 6};
  ASSERT_TRUE(cache.Insert(0, key, parent, Tokens(1)));
  EXPECT_EQ(cache.Find(key, parent, Tokens(1)), 0);
  EXPECT_EQ(cache.Find(key, parent, Tokens(2)), std::nullopt);
  EXPECT_EQ(cache.Find(key, {5, 7}, Tokens(1)), std::nullopt);
  EXPECT_EQ(cache.Find({3, 5}, parent, Tokens(1)), std::nullopt);
  EXPECT_FALSE(cache.Insert(1, key, parent, Tokens(2)));
  EXPECT_FALSE(cache.Has(1));
  EXPECT_EQ(cache.Find(key, parent, Tokens(1)), 0);
}

TEST(PrefixCacheDeathTest, MisuseIsCaught) {
  PrefixCache cache(2, kSecret);
  ASSERT_TRUE(cache.Insert(0, {1, 1}, {}, Tokens(1)));
  EXPECT_DEATH(cache.Insert(0, {2, 2}, {}, Tokens(1)), "block 0 has an entry");
  EXPECT_DEATH(cache.Insert(2, {2, 2}, {}, Tokens(1)), "block 2 of 2");
  EXPECT_DEATH(cache.Has(-1), "block -1 of 2");
  EXPECT_DEATH(cache.Next({}, std::vector<int32_t>(15)), "15 tokens");
  EXPECT_DEATH((void)cache.Find({1, 1}, {}, std::vector<int32_t>(17)), "17 tokens");
}

TEST(PrefixCache, ACacheOfNothingIsFine) {
  const PrefixCache cache(0, kSecret);
  EXPECT_EQ(cache.Find(cache.Root(""), {}, Tokens(1)), std::nullopt);
  EXPECT_TRUE(cache.CheckIntegrity().ok());
}

// Random use against a map. The keys are few and made up: their searches begin at few slots, so
// that runs grow long, wrap around the table's end and have holes torn into them.
TEST(PrefixCache, RandomUseAgreesWithAModel) {
  for (uint32_t seed = 0; seed < 50; ++seed) {
    std::mt19937 random(seed);
    constexpr BlockId kBlocks = 21;
    PrefixCache cache(kBlocks, kSecret);
    using Content = std::tuple<uint64_t, uint64_t, int32_t>;  // key.low, key.high, first token
    std::map<std::pair<uint64_t, uint64_t>, std::pair<BlockId, int32_t>> model;
    std::set<BlockId> known;
    const auto pick = [&]() -> Content {
      const uint64_t low = random() % 4 == 0 ? random() % 3 : uint64_t{0} - 1 - random() % 5;
      return {low, random() % 8, static_cast<int32_t>(random() % 2)};
    };
    for (int step = 0; step < 5000; ++step) {
      const auto block = static_cast<BlockId>(random() % kBlocks);
      const auto [low, high, first] = pick();
      const auto found = model.find({low, high});
      switch (random() % 3) {
        case 0: {
          if (known.contains(block)) break;
          const bool is_new = found == model.end();
          ASSERT_EQ(cache.Insert(block, {low, high}, {}, Tokens(first)), is_new);
          if (!is_new) break;
          model[{low, high}] = {block, first};
          known.insert(block);
          break;
        }
        case 1: {
          cache.Erase(block);
          known.erase(block);
          std::erase_if(model, [block](const auto& entry) { return entry.second.first == block; });
          break;
        }
        default: {
          const bool there = found != model.end() && found->second.second == first;
          const auto expected = there ? std::optional(found->second.first) : std::nullopt;
          ASSERT_EQ(cache.Find({low, high}, {}, Tokens(first)), expected);
        }
      }
      ASSERT_EQ(cache.size(), static_cast<int64_t>(model.size()));
      ASSERT_EQ(cache.Has(block), known.contains(block));
      const Status integrity = cache.CheckIntegrity();
      ASSERT_TRUE(integrity.ok()) << integrity.message();
    }
  }
}

}  // namespace
}  // namespace erne
