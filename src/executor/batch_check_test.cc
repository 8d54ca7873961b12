#include "executor/batch_check.h"

#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace erne {
namespace {

using ::testing::HasSubstr;
using Logits = SequenceRows::Logits;

constexpr ExecutorLimits kLimits{
    .max_rows = 20, .max_logit_rows = 4, .max_sequences = 2, .max_context = 40, .num_blocks = 3};
constexpr int64_t kVocab = 10;

TEST(CheckBatch, CountsRows) {
  const std::vector<int32_t> tokens = {0, 9, 3};
  const std::vector<BlockId> blocks = {2, 0};
  const Batch batch = {{.start = 16, .tokens = tokens, .blocks = blocks, .logits = Logits::kAll},
                       {.start = 0, .tokens = tokens, .blocks = blocks, .logits = Logits::kLast}};
  const BatchSize size = CheckBatch(batch, kVocab, kLimits);
  EXPECT_EQ(size.rows, 6);
  EXPECT_EQ(size.logit_rows, 4);
  EXPECT_EQ(KvSlot(blocks, 0), 32);
  EXPECT_EQ(KvSlot(blocks, 17), 1);
}

TEST(CheckBatchDeathTest, RefusesWhatWouldTouchForeignMemory) {
  const std::vector<int32_t> tokens = {1, 2, 3};
  const std::vector<int32_t> large = {1, 10};
  const std::vector<int32_t> negative = {-1};
  const std::vector<int32_t> many(21, 1);
  const std::vector<BlockId> blocks = {0, 1, 2};
  const std::vector<BlockId> one = {0};
  const std::vector<BlockId> outside = {3};
  const auto check = [](const Batch& batch) { CheckBatch(batch, kVocab, kLimits); };
  EXPECT_DEATH(check({{.tokens = large, .blocks = blocks}}), "token 10 .*vocabulary has 10");
  EXPECT_DEATH(check({{.tokens = negative, .blocks = blocks}}), "token -1");
  EXPECT_DEATH(check({{.tokens = {}, .blocks = blocks}}), "no rows");
  EXPECT_DEATH(check({{.start = 38, .tokens = tokens, .blocks = blocks}}), "the context is 40");
  EXPECT_DEATH(check({{.start = -1, .tokens = tokens, .blocks = blocks}}), "the context is 40");
  EXPECT_DEATH(check({{.start = 14, .tokens = tokens, .blocks = one}}),
               "1 blocks for 17 positions");
  EXPECT_DEATH(check({{.tokens = tokens, .blocks = outside}}), "block 3 .*pool has 3");
  EXPECT_DEATH(check({{.tokens = many, .blocks = blocks}}), "21 rows, at most 20");
  EXPECT_DEATH(check({{.tokens = tokens, .blocks = one, .logits = Logits::kAll},
                      {.tokens = tokens, .blocks = one, .logits = Logits::kAll}}),
               "6 rows with logits, at most 4");
  EXPECT_DEATH(check(Batch(3, {.tokens = tokens, .blocks = one})), "3 sequences, at most 2");
}

TEST(CheckLimits, NamesTheImpossibleField) {
  EXPECT_TRUE(CheckLimits(kLimits).ok());
  ExecutorLimits limits = kLimits;
  limits.num_blocks = 0;
  EXPECT_THAT(CheckLimits(limits).message(), HasSubstr("num_blocks is 0"));
  limits.num_blocks = int64_t{1} << 31;
  EXPECT_THAT(CheckLimits(limits).message(), HasSubstr("num_blocks is 2147483648"));
}

}  // namespace
}  // namespace erne
