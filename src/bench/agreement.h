// How far an executor's logits are from the reference executor's.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/status.h"
#include "executor/executor.h"

namespace erne::bench {

struct Agreement {
  int64_t positions = 0;
  int64_t same_token = 0;  // both find the same token most probable
  double kl_sum = 0;       // nats
  double worst_kl = 0;
  double worst_error = 0;  // max |d logit| / max |logit|, of positions that were not rerouted
  // Positions that saw another expert than in the reference: their own, or that of an earlier token
  // that they attend to. Where two experts are nearly even, any rounding tips the choice, and what
  // follows is another computation.
  int64_t rerouted = 0;

  // Logits of one position, [vocab] each. A NaN in either makes the error a NaN.
  void Add(std::span<const float> expected, std::span<const float> actual, bool same_route = true);
  double mean_kl() const { return kl_sum / static_cast<double>(positions); }
};

// The largest worst_error of an executor that computes what `info` says, against the reference with
// the same weights and the same type of keys and values.
double ErrorBound(const ExecutorInfo& info, KvDType kv_dtype, const ModelSpec& spec);

// Computes `tokens` with both, on blocks from 0 on: the first half as a prompt, then one after the
// other, as answers are. Internal, with the figures, when they are further apart than ErrorBound
// allows at positions that were not rerouted, or when most positions were (unless
// `many_may_be_rerouted`: then the figures alone tell); the errors of Run.
Result<Agreement> Compare(Executor& reference, Executor& executor, std::span<const int32_t> tokens,
                          bool many_may_be_rerouted = false);

// The first layers of a model, up to the first with experts: there a tipped router changes the
// position that it belongs to and no other, so that Compare judges most of them. The model lives as
// long.
std::shared_ptr<const Model> UpToFirstExperts(std::shared_ptr<const Model> model);

// Ids that are drawn, for prompts whose text does not matter.
std::vector<int32_t> RandomTokens(int64_t count, int64_t vocab_size, uint64_t seed);

Json ToJson(const Agreement& agreement, double bound);
// One line for people.
std::string Describe(const Agreement& agreement, double bound);

}  // namespace erne::bench
