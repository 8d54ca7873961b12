// The benchmarks of an executor alone: one sequence, and several side by side.
#pragma once

#include <string>
#include <vector>

#include "cli/bench.h"

namespace erne {

// `erne bench latency`: the speed of one sequence, prompt and answer.
int RunBenchLatency(const std::vector<std::string>& arguments, const BenchDoors& doors);

// `erne bench throughput`: several sequences side by side, without a server.
int RunBenchThroughput(const std::vector<std::string>& arguments, const BenchDoors& doors);

}  // namespace erne
