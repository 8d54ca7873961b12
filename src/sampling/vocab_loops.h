// The loops over a whole row of logits: a table of functions, filled once per instruction set from
// one source (vocab_loops.inc), picked at run time. What they compute is the same on each, bit for
// bit: floats and doubles are rounded alike by every instruction set, nothing is contracted
// (ErneBuild.cmake), and the sums are of integers.
//
// This header is read by sources compiled for different instruction sets: it defines no function,
// and those sources include nothing of the standard library but <cstdint> and <cstddef>, so that no
// inline function compiled for AVX can replace the one that the rest of the program calls.
#pragma once

#include <cstddef>
#include <cstdint>

namespace erne::sampling {

// Logits that are weighed at a time: their weights stay in the first-level cache.
inline constexpr size_t kWeighed = 512;

// From logits to weights: exp((logit - max) * inverse).
struct WeightRule {
  double max = 0;      // the largest logit
  double inverse = 0;  // 1 / temperature: in double, no positive float overflows
};

struct VocabLoops {
  const char* name = "";
  // The largest value. `*valid`: none is a NaN or plus infinity; else the result means nothing.
  float (*max)(const float* values, size_t count, bool* valid) = nullptr;
  // The first place of the largest value.
  size_t (*find)(const float* values, size_t count, float largest) = nullptr;
  // Weights of up to kWeighed logits; returns their sum. Minus infinity weighs nothing.
  uint64_t (*weigh)(const float* logits, size_t count, const WeightRule& rule,
                    uint64_t* weights) = nullptr;
  // base + the place of each value that is at least `bar`, rising. out: room for all of them, and
  // one more. Returns how many there are.
  size_t (*at_least)(const float* values, size_t count, float bar, int32_t base,
                     int32_t* out) = nullptr;
};

// The best set that this CPU has.
const VocabLoops& BestVocabLoops();
// All that it has, the portable one first. Returns how many there are. sets: [kMaxLoopSets]
inline constexpr size_t kMaxLoopSets = 3;
size_t SupportedVocabLoops(const VocabLoops** sets);

namespace portable {
extern const VocabLoops kLoops;
}
// They exist where the target architecture has the instruction set.
namespace avx2 {
extern const VocabLoops kLoops;
}
namespace avx512 {
extern const VocabLoops kLoops;
}

}  // namespace erne::sampling
