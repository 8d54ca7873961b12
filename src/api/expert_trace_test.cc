#include "api/expert_trace.h"

#include <gtest/gtest.h>

namespace erne {
namespace {

ModelSpec Spec(std::vector<FfnKind> layers, int64_t top_k) {
  ModelSpec spec;
  spec.layers = std::move(layers);
  spec.moe.routing = {.experts = 8, .top_k = top_k};
  return spec;
}

TEST(ExpertTrace, CountsByLayerAndFindsThePairs) {
  ExpertTrace trace(Spec({FfnKind::kDense, FfnKind::kMoe, FfnKind::kMoe}, 2));
  trace.Add(std::vector<int32_t>{3, 7, 0, 1});
  trace.Add(
      std::vector<int32_t>{7, 3, 2, 1});  // the order in which a router names them is no matter
  trace.Add(std::vector<int32_t>{5, 3, 1, 4});
  EXPECT_EQ(trace.ToJson().Dump(),
            R"({"tokens":3,"experts":8,"top_k":2,"layers":[)"
            R"({"layer":1,"experts":[{"expert":3,"tokens":3},{"expert":7,"tokens":2},)"
            R"({"expert":5,"tokens":1}],"pair":[3,7]},)"
            R"({"layer":2,"experts":[{"expert":1,"tokens":3},{"expert":0,"tokens":1},)"
            R"({"expert":2,"tokens":1},{"expert":4,"tokens":1}],"pair":[0,1]}],)"
            R"("busiest_pair":{"layer":1,"experts":[3,7],"tokens":2}})");
}

TEST(ExpertTrace, OneExpertForATokenHasNoPair) {
  ExpertTrace trace(Spec({FfnKind::kMoe}, 1));
  trace.Add(std::vector<int32_t>{6});
  EXPECT_EQ(trace.ToJson().Dump(),
            R"({"tokens":1,"experts":8,"top_k":1,"layers":[)"
            R"({"layer":0,"experts":[{"expert":6,"tokens":1}],"pair":null}],"busiest_pair":null})");
}

TEST(ExpertTrace, ADenseModelSaysSo) {
  ModelSpec spec;
  spec.layers = {FfnKind::kDense};
  ExpertTrace trace(spec);
  trace.Add({});
  EXPECT_EQ(trace.ToJson().Dump(), R"({"dense":true})");
}

}  // namespace
}  // namespace erne
