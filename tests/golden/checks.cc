#include "checks.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <limits>
#include <span>
#include <utility>

#include "base/check.h"
#include "base/strings.h"
#include "moe/routing.h"
#include "runner.h"
#include "tolerance.h"

namespace erne::golden {
namespace {

std::span<const float> RowOf(const SequenceResult& result, int64_t position, int64_t vocab) {
  return std::span(result.logits)
      .subspan(static_cast<size_t>(position * vocab), static_cast<size_t>(vocab));
}

int32_t LargestIndex(std::span<const float> row) {
  return static_cast<int32_t>(std::max_element(row.begin(), row.end()) - row.begin());
}

// How far `id` is above the best of the others; negative when it is not the largest.
double MarginOf(std::span<const float> row, int32_t id) {
  float best = -std::numeric_limits<float>::infinity();
  for (size_t i = 0; i < row.size(); ++i) {
    if (static_cast<int32_t>(i) != id) best = std::max(best, row[i]);
  }
  return static_cast<double>(row[static_cast<size_t>(id)]) - best;
}

double LogSumExp(std::span<const float> row) {
  const double largest = *std::max_element(row.begin(), row.end());
  double sum = 0;
  for (const float logit : row) sum += std::exp(logit - largest);
  return largest + std::log(sum);
}

// Kullback-Leibler divergence of softmax(actual) from softmax(expected), in nats.
double Divergence(std::span<const float> expected, std::span<const float> actual) {
  const double p_sum = LogSumExp(expected);
  const double q_sum = LogSumExp(actual);
  double sum = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    const double p = expected[i] - p_sum;
    sum += std::exp(p) * (p - (actual[i] - q_sum));
  }
  return sum;
}

// NaN counts as infinitely wrong.
double ErrorOf(double actual, double expected) {
  const double error = std::abs(actual - expected);
  return std::isnan(error) ? std::numeric_limits<double>::infinity() : error;
}

// What is judged, and how strictly.
struct Scope {
  double bound = kRelativeBound;
  int64_t end = std::numeric_limits<int64_t>::max();  // positions from here on are not judged
};

// A series of choices (the largest logit of a position, the next token): the expected one must have
// been taken, unless the executor's own margin is within what the tolerance can turn around.
class Choices {
 public:
  explicit Choices(double bound) : bound_(bound) {}
  // `row`: the executor's logits; `expected`: what should be the largest.
  void Add(std::span<const float> row, int32_t expected) {
    ++count_;
    if (LargestIndex(row) == expected) return;
    const double margin = MarginOf(row, LargestIndex(row));
    const double lost = -MarginOf(row, expected);
    const double bound = 2 * bound_ * LargestMagnitude(row);
    if (margin <= bound && lost <= bound) {
      ++undecided_;
    } else if (wrong_++ == 0) {
      first_wrong_ = StrCat("; first at ", count_ - 1, ": ", LargestIndex(row), " instead of ",
                            expected, ", which is ", lost, " below, bound ", bound);
    }
  }
  bool pass() const { return wrong_ == 0; }
  std::string Summary() const {
    return StrCat(count_ - wrong_ - undecided_, " of ", count_, " equal, ", undecided_,
                  " undecided, ", wrong_, " wrong", first_wrong_);
  }

 private:
  double bound_;
  int count_ = 0;
  int undecided_ = 0;
  int wrong_ = 0;
  std::string first_wrong_;
};

void CheckLogits(const SequenceResult& result, int64_t vocab, const Expected& expected,
                 const Scope& scope, Report& report) {
  double worst = 0;
  double divergence = 0;
  int rows = 0;
  for (const auto& [position, row] : expected.logits_rows) {
    if (position >= scope.end) break;
    ++rows;
    const std::span<const float> actual = RowOf(result, position, vocab);
    ERNE_CHECK(row.size() == actual.size());
    const double size = LargestMagnitude(row);
    for (size_t i = 0; i < row.size(); ++i) {
      const double error = std::max(0.0, ErrorOf(actual[i], row[i]) - kLogitRounding);
      worst = std::max(worst, error / size);
    }
    divergence += Divergence(row, actual);
  }
  report.Line(worst <= scope.bound, "logits",
              StrCat("max |d| / max |logit| ", worst, ", bound ", scope.bound, ", mean KL ",
                     divergence / std::max(1, rows), ", ", rows, " rows"));
}

void CheckArgMax(const SequenceResult& result, int64_t vocab, const Expected& expected,
                 const Scope& scope, Report& report) {
  Choices choices(scope.bound);
  for (size_t i = 0; i < expected.argmax.size() && static_cast<int64_t>(i) < scope.end; ++i) {
    choices.Add(RowOf(result, static_cast<int64_t>(i), vocab), expected.argmax[i]);
  }
  report.Line(choices.pass(), "argmax", StrCat(choices.Summary(), " (positions)"));
}

void CheckLogSumExp(const SequenceResult& result, int64_t vocab, const Expected& expected,
                    const Scope& scope, Report& report) {
  // The error as a share of the bound of its row.
  double worst = 0;
  double worst_error = 0;
  const size_t positions = std::min(expected.logsumexp.size(), static_cast<size_t>(scope.end));
  for (size_t i = 0; i < positions; ++i) {
    const std::span<const float> row = RowOf(result, static_cast<int64_t>(i), vocab);
    const double error = ErrorOf(LogSumExp(row), expected.logsumexp[i]);
    worst = std::max(worst, error / (scope.bound * LargestMagnitude(row) + kLogitRounding));
    worst_error = std::max(worst_error, error);
  }
  report.Line(
      worst <= 1, "logsumexp",
      StrCat("max |d| ", worst_error, ", ", worst, " of the bound, ", positions, " positions"));
}

// The prompt with all but the last of `ids` after it: the result's last ids.size() rows choose the
// ids. Feeding the expected ids (and not the executor's own) equals free running as long as they
// agree, and goes on after an undecided step.
SequenceResult RunForced(Executor& executor, const std::vector<int32_t>& prompt,
                         const std::vector<int32_t>& ids) {
  CutSequence sequence{prompt, {static_cast<int64_t>(prompt.size())}};
  sequence.tokens.insert(sequence.tokens.end(), ids.begin(), ids.end() - 1);
  // Then token by token, as a server decodes.
  sequence.chunks.resize(ids.size(), 1);
  return std::move(RunTogether(executor, {sequence})[0]);
}

// Positions before the first at which the two took different experts in some layer; all of them
// where they never did.
int64_t PositionsWithEqualExperts(const SequenceResult& a, const SequenceResult& b, size_t top_k) {
  int64_t end = std::numeric_limits<int64_t>::max();
  for (const auto& [layer, ids] : a.experts) {
    const std::vector<int32_t>& other = b.experts.at(layer);
    for (size_t t = 0; t * top_k < ids.size(); ++t) {
      const auto begin = static_cast<int64_t>(t * top_k);
      const auto last = begin + static_cast<int64_t>(top_k);
      if (!std::is_permutation(ids.begin() + begin, ids.begin() + last, other.begin() + begin)) {
        end = std::min(end, static_cast<int64_t>(t));
      }
    }
  }
  return end;
}

// How far rounding moves the distributions on average (tolerance.h): of the positions in scope, or
// of all when there are none.
void CheckDivergence(const SequenceResult& result, const SequenceResult& exact, int64_t vocab,
                     const Scope& scope, Report& report) {
  double divergence = 0;
  double allowed = 0;
  const auto all = static_cast<int64_t>(exact.logits.size()) / vocab;
  const int64_t positions = scope.end == 0 ? all : std::min(scope.end, all);
  for (int64_t t = 0; t < positions; ++t) {
    const std::span<const float> row = RowOf(exact, t, vocab);
    divergence += Divergence(row, RowOf(result, t, vocab)) / static_cast<double>(positions);
    allowed +=
        DivergenceBound(scope.bound, !exact.experts.empty(), row) / static_cast<double>(positions);
  }
  report.Line(divergence <= allowed, "divergence",
              StrCat("mean KL from float32 ", divergence, ", bound ", allowed, ", ", positions,
                     " positions"));
}

// The scope of an executor that rounds keys and values or activations, `result` being what it made
// of a prompt and the continuation `ids`; everything at the tight bound when `exact` is null.
Scope ScopeOf(Executor& executor, Executor* exact, const std::vector<int32_t>& prompt,
              const std::vector<int32_t>& ids, const SequenceResult& result, Report& report) {
  Scope scope;
  scope.bound = RelativeBound(executor.limits().kv_dtype, executor.info().activation_type,
                              executor.spec().num_layers());
  if (exact == nullptr) return scope;
  const SequenceResult other = RunForced(*exact, prompt, ids);
  const auto positions = static_cast<int64_t>(prompt.size() + ids.size()) - 1;
  if (executor.spec().has_moe()) {
    scope.end = PositionsWithEqualExperts(result, other,
                                          static_cast<size_t>(executor.spec().moe.routing.top_k));
    report.Line(true, "experts",
                StrCat("those of float32 at the first ", std::min(scope.end, positions), " of ",
                       positions, " positions"));
  }
  CheckDivergence(result, other, executor.spec().vocab_size, scope, report);
  return scope;
}

void CheckGreedy(const SequenceResult& result, int64_t vocab, const Expected& expected,
                 const Scope& scope, Report& report) {
  const auto first = static_cast<int64_t>(expected.prompt.size()) - 1;
  Choices choices(scope.bound);
  for (size_t i = 0; i < expected.greedy.size(); ++i) {
    const int64_t position = first + static_cast<int64_t>(i);
    if (position >= scope.end) break;
    choices.Add(RowOf(result, position, vocab), expected.greedy[i]);
  }
  report.Line(choices.pass(), "greedy", StrCat(choices.Summary(), " (steps)"));
}

std::vector<float> CorrectionBias(const Model& model, int64_t layer) {
  const auto* moe = std::get_if<MoeWeights>(&model.weights.layers[static_cast<size_t>(layer)].ffn);
  ERNE_CHECK(moe != nullptr) << "layer " << layer << " is dense here and MoE in expected.json";
  if (!model.spec.moe.routing.correction_bias) return {};
  return ToFloats(*moe->correction_bias);
}

// softmax(logits) + bias in double.
std::vector<double> SelectionScores(const std::vector<float>& logits,
                                    const std::vector<float>& bias) {
  const double log_sum = LogSumExp(logits);
  std::vector<double> scores;
  for (size_t e = 0; e < logits.size(); ++e) {
    scores.push_back(std::exp(logits[e] - log_sum) + (bias.empty() ? 0.0 : bias[e]));
  }
  return scores;
}

// The first position past the scope is judged too, up to the layer that tipped: it must have been
// undecided.
void CheckRouting(const SequenceResult& result, const Model& model, const Expected& expected,
                  const Scope& scope, Report& report) {
  const auto top_k = static_cast<size_t>(model.spec.moe.routing.top_k);
  int equal = 0;
  int undecided = 0;
  int wrong = 0;
  bool tipped = false;
  for (const ExpectedRouter& router : expected.routers) {
    const auto found = result.experts.find(router.layer);
    ERNE_CHECK(found != result.experts.end()) << "the trace lacks layer " << router.layer;
    const std::vector<float> bias = CorrectionBias(model, router.layer);
    for (size_t t = 0; t < router.ids.size(); ++t) {
      const auto position = static_cast<int64_t>(t);
      if (position > scope.end || (tipped && position == scope.end)) break;
      const std::vector<double> scores = SelectionScores(router.logits[t], bias);
      const double bound = scope.bound * LargestMagnitude(router.logits[t]);
      const auto chosen = std::span(found->second).subspan(t * top_k, top_k);
      tipped |= position == scope.end &&
                !std::is_permutation(chosen.begin(), chosen.end(), router.ids[t].begin());
      for (size_t i = 0; i < top_k; ++i) {
        const int32_t actual = chosen[i];
        const int32_t wanted = router.ids[t][i];
        if (actual == wanted) {
          ++equal;
        } else if (std::abs(scores[actual] - scores[wanted]) <= bound) {
          ++undecided;
        } else {
          ++wrong;
        }
      }
    }
  }
  report.Line(
      wrong == 0, "routing",
      StrCat(equal, " experts equal in order, ", undecided, " undecided, ", wrong, " wrong"));
}

bool SameBits(const SequenceResult& a, const SequenceResult& b) {
  return a.logits.size() == b.logits.size() && a.experts == b.experts &&
         std::memcmp(a.logits.data(), b.logits.data(), a.logits.size() * sizeof(float)) == 0;
}

}  // namespace

void Report::Line(bool pass, const std::string& check, const std::string& detail) {
  ++checks_;
  if (!pass) ++failures_;
  std::printf("%s %s %s: %s\n", pass ? "PASS" : "FAIL", model_.c_str(), check.c_str(),
              detail.c_str());
  std::fflush(stdout);
}

void CheckExpected(Executor& executor, Executor* exact, const Model& model,
                   const Expected& expected, Report& report) {
  const int64_t vocab = model.spec.vocab_size;
  const SequenceResult result = RunForced(executor, expected.prompt, expected.greedy);
  const Scope scope = ScopeOf(executor, exact, expected.prompt, expected.greedy, result, report);
  CheckLogits(result, vocab, expected, scope, report);
  CheckArgMax(result, vocab, expected, scope, report);
  CheckLogSumExp(result, vocab, expected, scope, report);
  CheckGreedy(result, vocab, expected, scope, report);
  if (!expected.routers.empty()) CheckRouting(result, model, expected, scope, report);
}

void CheckRoutingRule(const Model& model, const Expected& expected, Report& report) {
  const RoutingSpec& spec = model.spec.moe.routing;
  const auto top_k = static_cast<size_t>(spec.top_k);
  // Weights are quotients of sums of at most `experts` terms below 1, here and in torch: both off
  // by the roundings of exp, the sums and two divisions.
  const double bound = 2.0 * (static_cast<double>(spec.experts) + 4) / (1 << 24);
  std::vector<int32_t> ids(top_k);
  std::vector<float> weights(top_k);
  std::vector<float> scratch(static_cast<size_t>(2 * spec.experts));
  int wrong = 0;
  int tokens = 0;
  double worst = 0;
  for (const ExpectedRouter& router : expected.routers) {
    const std::vector<float> bias = CorrectionBias(model, router.layer);
    for (size_t t = 0; t < router.ids.size(); ++t, ++tokens) {
      RouteToken(spec, router.logits[t], bias, ids, weights, scratch);
      if (ids != router.ids[t]) ++wrong;
      for (size_t i = 0; i < top_k; ++i) {
        worst = std::max(worst, ErrorOf(weights[i], router.weights[t][i]));
      }
    }
  }
  report.Line(wrong == 0 && worst <= bound, "routing-rule",
              StrCat(tokens - wrong, " of ", tokens, " tokens equal, max |d weight| ", worst,
                     ", bound ", bound));
}

void CheckCuts(Executor& executor, const std::vector<int32_t>& prompt, Report& report) {
  const SequenceResult whole = RunAlone(executor, prompt);
  // Sizes around the block size of 16, odd and even, none a divisor of the prompt.
  report.Line(SameBits(whole, RunAlone(executor, prompt, {1, 7, 3, 16, 17, 2, 15})), "cut-chunks",
              "logits and experts bit-identical in chunks of 1 7 3 16 17 2 15");
  report.Line(SameBits(whole, RunAlone(executor, prompt, {1})), "cut-tokens",
              "logits and experts bit-identical token by token");
  std::vector<int32_t> reversed(prompt.rbegin(), prompt.rend());
  std::vector<int32_t> rotated = prompt;
  std::rotate(rotated.begin(), rotated.begin() + 1, rotated.end());
  const std::vector<SequenceResult> beside = RunTogether(
      executor, {{reversed, {1}}, {prompt, {5, 9}}, {rotated, {11}}, {prompt, {}}, {rotated, {1}}});
  report.Line(
      SameBits(whole, beside[1]) && SameBits(whole, beside[3]) && SameBits(beside[2], beside[4]),
      "cut-beside", "logits and experts bit-identical beside four other sequences");
}

void CheckSame(Executor& executor, Executor& other, const std::vector<int32_t>& prompt,
               const std::string& check, Report& report) {
  const std::vector<int64_t> chunks = {19, 1, 2};
  report.Line(SameBits(RunAlone(executor, prompt, chunks), RunAlone(other, prompt, chunks)), check,
              StrCat("logits and experts bit-identical: ", executor.info().name, " and ",
                     other.info().name));
}

void CheckGreedyCase(Executor& executor, Executor* exact, const ExpectedGreedy& expected,
                     const std::string& check, Report& report) {
  const int64_t vocab = executor.spec().vocab_size;
  const SequenceResult result = RunForced(executor, expected.prompt, expected.ids);
  const Scope scope = ScopeOf(executor, exact, expected.prompt, expected.ids, result, report);
  const auto first = static_cast<int64_t>(expected.prompt.size()) - 1;
  Choices choices(scope.bound);
  double worst = 0;
  double worst_error = 0;
  for (size_t i = 0; i < expected.ids.size(); ++i) {
    const int64_t position = first + static_cast<int64_t>(i);
    if (position >= scope.end) break;
    const std::span<const float> row = RowOf(result, position, vocab);
    choices.Add(row, expected.ids[i]);
    const double error = ErrorOf(MarginOf(row, expected.ids[i]), expected.margins[i]);
    worst = std::max(worst, error / (2 * scope.bound * LargestMagnitude(row) + kMarginRounding));
    worst_error = std::max(worst_error, error);
  }
  report.Line(choices.pass() && worst <= 1, check,
              StrCat(choices.Summary(), " (steps); margins off by ", worst_error, ", ", worst,
                     " of the bound"));
}

}  // namespace erne::golden
