#include "model/model.h"

#include <cstdlib>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace erne {
namespace {

std::string ReferenceFolder(const std::string& name) {
  const char* data = std::getenv("ERNE_TEST_DATA");
  return std::string(data == nullptr ? "tests/data" : data) + "/reference-models/" + name;
}

Result<Model> LoadFolder(const std::string& path) {
  auto files = OpenFolder(path);
  if (!files.ok()) return files.status();
  return LoadModel(*files);
}

class ReferenceModels : public ::testing::TestWithParam<const char*> {};

TEST_P(ReferenceModels, Load) {
  const Result<Model> model = LoadFolder(ReferenceFolder(GetParam()));
  ASSERT_TRUE(model.ok()) << model.status().message();
  EXPECT_EQ(model->spec.vocab_size, 320);
}

INSTANTIATE_TEST_SUITE_P(All, ReferenceModels,
                         ::testing::Values("ernie4_5-dense", "ernie4_5-dense-bf16",
                                           "ernie4_5-dense-bias-untied", "ernie4_5-dense-awq",
                                           "ernie4_5-dense-gptq", "ernie4_5-dense-gptq-actorder",
                                           "ernie4_5-moe-8x2", "ernie4_5-moe-16x6-shared2",
                                           "ernie4_5-moe-interval2", "llama-gqa",
                                           "llama3-rope-scaling", "qwen2", "qwen3", "qwen3_moe",
                                           "mixtral"));

TEST(LoadModel, ErneMini) {
  const char* source = std::getenv("ERNE_SOURCE");
  const Result<Model> model =
      LoadFolder(std::string(source == nullptr ? "." : source) + "/models/erne-mini");
  ASSERT_TRUE(model.ok()) << model.status().message();
  EXPECT_EQ(model->precision, "awq int4 (group 64)");
}

}  // namespace
}  // namespace erne
