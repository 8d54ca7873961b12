#include "cli/memory_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kv/block_pool.h"

namespace erne {
namespace {

using ::testing::HasSubstr;

constexpr uint64_t kGiB = 1ULL << 30;

// ERNIE-4.5-0.3B: 36,864 bytes of float32 KV a token.
ModelSpec Ernie03B() {
  ModelSpec spec;
  spec.vocab_size = 103424;
  spec.hidden = 1024;
  spec.max_positions = 131072;
  spec.attention.heads = 16;
  spec.attention.kv_heads = 2;
  spec.attention.head_dim = 128;
  spec.dense_intermediate = 3072;
  spec.layers.assign(18, FfnKind::kDense);
  return spec;
}

MemoryNeeds Needs(int64_t max_model_len, uint64_t available) {
  MemoryNeeds needs;
  needs.weight_bytes = 721'000'000;
  needs.max_model_len = max_model_len;
  needs.max_num_seqs = 64;
  needs.max_num_batched_tokens = 512;
  needs.available_bytes = available;
  return needs;
}

TEST(MemoryPlanTest, ShortContextsAreHeldEightTimes) {
  const auto plan = PlanMemory(Ernie03B(), Needs(2048, 16 * kGiB));
  ASSERT_TRUE(plan.ok());
  EXPECT_EQ(plan->block_bytes, 16U * 36'864U);
  EXPECT_EQ(plan->max_context, 2048);
  EXPECT_EQ(plan->num_blocks, 8 * 128);
  EXPECT_EQ(plan->context_note, "");
}

TEST(MemoryPlanTest, FewSequencesNeedFewContexts) {
  MemoryNeeds needs = Needs(2048, 16 * kGiB);
  needs.max_num_seqs = 3;
  EXPECT_EQ(PlanMemory(Ernie03B(), needs)->num_blocks, 3 * 128);
}

TEST(MemoryPlanTest, ALongContextIsHeldOnce) {
  const auto plan = PlanMemory(Ernie03B(), Needs(0, 64 * kGiB));
  ASSERT_TRUE(plan.ok());
  EXPECT_EQ(plan->max_context, 131072);
  EXPECT_EQ(plan->num_blocks, 131072 / 16);
}

TEST(MemoryPlanTest, TheContextShrinksToTheMemory) {
  const auto plan = PlanMemory(Ernie03B(), Needs(0, 4 * kGiB));
  ASSERT_TRUE(plan.ok());
  EXPECT_LT(plan->max_context, 131072);
  EXPECT_EQ(plan->max_context, plan->num_blocks * kKvBlockSize);
  EXPECT_LE(static_cast<uint64_t>(plan->num_blocks) * plan->block_bytes + 721'000'000,
            4 * kGiB * 9 / 10);
  EXPECT_THAT(plan->context_note, HasSubstr("from 131072 to "));
}

TEST(MemoryPlanTest, TooLittleMemoryIsRefusedWithNumbers) {
  const auto plan = PlanMemory(Ernie03B(), Needs(0, kGiB / 2));
  ASSERT_FALSE(plan.ok());
  EXPECT_EQ(plan.status().code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(plan.status().message(), HasSubstr("512.0 MiB are available"));
}

TEST(MemoryPlanTest, UnknownMemoryRefusesNothing) {
  EXPECT_EQ(PlanMemory(Ernie03B(), Needs(2048, 0))->num_blocks, 8 * 128);
}

}  // namespace
}  // namespace erne
