#include "sampling/vocab_loops.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "sampling/fixed_exp.h"

namespace erne::sampling {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

std::vector<const VocabLoops*> AllSets() {
  std::vector<const VocabLoops*> sets(kMaxLoopSets);
  sets.resize(SupportedVocabLoops(sets.data()));
  return sets;
}

std::vector<float> RandomRow(size_t size, uint32_t seed, float spread = 10.0F) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0.0F, spread);
  std::vector<float> row(size);
  for (float& value : row) value = normal(random);
  return row;
}

TEST(VocabLoops, MaxAndItsPlaceInRowsOfEveryLength) {
  for (const VocabLoops* loops : AllSets()) {
    for (size_t size = 1; size < 200; ++size) {
      std::vector<float> row(size, -3.0F);
      const size_t place = size * 7 % size;
      row[place] = -1.0F;
      row[size - 1] = std::max(row[size - 1], size % 2 == 0 ? -1.0F : -2.0F);
      bool valid = false;
      EXPECT_EQ(loops->max(row.data(), size, &valid), *std::max_element(row.begin(), row.end()));
      EXPECT_TRUE(valid);
      const auto first = std::max_element(row.begin(), row.end()) - row.begin();
      EXPECT_EQ(loops->find(row.data(), size, row[static_cast<size_t>(first)]),
                static_cast<size_t>(first))
          << loops->name << ", " << size;
    }
  }
}

TEST(VocabLoops, SeesWhatIsNoNumberInEveryPlace) {
  for (const VocabLoops* loops : AllSets()) {
    for (const float bad : {kNan, kInfinity}) {
      for (size_t place = 0; place < 150; ++place) {
        std::vector<float> row(150, 1.0F);
        row[place] = bad;
        bool valid = true;
        loops->max(row.data(), row.size(), &valid);
        EXPECT_FALSE(valid) << loops->name << ", " << place;
      }
    }
    std::vector<float> banned(150, -kInfinity);
    bool valid = false;
    EXPECT_EQ(loops->max(banned.data(), banned.size(), &valid), -kInfinity);
    EXPECT_TRUE(valid);
  }
}

// Of exp, to half a unit of the fixed point and the error of the polynomial.
TEST(VocabLoops, WeightsAreExponentials) {
  const std::vector<float> row = {0, -0.1F, -1, -5, -20, -27.6F, -28.4F, -29.2F, -100, -kInfinity};
  for (const VocabLoops* loops : AllSets()) {
    std::vector<uint64_t> weights(row.size());
    const uint64_t sum = loops->weigh(row.data(), row.size(), {0, 1}, weights.data());
    uint64_t expected_sum = 0;
    for (size_t i = 0; i < row.size(); ++i) {
      const double exact = std::ldexp(std::exp(static_cast<double>(row[i])), kWeightBits);
      EXPECT_NEAR(static_cast<double>(weights[i]), exact, 0.5 + 1e-13 * exact) << row[i];
      expected_sum += weights[i];
    }
    EXPECT_EQ(weights[0], uint64_t{1} << kWeightBits);
    EXPECT_EQ(weights.back(), 0U);
    EXPECT_EQ(sum, expected_sum);
  }
}

TEST(VocabLoops, AllSetsWeighAlikeBitForBit) {
  for (const double temperature : {1e-3, 0.3, 0.8, 1.0, 1.7, 50.0, 1e-40, 3e38}) {
    for (const size_t size : {size_t{1}, size_t{3}, size_t{17}, size_t{511}, kWeighed}) {
      std::vector<float> row = RandomRow(size, static_cast<uint32_t>(size));
      if (size > 3) row[2] = -kInfinity;
      const WeightRule rule{*std::max_element(row.begin(), row.end()), 1 / temperature};
      std::vector<uint64_t> expected(size);
      const uint64_t sum = portable::kLoops.weigh(row.data(), size, rule, expected.data());
      for (const VocabLoops* loops : AllSets()) {
        std::vector<uint64_t> weights(size);
        EXPECT_EQ(loops->weigh(row.data(), size, rule, weights.data()), sum) << loops->name;
        EXPECT_EQ(weights, expected) << loops->name << " at " << temperature;
      }
    }
  }
}

TEST(VocabLoops, FindsWhatIsAtLeastTheBar) {
  for (const VocabLoops* loops : AllSets()) {
    for (const size_t size : {size_t{1}, size_t{63}, size_t{64}, size_t{65}, size_t{1000}}) {
      std::vector<float> row = RandomRow(size, static_cast<uint32_t>(size));
      row[size / 2] = -kInfinity;
      for (const float bar : {-kInfinity, -5.0F, row[size / 3], 12.0F, 100.0F}) {
        std::vector<int32_t> expected;
        for (size_t i = 0; i < size; ++i) {
          if (row[i] >= bar) expected.push_back(1000 + static_cast<int32_t>(i));
        }
        std::vector<int32_t> found(size + 2, -7);
        found.resize(loops->at_least(row.data(), size, bar, 1000, found.data()));
        EXPECT_EQ(found, expected) << loops->name << ", " << size << ", " << bar;
      }
    }
  }
}

TEST(VocabLoops, WritesNoFurtherThanOneBehindTheLast) {
  for (const VocabLoops* loops : AllSets()) {
    const std::vector<float> row(130, 1.0F);
    std::vector<int32_t> out(132, -7);
    EXPECT_EQ(loops->at_least(row.data(), row.size(), 0, 0, out.data()), 130U);
    EXPECT_EQ(out[131], -7);
  }
}

TEST(VocabLoops, TheBestIsTheLast) { EXPECT_EQ(&BestVocabLoops(), AllSets().back()); }

}  // namespace
}  // namespace erne::sampling
