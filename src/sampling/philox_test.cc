#include "sampling/philox.h"

#include <array>

#include <gtest/gtest.h>

namespace erne {
namespace {

using Words4 = std::array<uint32_t, 4>;

// The known-answer vectors published with the paper's library (Random123, kat_vectors, philox4x32
// with 10 rounds).
TEST(Philox, KnownAnswers) {
  EXPECT_EQ(Philox4x32({0, 0, 0, 0}, {0, 0}),
            (Words4{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(Philox4x32({0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, {0xffffffff, 0xffffffff}),
            (Words4{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(Philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (Words4{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Philox, EveryBitOfSeedAndPositionCounts) {
  const uint64_t base = RandomBitsAt(7, 9);
  EXPECT_EQ(base, RandomBitsAt(7, 9));
  for (int bit = 0; bit < 64; ++bit) {
    EXPECT_NE(base, RandomBitsAt(7 ^ (uint64_t{1} << bit), 9)) << bit;
    EXPECT_NE(base, RandomBitsAt(7, 9 ^ (uint64_t{1} << bit))) << bit;
  }
}

}  // namespace
}  // namespace erne
