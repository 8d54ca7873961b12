// The comparisons of an executor with the committed expected values. Each prints one line:
//   PASS <model> <check> <what was measured, and its bound>
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "executor/executor.h"
#include "expected.h"
#include "model/model.h"

namespace erne::golden {

// Counts and prints results.
class Report {
 public:
  explicit Report(std::string model) : model_(std::move(model)) {}
  void Line(bool pass, const std::string& check, const std::string& detail);
  int checks() const { return checks_; }
  int failures() const { return failures_; }

 private:
  std::string model_;
  int checks_ = 0;
  int failures_ = 0;
};

// logits, argmax, logsumexp, greedy and, with experts, routing: see tolerance.h for the bounds.
// exact: an executor with float32 keys, values and activations, when `executor` keeps narrower
// ones; else null.
void CheckExpected(Executor& executor, Executor* exact, const Model& model,
                   const Expected& expected, Report& report);

// RouteToken on the golden router logits: ids in order, and weights. Needs no executor.
void CheckRoutingRule(const Model& model, const Expected& expected, Report& report);

// Bit-identical logits and experts however the prompt is cut and whatever runs beside it.
void CheckCuts(Executor& executor, const std::vector<int32_t>& prompt, Report& report);

// Bit-identical logits and experts from two executors on the same model (other thread counts).
void CheckSame(Executor& executor, Executor& other, const std::vector<int32_t>& prompt,
               const std::string& check, Report& report);

// Greedy ids and margins of one case of expected_greedy.json. exact: see CheckExpected.
void CheckGreedyCase(Executor& executor, Executor* exact, const ExpectedGreedy& expected,
                     const std::string& check, Report& report);

}  // namespace erne::golden
