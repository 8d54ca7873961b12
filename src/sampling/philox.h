// Philox-4x32-10: a counter-based random number generator (Salmon, Moraes, Dror, Shaw: "Parallel
// random numbers: as easy as 1, 2, 3", SC 2011). It has no state: the output is a pure function of
// key and counter, so a draw can be named by what it is for instead of by how many draws came
// before it.
#pragma once

#include <array>
#include <cstdint>

namespace erne {

constexpr std::array<uint32_t, 4> Philox4x32(std::array<uint32_t, 4> counter,
                                             std::array<uint32_t, 2> key) {
  // Multipliers and Weyl increments of the paper, table 2 and section 3.3 (golden ratio and sqrt(3)
  // - 1, in 32 bits).
  constexpr uint64_t kMultiplier0 = 0xD2511F53;
  constexpr uint64_t kMultiplier1 = 0xCD9E8D57;
  constexpr uint32_t kWeyl0 = 0x9E3779B9;
  constexpr uint32_t kWeyl1 = 0xBB67AE85;
  constexpr int kRounds = 10;
  for (int round = 0; round < kRounds; ++round) {
    const uint64_t product0 = kMultiplier0 * counter[0];
    const uint64_t product1 = kMultiplier1 * counter[2];
    counter = {static_cast<uint32_t>(product1 >> 32) ^ counter[1] ^ key[0],
               static_cast<uint32_t>(product1),
               static_cast<uint32_t>(product0 >> 32) ^ counter[3] ^ key[1],
               static_cast<uint32_t>(product0)};
    key[0] += kWeyl0;
    key[1] += kWeyl1;
  }
  return counter;
}

// 64 uniform random bits for (seed, position): key = seed, counter = position.
constexpr uint64_t RandomBitsAt(uint64_t seed, uint64_t position) {
  const std::array<uint32_t, 4> bits =
      Philox4x32({static_cast<uint32_t>(position), static_cast<uint32_t>(position >> 32), 0, 0},
                 {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)});
  return (uint64_t{bits[1]} << 32) | bits[0];
}

}  // namespace erne
