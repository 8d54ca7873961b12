#include "executor/cpu/dispatch.h"

#include <cstdlib>

#include "base/machine.h"
#include "base/strings.h"

namespace erne::cpu {
namespace {

struct InstructionSet {
  const char* name;
  const Kernels* kernels;  // null: not built for this architecture
  bool supported;
};

// Slowest first. The compiler's test asks CPUID, and the operating system whether it saves the
// registers.
std::vector<InstructionSet> InstructionSets() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                    __builtin_cpu_supports("f16c");
  const bool avx512 = avx2 && __builtin_cpu_supports("avx512f") &&
                      __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
                      __builtin_cpu_supports("avx512dq");
  const bool vnni = avx512 && __builtin_cpu_supports("avx512vnni");
  const bool bf16 = vnni && __builtin_cpu_supports("avx512bf16");
  return {{"scalar", &scalar::kKernels, true},
          {"avx2", &avx2::kKernels, avx2},
          {"avx512", &avx512::kKernels, avx512},
          {"avx512_vnni", &avx512_vnni::kKernels, vnni},
          {"avx512_bf16", &avx512_bf16::kKernels, bf16},
          {"amx", &amx::kKernels, bf16 && TakeAmxTiles()}};
#else
  return {{"scalar", &scalar::kKernels, true}, {"avx2", nullptr, false},
          {"avx512", nullptr, false},          {"avx512_vnni", nullptr, false},
          {"avx512_bf16", nullptr, false},     {"amx", nullptr, false}};
#endif
}

}  // namespace

Result<const Kernels*> SelectKernels(const std::string& isa) {
  std::string name = isa;
  std::string source = "the instruction set";
  if (name.empty()) {
    if (const char* forced = std::getenv("ERNE_CPU_ISA"); forced != nullptr) {
      name = forced;
      source = "ERNE_CPU_ISA";
    }
  }
  const Kernels* best = nullptr;
  for (const InstructionSet& set : InstructionSets()) {
    if (set.supported) best = set.kernels;
    if (set.name != name) continue;
    if (!set.supported)
      return InvalidArgument(StrCat(source, " is \"", name, "\", which this CPU does not have"));
    return set.kernels;
  }
  if (!name.empty()) {
    return InvalidArgument(
        StrCat(source, " is \"", name,
               "\"; known are scalar, avx2, avx512, avx512_vnni, avx512_bf16, amx"));
  }
  return best;
}

std::vector<const Kernels*> SupportedKernels() {
  std::vector<const Kernels*> kernels;
  for (const InstructionSet& set : InstructionSets()) {
    if (set.supported) kernels.push_back(set.kernels);
  }
  return kernels;
}

}  // namespace erne::cpu
