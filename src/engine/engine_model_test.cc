// The engine over real executors and real (tiny) models: tokens are the same alone and in company,
// with prompts cut to pieces, and with a pool so small that requests are preempted; greedy ones are
// those that transformers gives.
#include <cstdlib>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "base/file_set.h"
#include "base/json.h"
#include "engine/engine_test_util.h"
#include "executor/cpu/cpu_executor.h"
#include "executor/reference/reference_executor.h"
#include "model/model.h"

namespace erne {
namespace {

constexpr ExecutorLimits kRoomy{
    .max_rows = 64, .max_logit_rows = 8, .max_sequences = 8, .max_context = 128, .num_blocks = 64};
// The first two of Requests() take five of these blocks for their prompts, and each wants another
// one before the first has ended.
constexpr ExecutorLimits kTight{
    .max_rows = 9, .max_logit_rows = 2, .max_sequences = 2, .max_context = 128, .num_blocks = 6};

std::vector<int32_t> Ids(const Json& object, const char* key) {
  std::vector<int32_t> ids;
  for (const Json& id : object.Find(key)->AsArray())
    ids.push_back(static_cast<int32_t>(id.AsInt()));
  return ids;
}

struct ModelCase {
  std::string name;
  std::string executor;
};

class EngineModel : public testing::TestWithParam<ModelCase> {
 protected:
  void SetUp() override {
    const char* data = std::getenv("ERNE_TEST_DATA");
    const std::string folder =
        std::string(data != nullptr ? data : "tests/data") + "/reference-models/" + GetParam().name;
    const std::shared_ptr<const FileSet> files = OpenFolder(folder).value();
    model_ = std::make_shared<const Model>(LoadModel(files).value());
    const Json expected = Json::Parse(files->Text("expected.json").value()).value();
    prompt_ = Ids(expected, "prompt_ids");
    greedy_ = Ids(expected, "greedy_ids");
  }

  std::unique_ptr<Executor> MakeExecutor(const ExecutorLimits& limits) const {
    return GetParam().executor == "cpu" ? MakeCpuExecutor(model_, limits, {}).value()
                                        : MakeReferenceExecutor(model_, limits).value();
  }

  std::unique_ptr<Engine> MakeModelEngine(const ExecutorLimits& limits,
                                          int64_t max_draft_tokens = 0) const {
    // The prompts begin alike: shared blocks would leave room. (With them: tests/determinism.)
    const EngineOptions options{
        .enable_prefix_caching = false,
        .speculation = {.max_draft_tokens = max_draft_tokens, .measured = false}};
    return std::make_unique<Engine>(MakeExecutor(limits), options);
  }

  // Prompts of several lengths, greedy and sampled; the first is the committed one.
  std::vector<GenerationRequest> Requests() const {
    std::vector<GenerationRequest> requests;
    for (uint64_t i = 0; i < 6; ++i) {
      GenerationRequest request;
      request.prompt = prompt_;
      request.prompt.resize(prompt_.size() - 5 * i % prompt_.size());
      request.max_tokens = static_cast<int64_t>(greedy_.size());
      request.sampling.seed = i;
      request.sampling.temperature = i % 2 == 0 ? 0.0F : 0.9F;
      request.sampling.top_p = 0.95F;
      requests.push_back(std::move(request));
    }
    return requests;
  }

  // Runs Requests(), most of which ask for their routes, and compares these with those of whole
  // sequences that an executor runs at once.
  void ExpectRoutes(Engine& engine) const {
    std::vector<GenerationRequest> requests = Requests();
    std::vector<std::shared_ptr<TokenStream>> streams;
    for (size_t i = 0; i < requests.size(); ++i) {
      requests[i].route_trace = i % 3 != 2;
      streams.push_back(MakeStream());
      ASSERT_TRUE(engine.Submit(requests[i], streams.back()).ok());
    }
    for (size_t i = 0; i < requests.size(); ++i) {
      std::vector<TokenEvent> events;
      while (events.empty() || !events.back().finish) streams[i]->WaitAndTake(events);
      std::vector<int32_t> tokens = requests[i].prompt;
      for (const TokenEvent& event : events) tokens.push_back(event.token);
      const RoutingTrace trace = TraceOf(tokens);
      for (size_t token = 0; token < events.size(); ++token) {
        const size_t row = requests[i].prompt.size() - 1 + token;
        EXPECT_EQ(events[token].experts,
                  requests[i].route_trace ? RouteOf(trace, row) : std::vector<int32_t>())
            << "request " << i << ", token " << token;
      }
    }
  }

  RoutingTrace TraceOf(const std::vector<int32_t>& tokens) const {
    const auto executor = MakeExecutor(kRoomy);
    RoutingTrace trace;
    executor->SetRoutingTrace(&trace);
    std::vector<BlockId> blocks(static_cast<size_t>(kRoomy.max_context / kKvBlockSize));
    std::iota(blocks.begin(), blocks.end(), 0);
    EXPECT_TRUE(executor->Run({{.tokens = tokens, .blocks = blocks}}).ok());
    return trace;
  }

  std::vector<int32_t> RouteOf(const RoutingTrace& trace, size_t row) const {
    const int64_t top_k = model_->spec.moe.routing.top_k;
    std::vector<int32_t> route;
    for (const RoutingTrace::Layer& layer : trace.layers) {
      const auto first = layer.ids.begin() + static_cast<int64_t>(row) * top_k;
      route.insert(route.end(), first, first + top_k);
    }
    return route;
  }

  std::shared_ptr<const Model> model_;
  std::vector<int32_t> prompt_;
  std::vector<int32_t> greedy_;
};

TEST_P(EngineModel, TokensAreTheSameAloneAndInCompany) {
  const std::vector<GenerationRequest> requests = Requests();
  const auto alone = MakeModelEngine(kRoomy);
  std::vector<std::vector<int32_t>> expected;
  for (const GenerationRequest& request : requests) {
    const auto stream = MakeStream();
    ASSERT_TRUE(alone->Submit(request, stream).ok());
    expected.push_back(WaitForAnswer(*stream).tokens);
  }
  EXPECT_EQ(expected[0], greedy_);

  const auto crowded = MakeModelEngine(kTight);
  std::vector<std::shared_ptr<TokenStream>> streams;
  for (const GenerationRequest& request : requests) {
    streams.push_back(MakeStream());
    ASSERT_TRUE(crowded->Submit(request, streams.back()).ok());
  }
  for (size_t i = 0; i < requests.size(); ++i)
    EXPECT_EQ(WaitForAnswer(*streams[i]).tokens, expected[i]) << i;
  EXPECT_GT(crowded->stats().preemptions, 0);
}

// The experts of each token's own row, however steps were made up: preempted requests compute rows
// twice, and rows of wrong guesses are nobody's; each token is told of once.
TEST_P(EngineModel, RoutesAreThoseOfTheRowsThatChoseTheTokens) {
  const auto crowded = MakeModelEngine(kTight);
  ExpectRoutes(*crowded);
  EXPECT_GT(crowded->stats().preemptions, 0);
  const auto guessing = MakeModelEngine(kRoomy, /*max_draft_tokens=*/3);
  ExpectRoutes(*guessing);
  if (model_->spec.has_moe()) {
    EXPECT_GT(guessing->stats().accepted_tokens, 0);
  }
  EXPECT_GT(guessing->stats().drafted_tokens, guessing->stats().accepted_tokens);
}

INSTANTIATE_TEST_SUITE_P(All, EngineModel,
                         testing::Values(ModelCase{"ernie4_5-moe-8x2", "reference"},
                                         ModelCase{"ernie4_5-moe-8x2", "cpu"},
                                         ModelCase{"qwen3", "reference"},
                                         ModelCase{"qwen3", "cpu"}),
                         [](const auto& test) {
                           std::string name = test.param.name + "_" + test.param.executor;
                           for (char& c : name) c = c == '-' ? '_' : c;
                           return name;
                         });

}  // namespace
}  // namespace erne
