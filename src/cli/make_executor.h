// The one place that names concrete executors.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "cli/flags.h"
#include "executor/executor.h"

namespace erne {

// What `--executor` accepts: "reference", "cpu", "cuda".
const std::vector<std::string>& ExecutorNames();

// Declares --threads, the number that MakeExecutor takes.
Flag& AddThreadsFlag(FlagTable& flags, int64_t* target);

// The executor `name` on `model`. threads: 0 = every CPU that this process may use; more than a few
// for each of them are not started, and the log says so. Unimplemented
// when this build lacks it; else the errors of the executor's own factory.
Result<std::unique_ptr<Executor>> MakeExecutor(const std::string& name,
                                               std::shared_ptr<const Model> model,
                                               const ExecutorLimits& limits, int threads,
                                               const LoadProgress& progress = {});

// What `erne serve` would run `model` with on this machine unless it is told otherwise: name and
// types; the bytes are 0.
Result<ExecutorInfo> DescribeDefaultExecutor(const Model& model, KvDType kv_dtype, int threads);

}  // namespace erne
