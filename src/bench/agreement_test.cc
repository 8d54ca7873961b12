#include "bench/agreement.h"

#include <cmath>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "bench/test_model.h"
#include "executor/cpu/cpu_executor.h"
#include "executor/reference/reference_executor.h"

namespace erne::bench {
namespace {

using ::testing::HasSubstr;

TEST(Agreement, OfTheSame) {
  Agreement agreement;
  const std::vector<float> logits = {1, -2, 3, 0};
  agreement.Add(logits, logits);
  EXPECT_EQ(agreement.positions, 1);
  EXPECT_EQ(agreement.same_token, 1);
  EXPECT_EQ(agreement.worst_error, 0);
  EXPECT_NEAR(agreement.mean_kl(), 0, 1e-15);
}

TEST(Agreement, OfOthers) {
  Agreement agreement;
  const float third = std::log(0.25F);
  agreement.Add(std::vector<float>{std::log(0.5F), third, third},
                std::vector<float>{third, third, std::log(0.5F)});
  EXPECT_EQ(agreement.same_token, 0);
  // 0.5 ln 2 + 0.25 ln(1/2); the largest logit is ln 0.25 by magnitude.
  EXPECT_NEAR(agreement.worst_kl, 0.25 * std::log(2.0), 1e-7);
  EXPECT_NEAR(agreement.worst_error, 0.5, 1e-6);
}

TEST(Agreement, ANanStays) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  Agreement agreement;
  agreement.Add(std::vector<float>{1, 2}, std::vector<float>{1, kNan});
  agreement.Add(std::vector<float>{1, 2}, std::vector<float>{1, 2});
  EXPECT_TRUE(std::isnan(agreement.worst_error));
}

std::unique_ptr<Executor> Make(const std::shared_ptr<const Model>& model, bool reference,
                               KvDType kv_dtype = KvDType::kF32,
                               ActivationDType activation = ActivationDType::kF32) {
  ExecutorLimits limits;
  limits.max_rows = limits.max_logit_rows = limits.max_context = 16;
  limits.max_sequences = limits.num_blocks = 1;
  limits.kv_dtype = kv_dtype;
  if (reference) return MakeReferenceExecutor(model, limits, {}).value();
  CpuExecutorOptions options;
  options.threads = 2;
  options.precision.activation = activation;
  return MakeCpuExecutor(model, limits, options).value();
}

TEST(Compare, EveryFormAndTypeOfKeysAndValues) {
  for (const WeightForm form :
       {WeightForm::kF32, WeightForm::kF16, WeightForm::kBF16, WeightForm::kAwq}) {
    for (const KvDType kv : {KvDType::kF32, KvDType::kBF16, KvDType::kF16, KvDType::kInt8}) {
      const auto model = SmallModel(form);
      const auto reference = Make(model, true, kv);
      const auto executor = Make(model, false, kv);
      const Result<Agreement> agreement = Compare(*reference, *executor, RandomTokens(13, 320, 1));
      ASSERT_TRUE(agreement.ok()) << agreement.status().message();
      EXPECT_EQ(agreement->positions, 13);
      EXPECT_GT(agreement->worst_error, 0);  // two executors, not one
    }
  }
}

TEST(Agreement, ReroutedPositionsAreCountedAndNotJudged) {
  Agreement agreement;
  const std::vector<float> expected = {1, 2};
  agreement.Add(expected, std::vector<float>{2, 1}, false);
  EXPECT_EQ(agreement.worst_error, 0);
  EXPECT_EQ(agreement.rerouted, 1);
  EXPECT_EQ(agreement.same_token, 0);
  EXPECT_GT(agreement.worst_kl, 0);
  agreement.Add(expected, std::vector<float>{1, std::numeric_limits<float>::quiet_NaN()}, false);
  EXPECT_TRUE(std::isnan(agreement.worst_error));  // no router explains that
}

// Rounded activations: strictly where no router can tip, or where none did.
TEST(Compare, RoundedActivations) {
  for (const WeightForm form : {WeightForm::kBF16, WeightForm::kAwq}) {
    for (const bool moe : {false, true}) {
      auto model = SmallModel(form, moe, 5);
      if (moe) model = UpToFirstExperts(model);
      const auto reference = Make(model, true);
      const auto executor = Make(model, false, KvDType::kF32, ActivationDType::kAuto);
      const Result<Agreement> agreement = Compare(*reference, *executor, RandomTokens(16, 320, 1));
      ASSERT_TRUE(agreement.ok()) << agreement.status().message();
      EXPECT_LE(agreement->rerouted, moe ? 8 : 0);
      EXPECT_GT(agreement->worst_error, 0);
    }
  }
}

TEST(UpToFirstExperts, KeepsTheLayersBelow) {
  auto model = SmallModel(WeightForm::kF32);
  const auto part = UpToFirstExperts(model);
  EXPECT_EQ(part->spec.num_layers(), 2);
  EXPECT_EQ(part->weights.layers.size(), 2U);
  model.reset();
  EXPECT_EQ(ToFloats(part->weights.final_norm).size(), 64U);
  EXPECT_EQ(UpToFirstExperts(SmallModel(WeightForm::kF32, false))->spec.num_layers(), 3);
}

TEST(Compare, FailsForAnotherModel) {
  const auto reference = Make(SmallModel(WeightForm::kBF16, true, 1), true);
  const auto executor = Make(SmallModel(WeightForm::kBF16, true, 2), false);
  const Result<Agreement> agreement = Compare(*reference, *executor, RandomTokens(4, 320, 1));
  ASSERT_FALSE(agreement.ok());
  EXPECT_THAT(agreement.status().message(), HasSubstr("do not agree: 4 tokens"));
}

TEST(Compare, OneToken) {
  const auto model = SmallModel(WeightForm::kF32, false);
  const auto reference = Make(model, true);
  const auto executor = Make(model, false);
  EXPECT_EQ(Compare(*reference, *executor, RandomTokens(1, 320, 1))->positions, 1);
}

TEST(ErrorBound, GrowsWithTheRounding) {
  ModelSpec spec;
  spec.layers.assign(18, FfnKind::kDense);
  ExecutorInfo info;
  info.activation_type = "f32";
  const double floats = ErrorBound(info, KvDType::kF32, spec);
  EXPECT_EQ(floats, 1e-4);
  EXPECT_LT(floats, ErrorBound(info, KvDType::kF16, spec));
  info.activation_type = "bf16";
  const double bf16 = ErrorBound(info, KvDType::kF32, spec);
  info.activation_type = "int8";
  const double int8 = ErrorBound(info, KvDType::kF32, spec);
  EXPECT_LT(floats, bf16);
  EXPECT_LT(bf16, int8);
  EXPECT_LT(int8, 0.5);
}

TEST(RandomTokens, AreWithinTheVocabulary) {
  const std::vector<int32_t> tokens = RandomTokens(1000, 320, 5);
  EXPECT_EQ(tokens.size(), 1000U);
  EXPECT_GE(*std::min_element(tokens.begin(), tokens.end()), 0);
  EXPECT_LT(*std::max_element(tokens.begin(), tokens.end()), 320);
  EXPECT_EQ(tokens, RandomTokens(1000, 320, 5));
  EXPECT_NE(tokens, RandomTokens(1000, 320, 6));
}

}  // namespace
}  // namespace erne::bench
