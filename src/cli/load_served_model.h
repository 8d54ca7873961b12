// From the command line of `erne serve` to a model that answers.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "api/metrics.h"
#include "api/served_model.h"
#include "base/file_set.h"
#include "base/memory_ledger.h"
#include "base/status.h"
#include "cli/memory_plan.h"
#include "cli/serve_options.h"
#include "executor/executor.h"
#include "model/model.h"

namespace erne {

// The files of the model that the options name: a folder, or the embedded erne-mini. Errors say
// what was tried.
Result<std::shared_ptr<const FileSet>> OpenModelFiles(const ServeOptions& options);

// Names under which `files` are served.
std::vector<std::string> NamesOf(const FileSet& files, const ServeOptions& options);

// The memory that serving the model takes under these options, planned for what is free now.
Result<MemoryPlan> PlanMemory(const Model& model, const ServeOptions& options);

// Loads everything, takes all memory, and starts the engine. Logs the memory plan. What is planned
// is claimed in `ledger` before it is taken, for as long as the model lives; a model that comes to
// a ledger with others gets what they left, or ResourceExhausted with the numbers. `progress`
// covers the weights and the memory. With `metrics` the model is among them, and has an observer.
Result<std::shared_ptr<ServedModel>> LoadServedModel(std::shared_ptr<const FileSet> files,
                                                     const ServeOptions& options,
                                                     const LoadProgress& progress,
                                                     MemoryLedger& ledger = MemoryLedger::Process(),
                                                     Metrics* metrics = nullptr);

// Answers some requests (their id is "warm-up"): prompts up to a whole step, one sequence and
// several at once, sampled. So the first request finds everything touched and awake, and costs what
// the tenth costs.
Status WarmUp(const ServedModel& model, const ServeOptions& options);

// One line about the model: "ernie4_5_moe, 8 layers, 8 experts (top 2), awq int4 ...".
std::string Describe(const ServedModel& model);

}  // namespace erne
