// `erne bench kernels`: each stage of a step by itself.
#pragma once

#include <string>
#include <vector>

#include "cli/bench.h"

namespace erne {

int RunBenchKernels(const std::vector<std::string>& arguments, const BenchDoors& doors);

}  // namespace erne
