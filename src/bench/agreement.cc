#include "bench/agreement.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <numeric>
#include <utility>

#include "base/strings.h"
#include "kv/block_pool.h"
#include "sampling/philox.h"
#include "sampling/sampler.h"

namespace erne::bench {
namespace {

// Log softmax in double.
std::vector<double> LogProbabilities(std::span<const float> logits) {
  const double largest = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const float logit : logits) sum += std::exp(logit - largest);
  const double log_sum = largest + std::log(sum);
  std::vector<double> result;
  result.reserve(logits.size());
  for (const float logit : logits) result.push_back(logit - log_sum);
  return result;
}

std::string Scientific(double value) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.1e", value);
  return text;
}

// Follows the choices of experts of two executors through a sequence.
class Routes {
 public:
  Routes(Executor& a, Executor& b) : executors_{&a, &b} {
    for (int i = 0; i < 2; ++i) executors_[i]->SetRoutingTrace(&traces_[i]);
  }
  Routes(const Routes&) = delete;
  Routes& operator=(const Routes&) = delete;
  ~Routes() {
    for (Executor* executor : executors_) executor->SetRoutingTrace(nullptr);
  }

  // Whether row `row` of the last step, the next position, was computed alike in all that matters
  // to it.
  bool SameUpTo(size_t row) {
    const ModelSpec& spec = executors_[0]->spec();
    const auto top_k = static_cast<size_t>(spec.moe.routing.top_k);
    bool same = clean_;
    for (size_t i = 0; i < traces_[0].layers.size(); ++i) {
      const RoutingTrace::Layer& layer = traces_[0].layers[i];
      if (Chosen(layer, row, top_k) == Chosen(traces_[1].layers[i], row, top_k)) continue;
      same = false;
      // Later positions attend to what the layers below the last made of this one.
      if (layer.layer + 1 < spec.num_layers()) clean_ = false;
    }
    return same;
  }

 private:
  static std::vector<int32_t> Chosen(const RoutingTrace::Layer& layer, size_t row, size_t top_k) {
    const auto begin = layer.ids.begin() + static_cast<ptrdiff_t>(row * top_k);
    std::vector<int32_t> ids(begin, begin + static_cast<ptrdiff_t>(top_k));
    std::sort(ids.begin(), ids.end());
    return ids;
  }

  Executor* const executors_[2];
  RoutingTrace traces_[2];
  bool clean_ = true;  // no earlier position matters that differs
};

// A part of a model.
struct Part {
  std::shared_ptr<const Model> whole;
  Model model;
};

}  // namespace

void Agreement::Add(std::span<const float> expected, std::span<const float> actual,
                    bool same_route) {
  const std::vector<double> p = LogProbabilities(expected);
  const std::vector<double> q = LogProbabilities(actual);
  double kl = 0;
  double error = 0;
  double largest = 0;
  for (size_t i = 0; i < p.size(); ++i) {
    kl += std::exp(p[i]) * (p[i] - q[i]);
    const double difference = std::abs(static_cast<double>(actual[i]) - expected[i]);
    // A NaN fails every comparison: once it is there, it stays.
    if (!(difference <= error) && !std::isnan(error)) error = difference;
    largest = std::max(largest, std::abs(static_cast<double>(expected[i])));
  }
  ++positions;
  same_token += ArgMax(expected) == ArgMax(actual) ? 1 : 0;
  kl_sum += kl;
  worst_kl = std::max(worst_kl, kl);
  const double relative = error / largest;
  if (!same_route) ++rerouted;
  if (!same_route && !std::isnan(relative)) return;
  if (!(relative <= worst_error) && !std::isnan(worst_error)) worst_error = relative;
}

double ErrorBound(const ExecutorInfo& info, KvDType kv_dtype, const ModelSpec& spec) {
  // Two float32 executors: tests/golden/tolerance.h.
  constexpr double kFloats = 1e-4;
  // Rounding the inputs of products by a relative error of deviation e moves the stream by 4.2 e in
  // each layer and the head by e, and the worst of many logits by four times as much: the same file
  // has the sum. e = 2^-9 / sqrt(3) for bf16; for int8 half a step of 1/127 of the largest of a
  // group, which is 2.7 deviations where a group is 128: 2.7 / 127 / sqrt(12).
  // Never up to the error of a wrong product, which is about 1.
  const double depth = std::sqrt(static_cast<double>(spec.num_layers()));
  const double roundings = 4 * (4.2 * depth + 1);
  constexpr double kMost = 0.7;
  constexpr double kBf16 = 1.13e-3;
  constexpr double kInt8 = 6.1e-3;
  // Keys and values are rounded alike by both, but where they differ in the last bits they may fall
  // on two sides of an edge: one step, of few of them.
  double bound = kFloats;
  switch (kv_dtype) {
    case KvDType::kF32:
      break;
    case KvDType::kF16:
      bound += 2 * 0x1p-11;
      break;
    case KvDType::kBF16:
      bound += 2 * 0x1p-8;
      break;
    case KvDType::kInt8:
      bound += 2.0 / 127;
      break;
  }
  if (info.activation_type.find("int8") != std::string::npos)
    return bound + std::min(kMost, roundings * kInt8);
  if (info.activation_type.find("bf16") != std::string::npos)
    return bound + std::min(kMost, roundings * kBf16);
  return bound;
}

Result<Agreement> Compare(Executor& reference, Executor& executor, std::span<const int32_t> tokens,
                          bool many_may_be_rerouted) {
  const auto vocab = static_cast<size_t>(executor.spec().vocab_size);
  std::vector<BlockId> blocks(
      static_cast<size_t>(BlocksForTokens(static_cast<int64_t>(tokens.size()))));
  std::iota(blocks.begin(), blocks.end(), 0);
  const auto run = [&](Executor& which, size_t start, size_t count) {
    return which.Run({{static_cast<int64_t>(start), tokens.subspan(start, count), blocks,
                       SequenceRows::Logits::kAll}});
  };
  Agreement agreement;
  Routes routes(reference, executor);
  const size_t prompt = (tokens.size() + 1) / 2;
  for (size_t start = 0; start < tokens.size();) {
    const size_t count = start == 0 ? prompt : 1;
    ERNE_ASSIGN_OR_RETURN(const std::span<const float> expected, run(reference, start, count));
    ERNE_ASSIGN_OR_RETURN(const std::span<const float> actual, run(executor, start, count));
    for (size_t i = 0; i < count; ++i) {
      agreement.Add(expected.subspan(i * vocab, vocab), actual.subspan(i * vocab, vocab),
                    routes.SameUpTo(i));
    }
    start += count;
  }
  const double bound = ErrorBound(executor.info(), executor.limits().kv_dtype, executor.spec());
  // Not >: a NaN is no agreement.
  if (!(agreement.worst_error <= bound) ||
      (!many_may_be_rerouted && 2 * agreement.rerouted > agreement.positions)) {
    return Internal(StrCat(executor.info().name, " and the reference executor do not agree: ",
                           Describe(agreement, bound)));
  }
  return agreement;
}

std::shared_ptr<const Model> UpToFirstExperts(std::shared_ptr<const Model> model) {
  const auto part = std::make_shared<Part>();
  part->model = *model;
  part->whole = std::move(model);
  std::vector<FfnKind>& layers = part->model.spec.layers;
  const auto first = std::find(layers.begin(), layers.end(), FfnKind::kMoe);
  if (first != layers.end()) layers.erase(first + 1, layers.end());
  part->model.weights.layers.resize(layers.size());
  return {part, &part->model};
}

std::vector<int32_t> RandomTokens(int64_t count, int64_t vocab_size, uint64_t seed) {
  std::vector<int32_t> tokens(static_cast<size_t>(count));
  for (size_t i = 0; i < tokens.size(); ++i) {
    tokens[i] = static_cast<int32_t>(RandomBitsAt(seed, i) % static_cast<uint64_t>(vocab_size));
  }
  return tokens;
}

Json ToJson(const Agreement& agreement, double bound) {
  return Json::Of({{"positions", agreement.positions},
                   {"max_error", agreement.worst_error},
                   {"max_error_allowed", bound},
                   {"mean_kl", agreement.mean_kl()},
                   {"max_kl", agreement.worst_kl},
                   {"same_token", agreement.same_token},
                   {"rerouted", agreement.rerouted}});
}

std::string Describe(const Agreement& agreement, double bound) {
  return StrCat(agreement.positions, " tokens against the reference executor: largest error ",
                Scientific(agreement.worst_error),
                " of the largest logit (allowed: ", Scientific(bound), "), mean KL ",
                Scientific(agreement.mean_kl()), ", same most probable token ",
                agreement.same_token, " of ", agreement.positions,
                agreement.rerouted == 0
                    ? std::string()
                    : StrCat("; ", agreement.rerouted,
                             " tokens saw other experts, and count in the latter two alone"));
}

}  // namespace erne::bench
