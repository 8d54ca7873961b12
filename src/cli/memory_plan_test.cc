#include "cli/memory_plan.h"

#include <cstdlib>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/make_executor.h"
#include "kv/block_pool.h"
#include "model/model.h"

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

// What the plan takes for the weights is what the CPU executor allocates for them, but for padding:
// to 16 outputs, to a cache line, and large matrices to a huge page.
TEST(MemoryPlanTest, WeightsAreCountedAsTheExecutorKeepsThem) {
  const char* source = std::getenv("ERNE_SOURCE");
  const std::string root = source == nullptr ? "." : source;
  for (const char* folder :
       {"/models/erne-mini", "/tests/data/reference-models/ernie4_5-dense-bf16",
        "/tests/data/reference-models/ernie4_5-dense-gptq-actorder"}) {
    auto files = OpenFolder(root + folder);
    ASSERT_TRUE(files.ok()) << files.status().message();
    auto loaded = LoadModel(*files);
    ASSERT_TRUE(loaded.ok()) << loaded.status().message();
    const auto model = std::make_shared<const Model>(*std::move(loaded));
    const auto executor = MakeExecutor("cpu", model,
                                       {.max_rows = 1,
                                        .max_logit_rows = 1,
                                        .max_sequences = 1,
                                        .max_context = 16,
                                        .num_blocks = 1},
                                       1);
    ASSERT_TRUE(executor.ok()) << executor.status().message();
    const uint64_t planned = MeasureModel(*model).weight_bytes;
    const uint64_t taken = (*executor)->info().weight_bytes;
    EXPECT_GE(taken, planned) << folder;
    EXPECT_LE(taken, planned + planned / 10) << folder;
  }
}

}  // namespace
}  // namespace erne
