#include "cli/rounded_model.h"

#include <gtest/gtest.h>

#include "bench/agreement.h"
#include "bench/test_model.h"
#include "executor/cpu/cpu_executor.h"
#include "executor/reference/reference_executor.h"

namespace erne {
namespace {

std::shared_ptr<const Model> Small(bool tied) {
  ModelSpec spec = bench::SmallSpec();
  spec.tied_head = tied;
  return bench::MakeRandomModel(spec, bench::WeightForm::kBF16, 3, 1).value();
}

ExecutorLimits Limits() {
  ExecutorLimits limits;
  limits.max_rows = limits.max_logit_rows = limits.max_context = 16;
  limits.max_sequences = limits.num_blocks = 1;
  return limits;
}

TEST(RoundedModel, IsTheModelWhereNothingIsRounded) {
  const auto model = Small(true);
  EXPECT_EQ(RoundedModel(model, {.activation = ActivationDType::kInt8}, 1), model);
}

// With float activations, an executor that rounds while it loads computes what the reference does
// with the rounded model: the weights are the same.
TEST(RoundedModel, IsWhatTheCpuExecutorRuns) {
  for (const bool tied : {true, false}) {
    const auto model = Small(tied);
    for (const Quantization layers :
         {Quantization::kNone, Quantization::kInt8, Quantization::kInt4}) {
      for (const Quantization head :
           {Quantization::kNone, Quantization::kInt8, Quantization::kInt4}) {
        const Precision precision{
            .activation = ActivationDType::kF32, .quantization = layers, .head = head};
        const auto rounded = RoundedModel(model, precision, 2);
        const auto reference = MakeReferenceExecutor(rounded, Limits(), {}).value();
        CpuExecutorOptions options;
        options.threads = 2;
        options.precision = precision;
        const auto executor = MakeCpuExecutor(model, Limits(), options).value();
        const Result<bench::Agreement> agreement =
            bench::Compare(*reference, *executor, bench::RandomTokens(9, 320, 1));
        ASSERT_TRUE(agreement.ok()) << agreement.status().message();
      }
    }
  }
}

TEST(RoundedModel, RoutersStayAndTheSourceMayGo) {
  auto model = Small(true);
  const auto rounded = RoundedModel(model, {.quantization = Quantization::kInt8}, 1);
  EXPECT_TRUE(std::holds_alternative<Int8Matrix>(rounded->weights.layers[1].q.matrix));
  EXPECT_TRUE(std::holds_alternative<Int8Matrix>(rounded->weights.head.matrix));
  EXPECT_EQ(rounded->weights.embedding.dtype, DType::kF32);
  EXPECT_TRUE(std::holds_alternative<TensorView>(model->weights.layers[1].q.matrix));
  const std::vector<float> router =
      ToFloats(std::get<MoeWeights>(model->weights.layers[1].ffn).router);
  model.reset();
  EXPECT_EQ(ToFloats(std::get<MoeWeights>(rounded->weights.layers[1].ffn).router), router);
}

}  // namespace
}  // namespace erne
