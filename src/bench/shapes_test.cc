#include "bench/shapes.h"

#include <cmath>
#include <cstring>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "bench/agreement.h"
#include "bench/test_model.h"
#include "executor/reference/reference_executor.h"

namespace erne::bench {
namespace {

using ::testing::HasSubstr;

TEST(Shapes, PublishedSizes) {
  const ModelSpec dense = SpecOfShape("ernie-4.5-0.3b").value();
  EXPECT_EQ(dense.hidden, 1024);
  EXPECT_EQ(dense.num_layers(), 18);
  EXPECT_EQ(dense.attention.q_width(), 2048);
  EXPECT_TRUE(dense.tied_head);
  const ModelSpec moe = SpecOfShape("ernie-4.5-21b-a3b").value();
  EXPECT_EQ(moe.num_layers(), 28);
  EXPECT_EQ(moe.attention.head_dim, 128);
  EXPECT_EQ(moe.moe.routing.experts, 64);
  EXPECT_EQ(moe.moe.shared_intermediate, 3072);
  EXPECT_EQ(moe.layers[0], FfnKind::kDense);
  EXPECT_EQ(moe.layers[1], FfnKind::kMoe);
  EXPECT_EQ(SpecOfShape("ernie-0.3b-8x2").value().moe.routing.top_k, 2);
  for (const std::string& name : ShapeNames()) EXPECT_TRUE(SpecOfShape(name).ok()) << name;
}

TEST(Shapes, TheFirstLayers) {
  EXPECT_EQ(SpecOfShape("ernie-4.5-21b-a3b:4").value().num_layers(), 4);
  EXPECT_EQ(SpecOfShape("ernie-4.5-21b-a3b:28").value().num_layers(), 28);
  for (const char* bad : {"ernie-4.5-21b-a3b:0", "ernie-4.5-21b-a3b:29", "ernie-4.5-21b-a3b:",
                          "ernie-4.5-21b-a3b:x", "ernie-4.5-21b-a3b:-1", "ernie-4.5-0.3b:4:4"}) {
    const Result<ModelSpec> spec = SpecOfShape(bad);
    ASSERT_FALSE(spec.ok()) << bad;
    EXPECT_EQ(spec.status().param(), "--shape");
    EXPECT_THAT(spec.status().message(), HasSubstr("is no number of layers"));
  }
  EXPECT_THAT(SpecOfShape("gpt-2").status().message(),
              HasSubstr("there is no shape 'gpt-2', there are ernie-4.5-0.3b, "));
}

void ExpectSameBytes(const TensorView& a, const TensorView& b) {
  ASSERT_EQ(a.bytes(), b.bytes());
  EXPECT_EQ(std::memcmp(a.data, b.data, a.bytes()), 0);
}

TEST(RandomModel, DependsOnTheSeedAlone) {
  const auto one = SmallModel(WeightForm::kBF16, true, 7, 1);
  const auto many = SmallModel(WeightForm::kBF16, true, 7, 3);
  const auto other = SmallModel(WeightForm::kBF16, true, 8, 1);
  const auto view = [](const Model& model) {
    return std::get<TensorView>(
        std::get<MoeWeights>(model.weights.layers[2].ffn).experts[5].down.matrix);
  };
  ExpectSameBytes(one->weights.embedding, many->weights.embedding);
  ExpectSameBytes(view(*one), view(*many));
  EXPECT_NE(std::memcmp(view(*one).data, view(*other).data, view(*one).bytes()), 0);
  const auto awq = [](int threads) {
    const auto model = SmallModel(WeightForm::kAwq, true, 7, threads);
    return std::get<Int4Matrix>(model->weights.layers[1].q.matrix);
  };
  EXPECT_EQ(awq(1).q, awq(3).q);
  EXPECT_EQ(awq(1).scales, awq(3).scales);
  EXPECT_EQ(awq(1).zeros, awq(3).zeros);
}

TEST(RandomModel, TensorsDiffer) {
  const auto model = SmallModel(WeightForm::kF32);
  const LayerWeights& layer = model->weights.layers[0];
  EXPECT_NE(ToFloats(std::get<TensorView>(layer.k.matrix)),
            ToFloats(std::get<TensorView>(layer.v.matrix)));
}

TEST(RandomModel, TellsWhatItStores) {
  EXPECT_EQ(SmallModel(WeightForm::kF32)->precision, "f32");
  EXPECT_EQ(SmallModel(WeightForm::kF16)->precision, "f16");
  EXPECT_EQ(SmallModel(WeightForm::kBF16)->precision, "bf16");
  const auto awq = SmallModel(WeightForm::kAwq);
  EXPECT_EQ(awq->precision, "awq int4 (group 128)");
  EXPECT_EQ(awq->weights.embedding.dtype, DType::kF16);
  // Widths that 128 does not divide have smaller groups.
  EXPECT_EQ(std::get<Int4Matrix>(awq->weights.layers[0].o.matrix).group, 128);
  EXPECT_EQ(std::get<Int4Matrix>(awq->weights.layers[0].q.matrix).group, 64);
}

// Neither so small that rounding is all there is, nor growing through the layers.
TEST(RandomModel, LogitsAreAsOfATrainedModel) {
  for (const WeightForm form :
       {WeightForm::kF32, WeightForm::kF16, WeightForm::kBF16, WeightForm::kAwq}) {
    const auto model = SmallModel(form);
    ExecutorLimits limits;
    limits.max_rows = limits.max_logit_rows = limits.max_context = 16;
    limits.max_sequences = limits.num_blocks = 1;
    const auto executor = MakeReferenceExecutor(model, limits, {}).value();
    const std::vector<int32_t> tokens = RandomTokens(16, 320, 3);
    const std::vector<BlockId> blocks = {0};
    const auto logits = executor->Run({{0, tokens, blocks, SequenceRows::Logits::kAll}}).value();
    double sum = 0;
    for (const float logit : logits) sum += static_cast<double>(logit) * logit;
    const double deviation = std::sqrt(sum / static_cast<double>(logits.size()));
    EXPECT_GT(deviation, 1) << model->precision;
    EXPECT_LT(deviation, 4) << model->precision;
  }
}

TEST(RandomModel, MoreThanTheMachineHas) {
  ModelSpec spec = SmallSpec();
  spec.vocab_size = int64_t{1} << 31;
  spec.hidden = int64_t{1} << 20;
  EXPECT_THAT(MakeRandomModel(spec, WeightForm::kF32, 0, 1).status().message(),
              HasSubstr("are free; --shape NAME:LAYERS"));
}

}  // namespace
}  // namespace erne::bench
