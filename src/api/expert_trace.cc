#include "api/expert_trace.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace erne {

ExpertTrace::ExpertTrace(const ModelSpec& spec)
    : experts_(spec.moe.routing.experts), top_k_(spec.moe.routing.top_k) {
  for (int64_t layer = 0; layer < spec.num_layers(); ++layer) {
    if (spec.layers[static_cast<size_t>(layer)] == FfnKind::kMoe) layers_.push_back(layer);
  }
  uses_.resize(layers_.size() * static_cast<size_t>(experts_));
  pairs_.resize(uses_.size() * static_cast<size_t>(experts_));
}

void ExpertTrace::Add(std::span<const int32_t> route) {
  ERNE_CHECK(route.size() == layers_.size() * static_cast<size_t>(top_k_))
      << "a route of " << route.size() << " experts";
  ++tokens_;
  int64_t* uses = uses_.data();
  int64_t* pairs = pairs_.data();
  for (size_t layer = 0; layer < layers_.size(); ++layer) {
    for (int64_t i = 0; i < top_k_; ++i) {
      const int32_t expert = route[static_cast<size_t>(i)];
      ++uses[expert];
      for (int64_t j = 0; j < i; ++j) {
        const auto [low, high] = std::minmax(expert, route[static_cast<size_t>(j)]);
        ++pairs[low * experts_ + high];
      }
    }
    route = route.subspan(static_cast<size_t>(top_k_));
    uses += experts_;
    pairs += experts_ * experts_;
  }
}

ExpertTrace::Pair ExpertTrace::BusiestPair(size_t layer) const {
  const auto begin = pairs_.begin() + static_cast<int64_t>(layer) * experts_ * experts_;
  const auto best = std::max_element(begin, begin + experts_ * experts_);
  return {(best - begin) / experts_, (best - begin) % experts_, *best};
}

Json ExpertTrace::ExpertsOf(size_t layer) const {
  const int64_t* uses = uses_.data() + static_cast<int64_t>(layer) * experts_;
  std::vector<int64_t> chosen;
  for (int64_t expert = 0; expert < experts_; ++expert) {
    if (uses[expert] > 0) chosen.push_back(expert);
  }
  std::stable_sort(chosen.begin(), chosen.end(),
                   [uses](int64_t a, int64_t b) { return uses[a] > uses[b]; });
  Json list = Json::MakeArray();
  for (const int64_t expert : chosen) {
    list.Push(Json::Of({{"expert", expert}, {"tokens", uses[expert]}}));
  }
  return list;
}

Json ExpertTrace::ToJson() const {
  if (layers_.empty()) return Json::Of({{"dense", true}});
  Json layers = Json::MakeArray();
  Json busiest;
  int64_t most = 0;
  for (size_t i = 0; i < layers_.size(); ++i) {
    const Pair pair = BusiestPair(i);
    const Json numbers =
        pair.tokens == 0 ? Json() : Json(Json::Array{Json(pair.first), Json(pair.second)});
    layers.Push(Json::Of({{"layer", layers_[i]}, {"experts", ExpertsOf(i)}, {"pair", numbers}}));
    if (pair.tokens <= most) continue;
    most = pair.tokens;
    busiest = Json::Of({{"layer", layers_[i]}, {"experts", numbers}, {"tokens", pair.tokens}});
  }
  return Json::Of({{"tokens", tokens_},
                   {"experts", experts_},
                   {"top_k", top_k_},
                   {"layers", std::move(layers)},
                   {"busiest_pair", std::move(busiest)}});
}

}  // namespace erne
