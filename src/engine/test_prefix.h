// For tests: a hash that stands for all tokens of a sequence up to one of them.
#pragma once

#include <cstdint>

namespace erne {

// The finaliser of SplitMix64 (Steele, Lea, Flood, OOPSLA 2014).
inline uint64_t Mix(uint64_t x) {
  x += 0x9E3779B97F4A7C15;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EB;
  return x ^ (x >> 31);
}

inline uint64_t ExtendPrefix(uint64_t prefix, int32_t token) {
  return Mix(prefix ^ Mix(static_cast<uint64_t>(token) + 1));
}

}  // namespace erne
