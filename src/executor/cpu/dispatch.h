// Which instruction set runs: the best that this CPU has, unless it is named.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "executor/cpu/kernels.h"

namespace erne::cpu {

// The kernels of `isa` ("scalar", "avx2", "avx512", "avx512_vnni", "avx512_bf16", "amx"); when it is empty, of the environment's
// ERNE_CPU_ISA, else the best. InvalidArgument when the name is unknown or this CPU lacks the set.
Result<const Kernels*> SelectKernels(const std::string& isa);

// Every set that this CPU can run, slowest first.
std::vector<const Kernels*> SupportedKernels();

}  // namespace erne::cpu
