// `erne bench serve`: the whole server under load.
#pragma once

#include <string>
#include <vector>

#include "cli/bench_model.h"

namespace erne {

// Returns the exit code, as of RunBench.
int RunBenchServe(const std::vector<std::string>& arguments, const OpenModel& open);

}  // namespace erne
