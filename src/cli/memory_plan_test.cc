#include "cli/memory_plan.h"

#include <cstdlib>
#include <limits>
#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/make_executor.h"
#include "kv/block_pool.h"
#include "model/model.h"

namespace erne {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

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

MemoryNeeds Needs(int64_t max_model_len, uint64_t budget) {
  MemoryNeeds needs;
  needs.weight_bytes = 721'000'000;
  needs.max_model_len = max_model_len;
  needs.max_num_seqs = 64;
  needs.max_num_batched_tokens = 512;
  if (budget > 0) needs.budget = {budget, "so much is there"};
  return needs;
}

TEST(MemoryPlanTest, ShortContextsAreHeldEightTimes) {
  const auto plan = PlanMemory(Ernie03B(), Needs(2048, 16 * kGiB));
  ASSERT_TRUE(plan.ok());
  EXPECT_EQ(plan->block_bytes, 16U * 36'864U);
  EXPECT_EQ(plan->max_context, 2048);
  EXPECT_EQ(plan->num_blocks, 8 * 128);
  EXPECT_THAT(plan->notes, IsEmpty());
  EXPECT_EQ(plan->total_bytes,
            plan->weight_bytes + plan->workspace_bytes + plan->kv_bytes() + (64U << 20));
}

TEST(MemoryPlanTest, TheTypeOfTheCacheDecidesItsBytes) {
  MemoryNeeds needs = Needs(2048, 16 * kGiB);
  for (const auto& [dtype, bytes] : {std::pair(KvDType::kF16, 18'432),
                                     {KvDType::kBF16, 18'432},
                                     {KvDType::kInt8, 9'216 + 18 * 2 * 8}}) {
    needs.kv_dtype = dtype;
    EXPECT_EQ(PlanMemory(Ernie03B(), needs)->block_bytes, 16U * static_cast<uint64_t>(bytes));
  }
}

TEST(MemoryPlanTest, AKvCacheOfAGivenSize) {
  MemoryNeeds needs = Needs(2048, 16 * kGiB);
  needs.kv_cache_bytes = kGiB;
  const auto plan = PlanMemory(Ernie03B(), needs);
  ASSERT_TRUE(plan.ok());
  EXPECT_EQ(plan->max_context, 2048);
  EXPECT_EQ(plan->kv_bytes(), kGiB / plan->block_bytes * plan->block_bytes);
  EXPECT_THAT(plan->notes, IsEmpty());
  // 40 MiB hold 1137 tokens: 71 blocks.
  needs.kv_cache_bytes = 40 << 20;
  const auto small = PlanMemory(Ernie03B(), needs);
  ASSERT_TRUE(small.ok());
  EXPECT_EQ(small->num_blocks, 71);
  EXPECT_EQ(small->max_context, 71 * 16);
  EXPECT_THAT(small->notes, ElementsAre(HasSubstr("from 2048 to 1136 tokens: the KV cache")));
  needs.kv_cache_bytes = 1 << 20;
  const auto none = PlanMemory(Ernie03B(), needs);
  EXPECT_EQ(none.status().code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(none.status().message(), HasSubstr("--kv-cache-memory 1.0 MiB is too little"));
}

TEST(MemoryPlanTest, AGivenSizeStaysWithinTheBudget) {
  MemoryNeeds needs = Needs(2048, 2 * kGiB);
  needs.kv_cache_bytes = 100 * kGiB;
  const auto plan = PlanMemory(Ernie03B(), needs);
  ASSERT_TRUE(plan.ok()) << plan.status().message();
  EXPECT_LE(plan->total_bytes, 2 * kGiB);
  EXPECT_GT(plan->total_bytes, 2 * kGiB - plan->block_bytes);
  EXPECT_THAT(plan->notes, ElementsAre(HasSubstr("instead of 100.0 GiB")));
}

TEST(MemoryPlanTest, AbsurdContextsAreFitted) {
  ModelSpec spec = Ernie03B();
  spec.max_positions = int64_t{1} << 31;
  // Unasked: what a request may need.
  const auto plan = PlanMemory(spec, Needs(0, 64 * kGiB));
  ASSERT_TRUE(plan.ok()) << plan.status().message();
  EXPECT_EQ(plan->max_context, kAutoContext);
  EXPECT_THAT(plan->notes, ElementsAre(HasSubstr("131072 of the 2147483648 positions")));
  // Asked: what the memory holds, and never more than 32 bits count.
  for (const uint64_t budget : {2 * kGiB, 64 * kGiB, uint64_t{1} << 60}) {
    const auto asked = PlanMemory(spec, Needs(spec.max_positions, budget));
    ASSERT_TRUE(asked.ok()) << asked.status().message();
    EXPECT_LE(asked->total_bytes, budget);
    EXPECT_LE(asked->max_context, std::numeric_limits<int32_t>::max());
    EXPECT_GE(asked->num_blocks * kKvBlockSize, asked->max_context);
  }
}

// One block less would do for the context that was found, and one more would not fit.
TEST(MemoryPlanTest, TheLongestContextThatFitsIsFound) {
  for (uint64_t budget = kGiB; budget < 6 * kGiB; budget += 177 << 20) {
    const auto plan = PlanMemory(Ernie03B(), Needs(0, budget));
    ASSERT_TRUE(plan.ok()) << plan.status().message();
    EXPECT_LE(plan->total_bytes, budget);
    if (plan->max_context == 131072) continue;
    EXPECT_EQ(plan->max_context, plan->num_blocks * kKvBlockSize);
    // A longer context may widen the workspace a little beyond the block itself.
    EXPECT_GT(plan->total_bytes + plan->block_bytes + (64 << 10), budget);
  }
}

TEST(MemoryPlanTest, GuessesHaveRowsWithLogits) {
  MemoryNeeds needs = Needs(2048, 16 * kGiB);
  EXPECT_EQ(PlanMemory(Ernie03B(), needs)->max_logit_rows, 64);
  needs.max_num_seqs = 1;
  EXPECT_EQ(PlanMemory(Ernie03B(), needs)->max_logit_rows, 16);
  needs.max_num_batched_tokens = 5;
  EXPECT_EQ(PlanMemory(Ernie03B(), needs)->max_logit_rows, 5);
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
  EXPECT_LE(plan->total_bytes, 4 * kGiB);
  EXPECT_THAT(plan->notes, ElementsAre(HasSubstr("from 131072 to ")));
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
  EXPECT_THAT(plan.status().message(),
              HasSubstr("for the smallest KV cache, but so much is there"));
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
      needs.kv_dtype = rows == 1 ? KvDType::kInt8 : KvDType::kF16;
      needs.weight_bytes = MeasureModel(*model).weight_bytes;
      needs.max_num_seqs = rows;
      needs.max_num_batched_tokens = rows;
      needs.threads = 3;
      const auto plan = PlanMemory(model->spec, needs);
      ASSERT_TRUE(plan.ok());
      const auto executor = MakeExecutor("cpu", model,
                                         {.max_rows = rows,
                                          .max_logit_rows = plan->max_logit_rows,
                                          .max_sequences = rows,
                                          .max_context = plan->max_context,
                                          .num_blocks = plan->num_blocks,
                                          .kv_dtype = needs.kv_dtype},
                                         {.threads = 3, .pin_threads = false, .precision = {}});
      ASSERT_TRUE(executor.ok()) << executor.status().message();
      const ExecutorInfo info = (*executor)->info();
      EXPECT_GE(info.weight_bytes, plan->weight_bytes) << folder;
      EXPECT_LE(info.weight_bytes, plan->weight_bytes * 11 / 10) << folder;
      EXPECT_GE(info.kv_bytes, plan->kv_bytes()) << folder;
      EXPECT_LE(info.kv_bytes, plan->kv_bytes() + (2 << 20)) << folder;
      // Of these arrays only logits can be so large that they are rounded to huge pages of 2 MiB.
      const bool rounded = rows * model->spec.vocab_size * 4 >= (4 << 20);
      EXPECT_LE(info.workspace_bytes, plan->workspace_bytes + (rounded ? 2 << 20 : 0))
          << folder << ", rows " << rows;
    }
  }
}

}  // namespace
}  // namespace erne
