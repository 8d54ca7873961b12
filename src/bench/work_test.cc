#include "bench/work.h"

#include <gtest/gtest.h>

#include "bench/sequences.h"
#include "bench/test_model.h"
#include "executor/cpu/cpu_executor.h"
#include "executor/kv_storage.h"

namespace erne::bench {
namespace {

// One layer of the shape, whose numbers follow from the config.
TEST(ModelWork, OfADenseModel) {
  const ModelSpec spec = SpecOfShape("ernie-4.5-0.3b:1").value();
  const auto model = MakeRandomModel(spec, WeightForm::kBF16, 0, 2).value();
  const ModelWork work(*model, KvDType::kF16);
  EXPECT_EQ(work.kv_bytes(), 2 * 2 * 128 * 2);  // K and V of two kv heads of 128
  const double layer = 2.0 * 1024 * (2048 + 256) + 3.0 * 1024 * 3072;
  const double head = 103424.0 * 1024;
  StepRows step;
  EXPECT_EQ(step.rows, 1);
  EXPECT_EQ(work.Bytes(step), 2 * (layer + head));
  EXPECT_EQ(work.Operations(step), 2 * (layer + head));
  step.rows = 8;
  step.logit_rows = 0;
  step.kv_read = 100;
  step.attended = 800;
  EXPECT_EQ(work.Bytes(step), 2 * layer + 100 * 1024);
  EXPECT_EQ(work.Operations(step), 8 * 2 * layer + 800 * 4 * 2048);
}

TEST(ModelWork, OfExperts) {
  const auto model = SmallModel(WeightForm::kF32);
  const ModelWork work(*model, KvDType::kF32);
  StepRows one;
  one.logit_rows = 0;
  const double attention = 2 * 64.0 * (128 + 64);
  const double dense = 3 * 64.0 * 96;
  const double expert = 3 * 64.0 * 32;
  const double router = 8 * 64.0;
  // Two of eight experts, and a shared one, in two of three layers.
  const double active = 3 * attention + dense + 2 * (router + 3 * expert);
  EXPECT_DOUBLE_EQ(work.Operations(one), 2 * active);
  EXPECT_DOUBLE_EQ(work.Bytes(one), 4 * active);
  StepRows many = one;
  many.rows = 1000;  // all experts are read, none twice
  EXPECT_NEAR(work.Bytes(many), 4 * (active + 2 * 6 * expert), 1);
}

// The stages are the whole, and each is told apart.
TEST(ModelWork, OfStages) {
  const auto model = SmallModel(WeightForm::kF32);
  const ModelWork work(*model, KvDType::kF32);
  StepRows step;
  step.rows = 5;
  step.logit_rows = 2;
  step.attended = 50;
  step.kv_read = 20;
  double bytes = 0;
  double operations = 0;
  for (int i = 0; i < StepProfile::kStages; ++i) {
    bytes += work.Bytes(static_cast<StepProfile::Stage>(i), step);
    operations += work.Operations(static_cast<StepProfile::Stage>(i), step);
  }
  EXPECT_DOUBLE_EQ(work.Bytes(step), bytes);
  EXPECT_DOUBLE_EQ(work.Operations(step), operations);
  EXPECT_EQ(work.Bytes(StepProfile::kQkv, step), 4 * 3 * 64.0 * 256);
  EXPECT_EQ(work.Operations(StepProfile::kOutput, step), 5 * 2 * 3 * 64.0 * 128);
  EXPECT_EQ(work.Bytes(StepProfile::kAttention, step), 20 * work.kv_bytes());
  EXPECT_EQ(work.Operations(StepProfile::kHead, step), 2 * 2 * 320.0 * 64);
  EXPECT_EQ(work.Bytes(StepProfile::kOther, step), 0);
}

TEST(ModelWork, OfFourBits) {
  const auto model = SmallModel(WeightForm::kAwq, false);
  const ModelWork work(*model, KvDType::kF16);
  StepRows step;
  step.logit_rows = 0;
  // q, k, v [256 x 64], o [64 x 128], gate and up [192 x 64], down [64 x 96]; groups of 64,
  // 128, 96.
  const double elements = 256 * 64 + 64 * 128 + 192 * 64 + 64 * 96;
  const double groups = 256 + 64 + 192 + 64;
  EXPECT_DOUBLE_EQ(work.Bytes(step), 3 * (elements / 2 + 5 * groups));
  EXPECT_DOUBLE_EQ(work.Operations(step), 3 * 2 * elements);
}

TEST(ArithmeticRoof, OfEachForm) {
  EXPECT_STREQ(ArithmeticRoofOf(*SmallModel(WeightForm::kF32)).name, "f32");
  EXPECT_STREQ(ArithmeticRoofOf(*SmallModel(WeightForm::kF16)).name, "f32");
  EXPECT_STREQ(ArithmeticRoofOf(*SmallModel(WeightForm::kBF16)).name, "bf16");
  EXPECT_STREQ(ArithmeticRoofOf(*SmallModel(WeightForm::kAwq)).name, "int8");
}

class SequencesTest : public ::testing::Test {
 protected:
  static constexpr int64_t kContext = 40;
  static constexpr int64_t kCount = 3;

  SequencesTest() : work_(*model_, KvDType::kF32) {
    ExecutorLimits limits;
    limits.max_rows = 16;
    limits.max_logit_rows = limits.max_sequences = kCount;
    limits.max_context = kContext;
    limits.num_blocks = Sequences::Blocks(kCount, kContext);
    executor_ = MakeCpuExecutor(model_, limits, {.threads = 2, .isa = "", .precision = {}}).value();
  }

  const std::shared_ptr<const Model> model_ = SmallModel(WeightForm::kF32, false);
  const ModelWork work_;
  std::unique_ptr<Executor> executor_;
};

TEST_F(SequencesTest, BlocksAreRoundedUpForEach) { EXPECT_EQ(Sequences::Blocks(3, 40), 9); }

TEST_F(SequencesTest, AddsUpTheStepsOfAPrompt) {
  Sequences sequences(*executor_, kCount, kContext, 1);
  const Case prompt = sequences.PrefillCase(work_, 2, 40);
  EXPECT_EQ(prompt.name, "prefill 2 x 40");
  EXPECT_EQ(prompt.tokens, 80);
  StepRows each;  // of 16, 16 and 8 rows
  each.rows = 40;
  each.logit_rows = 1;
  each.attended = 40 * 41 / 2.0;
  EXPECT_DOUBLE_EQ(prompt.operations, 2 * work_.Operations(each));
  StepRows weights;
  weights.logit_rows = 0;
  const double head = 4.0 * 320 * 64;
  EXPECT_DOUBLE_EQ(prompt.bytes,
                   2 * (3 * work_.Bytes(weights) + head + (16 + 32 + 40) * work_.kv_bytes()));
  EXPECT_TRUE(prompt.run().ok());
}

TEST_F(SequencesTest, RowsOfOneSequence) {
  Sequences sequences(*executor_, 1, kContext, 1);
  ASSERT_TRUE(sequences.Prefill(1, 20).ok());
  StepProfile profile;
  executor_->SetProfile(&profile);
  EXPECT_TRUE(sequences.Rows(20, 10, 3, 2).ok());
  EXPECT_TRUE(sequences.Rows(5, 1, 1, 1).ok());
  executor_->SetProfile(nullptr);
  for (int stage = 0; stage < StepProfile::kStages; ++stage) {
    EXPECT_EQ(profile.seconds[static_cast<size_t>(stage)] > 0, stage != StepProfile::kRouter)
        << stage;
  }
  const StepProfile before = profile;
  EXPECT_TRUE(sequences.Rows(0, 3, 3, 1).ok());
  EXPECT_EQ(profile.seconds, before.seconds);  // nobody asked
}

TEST_F(SequencesTest, AddsUpTheStepsOfAnswers) {
  Sequences sequences(*executor_, kCount, kContext, 1);
  const Case answers = sequences.DecodeCase(work_, 3, 10, 4);
  EXPECT_EQ(answers.name, "decode 3 x 4 at depth 10");
  EXPECT_EQ(answers.tokens, 12);
  StepRows weights;
  EXPECT_DOUBLE_EQ(answers.bytes,
                   4 * work_.Bytes(weights) + 3 * (11 + 12 + 13 + 14) * work_.kv_bytes());
  ASSERT_TRUE(sequences.Prefill(3, 10).ok());
  EXPECT_TRUE(answers.run().ok());
}

}  // namespace
}  // namespace erne::bench
