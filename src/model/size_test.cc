#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "model/model.h"
#include "model/model_test_util.h"

namespace erne {
namespace {

using ::testing::HasSubstr;

Result<Model> Outline(const std::string& folder) {
  ERNE_ASSIGN_OR_RETURN(auto files, OpenFolder(folder));
  return LoadModel(std::move(files), {.unpack = false});
}

TEST(MeasureModel, CountsEveryElementOnce) {
  // Float checkpoints store what is counted and nothing else.
  for (const char* folder : {"ernie4_5-dense", "ernie4_5-dense-bias-untied", "ernie4_5-moe-8x2",
                             "ernie4_5-moe-16x6-shared2", "qwen3_moe", "mixtral", "qwen3"}) {
    const Result<Model> model = LoadFolder(ReferenceFolder(folder));
    ASSERT_TRUE(model.ok()) << folder;
    int64_t stored = 0;
    for (const auto& [name, view] : model->weights.checkpoint->tensors()) stored += view.elements();
    const ModelSize size = MeasureModel(*model);
    EXPECT_EQ(size.parameters, stored) << folder;
    EXPECT_EQ(size.weight_bytes, static_cast<uint64_t>(stored) * 4) << folder;
    EXPECT_EQ(size.active_parameters < size.parameters, model->spec.has_moe()) << folder;
  }
}

TEST(MeasureModel, IdleExpertsAreNotActive) {
  const Result<Model> model = LoadFolder(ReferenceFolder("ernie4_5-moe-8x2"));
  ASSERT_TRUE(model.ok());
  const ModelSize size = MeasureModel(*model);
  // 3 layers, in each 6 of 8 experts idle, 3 matrices in each.
  EXPECT_EQ(size.parameters - size.active_parameters,
            3 * 6 * 3 * model->spec.hidden * model->spec.moe.intermediate);
}

TEST(MeasureModel, HalfPrecisionTakesHalf) {
  const Result<Model> model = LoadFolder(ReferenceFolder("ernie4_5-dense-bf16"));
  ASSERT_TRUE(model.ok());
  const ModelSize size = MeasureModel(*model);
  const int64_t vectors = 64 * (2 * model->spec.num_layers() + 1);
  EXPECT_EQ(size.weight_bytes, static_cast<uint64_t>(2 * (size.parameters + vectors)));
}

TEST(MeasureModel, FourBitMatricesBeforeAndAfterUnpacking) {
  for (const char* folder :
       {"ernie4_5-dense-awq", "ernie4_5-dense-gptq", "ernie4_5-dense-gptq-actorder"}) {
    const Result<Model> whole = LoadFolder(ReferenceFolder(folder));
    const Result<Model> outline = Outline(ReferenceFolder(folder));
    ASSERT_TRUE(whole.ok() && outline.ok()) << folder;
    EXPECT_EQ(outline->precision, whole->precision);
    const auto& unpacked = std::get<Int4Matrix>(whole->weights.layers[0].q.matrix);
    const auto& sketched = std::get<Int4Matrix>(outline->weights.layers[0].q.matrix);
    EXPECT_EQ(sketched.rows, unpacked.rows);
    EXPECT_EQ(sketched.cols, unpacked.cols);
    EXPECT_EQ(sketched.group, unpacked.group);
    EXPECT_TRUE(sketched.q.empty());

    const ModelSize size = MeasureModel(*whole);
    const ModelSize same = MeasureModel(*outline);
    EXPECT_EQ(size.parameters, same.parameters);
    EXPECT_EQ(size.weight_bytes, same.weight_bytes);
    // The float reference model of the same shape has the same elements.
    EXPECT_EQ(size.parameters,
              MeasureModel(*LoadFolder(ReferenceFolder("ernie4_5-dense"))).parameters);
    // One matrix as it lies in memory, but for the order of inputs.
    const size_t order = unpacked.input_order.size() * sizeof(int32_t);
    Model one = *whole;
    one.weights.layers[0].q = {};
    EXPECT_EQ(size.weight_bytes - MeasureModel(one).weight_bytes, unpacked.bytes() - order);
  }
}

TEST(MeasureModel, ErneMini) {
  const Result<Model> model = Outline(ErneMiniFolder());
  ASSERT_TRUE(model.ok()) << model.status().message();
  EXPECT_EQ(MeasureModel(*model).parameters / 100'000, 385);  // 38.5 M: its card
}

TEST(LoadModel, AnOutlineHasTheSameFaults) {
  const Result<Model> nothing = Outline(std::filesystem::temp_directory_path().string());
  ASSERT_FALSE(nothing.ok());
  EXPECT_THAT(nothing.status().message(), HasSubstr("config.json"));
}

}  // namespace
}  // namespace erne
