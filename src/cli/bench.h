// `erne bench`: how fast a model runs here, and how fast it could.
#pragma once

#include <string>
#include <vector>

#include "cli/bench_model.h"

namespace erne {

// What a build with the server adds.
struct BenchDoors {
  OpenModel open;  // empty: folders alone
  // `erne bench serve`; null: this build has no server.
  int (*serve)(const std::vector<std::string>& arguments, const OpenModel& open) = nullptr;
};

// Returns the exit code: 0; 1 when the executor is wrong or something fails; 2 for the command
// line.
int RunBench(const std::vector<std::string>& arguments, const BenchDoors& doors);

}  // namespace erne
