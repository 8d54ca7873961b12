#include "sampling/vocab_loops.h"

namespace erne::sampling {

size_t SupportedVocabLoops(const VocabLoops** sets) {
  size_t count = 0;
  sets[count++] = &portable::kLoops;
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx2")) sets[count++] = &avx2::kLoops;
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq")) {
    sets[count++] = &avx512::kLoops;
  }
#endif
  return count;
}

const VocabLoops& BestVocabLoops() {
  const VocabLoops* sets[kMaxLoopSets];
  const size_t count = SupportedVocabLoops(sets);
  return *sets[count - 1];
}

}  // namespace erne::sampling
