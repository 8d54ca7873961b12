// One run: clients of one or several kinds against a server, all on one thread
// but the one that watches /health.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "load/options.h"
#include "load/prompts.h"
#include "load/report.h"

namespace erne::load {

// What is asked of the server before anything is measured.
struct Target {
  std::string model;
  PromptLength length;
};
Result<Target> FindTarget(const LoadOptions& options);

// All runs that the options ask for, one after the other.
std::vector<RunReport> RunLoad(const LoadOptions& options, const Target& target);

}  // namespace erne::load
