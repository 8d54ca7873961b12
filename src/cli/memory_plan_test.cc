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

TEST(MemoryPlanTest, AStepHasNoMoreRowsThanThePoolHasTokens) {
  MemoryNeeds needs = Needs(2048, 16 * kGiB);
  EXPECT_EQ(PlanMemory(Ernie03B(), needs)->max_rows, 512);
  needs.max_num_batched_tokens = 1 << 20;
  const auto plan = PlanMemory(Ernie03B(), needs);
  ASSERT_TRUE(plan.ok()) << plan.status().message();
  EXPECT_EQ(plan->max_rows, 8 * 2048);
  EXPECT_LT(plan->workspace_bytes, 2 * kGiB);
}

TEST(MemoryPlanTest, AContextHoldsAPromptAndAnAnswer) {
  EXPECT_THAT(PlanMemory(Ernie03B(), Needs(1, 16 * kGiB)).status().message(),
              HasSubstr("a context of 1 token has no room"));
  EXPECT_TRUE(PlanMemory(Ernie03B(), Needs(2, 16 * kGiB)).ok());
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

// What the plan counts for weights and workspace is what the CPU executor takes, but for padding of
// weights: to 16 outputs, to a cache line, and large matrices to a huge page.
TEST(MemoryPlanTest, CountsWhatTheExecutorTakes) {
  const char* source = std::getenv("ERNE_SOURCE");
  const std::string root = source == nullptr ? "." : source;
  for (const char* folder :
       {"/models/erne-mini", "/tests/data/reference-models/ernie4_5-dense-bf16",
        "/tests/data/reference-models/ernie4_5-dense-gptq-actorder",
        "/tests/data/reference-models/ernie4_5-moe-16x6-shared2",
        "/tests/data/reference-models/qwen3_moe"}) {
    auto files = OpenFolder(root + folder);
    ASSERT_TRUE(files.ok()) << files.status().message();
    auto loaded = LoadModel(*files);
    ASSERT_TRUE(loaded.ok()) << loaded.status().message();
    const auto model = std::make_shared<const Model>(*std::move(loaded));
    for (const int64_t rows : {1, 100}) {
      MemoryNeeds needs;
      needs.weight_bytes = MeasureModel(*model).weight_bytes;
      needs.max_num_seqs = rows;
      needs.max_num_batched_tokens = rows;
      needs.threads = 3;
      const auto plan = PlanMemory(model->spec, needs);
      ASSERT_TRUE(plan.ok());
      const auto executor = MakeExecutor("cpu", model,
                                         {.max_rows = rows,
                                          .max_logit_rows = rows,
                                          .max_sequences = rows,
                                          .max_context = plan->max_context,
                                          .num_blocks = plan->num_blocks},
                                         3);
      ASSERT_TRUE(executor.ok()) << executor.status().message();
      const ExecutorInfo info = (*executor)->info();
      EXPECT_GE(info.weight_bytes, plan->weight_bytes) << folder;
      EXPECT_LE(info.weight_bytes, plan->weight_bytes * 11 / 10) << folder;
      // Of these arrays only logits can be so large that they are rounded to huge pages of 2 MiB.
      const bool rounded = rows * model->spec.vocab_size * 4 >= (4 << 20);
      EXPECT_LE(info.workspace_bytes, plan->workspace_bytes + (rounded ? 2 << 20 : 0))
          << folder << ", rows " << rows;
    }
  }
}

}  // namespace
}  // namespace erne
