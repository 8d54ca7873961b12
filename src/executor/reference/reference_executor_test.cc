// The numbers are judged by tests/golden; here are the edges of the interface.
#include "executor/reference/reference_executor.h"

#include <cstdlib>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/file_set.h"
#include "model/model.h"

namespace erne {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Logits = SequenceRows::Logits;

constexpr ExecutorLimits kLimits{
    .max_rows = 8, .max_logit_rows = 6, .max_sequences = 3, .max_context = 20, .num_blocks = 4};

std::shared_ptr<const Model> LoadMoe() {
  const char* data = std::getenv("ERNE_TEST_DATA");
  const std::string root = data != nullptr ? data : "tests/data";
  Result<Model> model = LoadModel(OpenFolder(root + "/reference-models/ernie4_5-moe-8x2").value());
  return std::make_shared<const Model>(std::move(model).value());
}

TEST(ReferenceExecutor, RefusesImpossibleLimits) {
  ExecutorLimits limits = kLimits;
  limits.max_rows = 0;
  const auto executor = MakeReferenceExecutor(LoadMoe(), limits);
  ASSERT_FALSE(executor.ok());
  EXPECT_EQ(executor.status().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(executor.status().message(), HasSubstr("max_rows is 0"));
}

TEST(ReferenceExecutor, ReportsProgressAndItself) {
  std::vector<double> progress;
  const auto executor =
      MakeReferenceExecutor(LoadMoe(), kLimits, [&](double done) { progress.push_back(done); });
  ASSERT_TRUE(executor.ok());
  EXPECT_EQ(progress.back(), 1.0);
  const ExecutorInfo info = (*executor)->info();
  EXPECT_THAT(info.name, HasSubstr("reference"));
  // K and V of 4 blocks of 16 positions, 4 layers, 2 heads of 16 floats.
  const ModelSpec& spec = (*executor)->spec();
  EXPECT_EQ(info.kv_bytes,
            static_cast<uint64_t>(2 * 4 * 16 * spec.num_layers() * spec.attention.kv_width()) * 4);
}

TEST(ReferenceExecutor, GivesTheLogitRowsThatWereAskedFor) {
  const auto executor = MakeReferenceExecutor(LoadMoe(), kLimits);
  ASSERT_TRUE(executor.ok());
  const auto vocab = static_cast<size_t>((*executor)->spec().vocab_size);
  const std::vector<int32_t> tokens = {5, 6, 7};
  const std::vector<BlockId> a = {3};
  const std::vector<BlockId> b = {0};
  const std::vector<BlockId> c = {2};
  // The span lives until the next Run: keep copies.
  const auto run = [&](const Batch& batch) {
    const Result<std::span<const float>> logits = (*executor)->Run(batch);
    return std::vector<float>(logits->begin(), logits->end());
  };
  const std::vector<float> all = run({{0, tokens, a, Logits::kAll}});
  ASSERT_EQ(all.size(), 3 * vocab);
  EXPECT_TRUE(run({{0, tokens, a, Logits::kNone}}).empty());
  const std::vector<float> mixed = run({{0, tokens, a, Logits::kLast},
                                        {0, {tokens.data(), 2}, b, Logits::kNone},
                                        {0, tokens, c, Logits::kAll}});
  ASSERT_EQ(mixed.size(), 4 * vocab);
  EXPECT_TRUE(std::equal(mixed.begin(), mixed.begin() + vocab, all.end() - vocab));
  EXPECT_TRUE(std::equal(mixed.begin() + vocab, mixed.end(), all.begin()));
}

TEST(ReferenceExecutor, TracesTheExpertsOfMoeLayers) {
  const auto executor = MakeReferenceExecutor(LoadMoe(), kLimits);
  ASSERT_TRUE(executor.ok());
  const std::vector<int32_t> tokens = {5, 6, 7};
  const std::vector<BlockId> blocks = {1};
  RoutingTrace trace;
  (*executor)->SetRoutingTrace(&trace);
  ASSERT_TRUE((*executor)->Run({{0, tokens, blocks, Logits::kNone}}).ok());
  std::vector<int64_t> layers;
  for (const RoutingTrace::Layer& layer : trace.layers) {
    layers.push_back(layer.layer);
    EXPECT_EQ(layer.ids.size(), 3U * 2U);
  }
  EXPECT_THAT(layers, ElementsAre(1, 2, 3));
  (*executor)->SetRoutingTrace(nullptr);
  trace.layers.clear();
  ASSERT_TRUE((*executor)->Run({{0, tokens, blocks, Logits::kNone}}).ok());
  EXPECT_TRUE(trace.layers.empty());
}

}  // namespace
}  // namespace erne
