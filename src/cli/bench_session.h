// What the benchmarks of one executor share: the model, the executor on it, the proof that it
// computes what the reference executor does, the roof, and how results are told.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/status.h"
#include "bench/agreement.h"
#include "bench/roof.h"
#include "bench/timing.h"
#include "bench/work.h"
#include "cli/bench_model.h"
#include "cli/flags.h"
#include "cli/output_file.h"
#include "executor/executor.h"

namespace erne {

struct BenchOptions {
  BenchModelOptions model;
  int64_t turns = 5;
  int64_t verify = 8;  // tokens compared with the reference executor
  std::string json;    // file; empty: none
};

// Declares them all.
void AddBenchFlags(FlagTable& flags, BenchOptions& options);

// Numbers of a list flag, each in [low, high]; an error names the flag and the text.
Result<std::vector<int64_t>> ParseNumbers(const std::string& flag,
                                          const std::vector<std::string>& texts, int64_t low,
                                          int64_t high);

// One run of a benchmark, from its beginning to what it prints.
class BenchSession {
 public:
  // Makes the output file, the model and the executor, and compares it with the reference
  // executor; prints what it finds. Afterwards the executor alone holds weights.
  // limits: of the executor; the type of keys and values and what the comparison needs are filled
  // in.
  static Result<std::unique_ptr<BenchSession>> Start(std::string command, const FlagTable& flags,
                                                     const BenchOptions& options,
                                                     const OpenModel& open, ExecutorLimits limits);

  // What a benchmark tells beside the table, once all is measured.
  struct More {
    std::string text;
    std::string name;  // of the member of the JSON object
    Json json;
  };

  // Runs each case once, so that all is touched, and notes the memory that this took; then times
  // them beside the roof. Prints the table, and what `more` (may be empty) adds, and writes the
  // file.
  Status Time(std::vector<bench::Case> cases, const std::function<More()>& more = {});

  Executor& executor() { return *executor_; }
  // For those who run it elsewhere: from then on there is no executor() any more.
  std::unique_ptr<Executor> TakeExecutor() { return std::move(executor_); }
  // Of the model; null: its weights are random.
  const std::shared_ptr<const FileSet>& files() const { return files_; }
  const bench::ModelWork& work() const { return *work_; }
  int64_t seed() const { return seed_; }

 private:
  BenchSession() = default;

  // Against the reference executor on `weights`: the model as the executor rounds it.
  Status Verify(const BenchModel& made, const std::shared_ptr<const Model>& weights,
                int64_t tokens);
  Status VerifyFirstExperts(const BenchModel& made, const std::shared_ptr<const Model>& weights,
                            const ExecutorLimits& limits, std::span<const int32_t> tokens);
  Json Report(const std::vector<bench::Case>& cases) const;

  std::string command_;
  std::string model_name_;
  std::string precision_;
  int64_t turns_ = 0;
  int64_t seed_ = 0;
  int threads_ = 0;
  std::unique_ptr<OutputFile> output_;
  std::shared_ptr<const FileSet> files_;
  std::unique_ptr<Executor> executor_;
  ExecutorInfo info_;
  std::unique_ptr<bench::ModelWork> work_;
  bench::ArithmeticRoof arithmetic_;
  bench::Agreement agreement_;
  double allowed_error_ = 0;
  std::optional<bench::Agreement> first_experts_;  // where routers may tip: see VerifyFirstExperts
  double allowed_first_error_ = 0;
  uint64_t loading_peak_ = 0;  // bytes; 0: the weights were drawn
  uint64_t running_peak_ = 0;
  std::unique_ptr<bench::RoofMeter> meter_;
  bench::Roof roof_;
};

}  // namespace erne
