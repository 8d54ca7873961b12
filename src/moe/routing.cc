#include "moe/routing.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace erne {
namespace {

// p = softmax(logits), shifted by the maximum so that nothing overflows.
void Softmax(std::span<const float> logits, std::span<float> p) {
  const float largest = *std::max_element(logits.begin(), logits.end());
  float sum = 0.0F;
  for (size_t e = 0; e < logits.size(); ++e) {
    p[e] = std::exp(logits[e] - largest);
    sum += p[e];
  }
  for (float& value : p) value /= sum;
}

// The ids of the largest scores in falling order. An insertion sort that looks at the experts in
// rising order and lets a newcomer pass only what it strictly exceeds: ties go to the lower index,
// and NaNs (a broken checkpoint) still give distinct ids.
void SelectTop(std::span<const float> scores, std::span<int32_t> ids) {
  size_t chosen = 0;
  for (size_t e = 0; e < scores.size(); ++e) {
    size_t place = chosen;
    while (place > 0 && scores[e] > scores[ids[place - 1]]) --place;
    if (place == ids.size()) continue;
    if (chosen < ids.size()) ++chosen;
    for (size_t i = chosen - 1; i > place; --i) ids[i] = ids[i - 1];
    ids[place] = static_cast<int32_t>(e);
  }
}

}  // namespace

void RouteToken(const RoutingSpec& spec, std::span<const float> logits,
                std::span<const float> correction_bias, std::span<int32_t> ids,
                std::span<float> weights, std::span<float> scratch) {
  const size_t experts = static_cast<size_t>(spec.experts);
  const size_t top_k = static_cast<size_t>(spec.top_k);
  ERNE_DCHECK(top_k >= 1 && top_k <= experts) << "top " << top_k << " of " << experts;
  ERNE_DCHECK(logits.size() == experts && ids.size() == top_k && weights.size() == top_k);
  ERNE_DCHECK(correction_bias.size() == (spec.correction_bias ? experts : 0));
  ERNE_DCHECK(scratch.size() >= 2 * experts);

  const std::span<float> p = scratch.first(experts);
  Softmax(logits, p);
  if (spec.correction_bias) {
    const std::span<float> scores = scratch.subspan(experts, experts);
    for (size_t e = 0; e < experts; ++e) scores[e] = p[e] + correction_bias[e];
    SelectTop(scores, ids);
  } else {
    SelectTop(p, ids);
  }

  float sum = 0.0F;
  for (size_t i = 0; i < top_k; ++i) {
    weights[i] = p[ids[i]];
    sum += weights[i];
  }
  if (!spec.renormalize) return;
  const float divisor = std::max(sum, static_cast<float>(spec.norm_min));
  for (float& weight : weights) weight /= divisor;
}

}  // namespace erne
