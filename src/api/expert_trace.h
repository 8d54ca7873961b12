// Which experts computed an answer: what `show_expert_trace` asks for.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/json.h"
#include "model/model_spec.h"

namespace erne {

// Counts over the tokens of an answer. One thread at a time.
class ExpertTrace {
 public:
  explicit ExpertTrace(const ModelSpec& spec);

  // One more token. route: TokenEvent::experts.
  void Add(std::span<const int32_t> route);

  // {"dense":true} for a model without experts. Otherwise {"tokens":N,"experts":64,"top_k":6,
  // "layers":[...],"busiest_pair":{"layer":L,"experts":[3,7],"tokens":N}}. A layer is
  // {"layer":1,"experts":[{"expert":3,"tokens":9},...],"pair":[3,7]}: the chosen experts, most used
  // first, and the two that were most often chosen for the same token. Ties go to the lower
  // numbers. Pairs are null where none was chosen (top_k 1, or no token).
  Json ToJson() const;

 private:
  struct Pair {
    int64_t first = 0;
    int64_t second = 0;
    int64_t tokens = 0;
  };
  Pair BusiestPair(size_t layer) const;
  Json ExpertsOf(size_t layer) const;

  int64_t experts_;
  int64_t top_k_;
  std::vector<int64_t> layers_;  // numbers of the layers with experts
  int64_t tokens_ = 0;
  std::vector<int64_t> uses_;   // [layers, experts]
  std::vector<int64_t> pairs_;  // [layers, experts, experts]; the lower number first
};

}  // namespace erne
