// What a benchmark runs: from its flags to a model and the executor's options.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/file_set.h"
#include "base/status.h"
#include "cli/flags.h"
#include "cli/make_executor.h"
#include "executor/cpu/cpu_executor.h"
#include "kv/kv_dtype.h"
#include "model/model.h"

namespace erne {

// The files of the model that a name means; a core build knows folders alone.
using OpenModel = std::function<Result<std::shared_ptr<const FileSet>>(const std::string& model)>;

struct BenchModelOptions {
  std::vector<std::string> model;  // at most one; none: random weights
  std::string shape;               // empty: the first that there is
  std::string dtype = "bf16";      // of random weights
  int64_t seed = 0;
  ThreadFlags threads;
  std::string isa;
  std::string kv_cache_dtype = "auto";
  PrecisionFlags precision;
};

// Declares them all. `options` outlives the table.
void AddBenchModelFlags(FlagTable& flags, BenchModelOptions& options);

struct BenchModel {
  std::string name;                      // "ernie-4.5-0.3b, random weights"
  std::shared_ptr<const FileSet> files;  // null: random weights
  std::shared_ptr<const Model> model;
  KvDType kv_dtype = KvDType::kF32;
  CpuExecutorOptions executor;
};

// `flags`: parsed. An error names its flag or file.
Result<BenchModel> MakeBenchModel(const FlagTable& flags, const BenchModelOptions& options,
                                  const OpenModel& open);

}  // namespace erne
