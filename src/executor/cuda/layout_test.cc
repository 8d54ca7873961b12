#include "executor/cuda/layout.h"

#include <cstdint>
#include <vector>

#include <gtest/gtest.h>

#include "kv/block_pool.h"

namespace erne::cuda {
namespace {

static_assert(kBlockTokens == kKvBlockSize);

// Where mma.m16n8k16 wants element (row, k) of its A operand: PTX ISA, "Matrix fragments for
// mma.m16n8k16". {lane, register, half}
struct Fragment {
  int lane, reg, half;
};
Fragment FragmentOfA(int row, int k) {
  return {row % 8 * 4 + k % 8 / 2, row / 8 + k / 8 * 2, k % 2};
}

// The input that sits at k of an instruction, as layout.h says: lanes 4 r + t own 8 t .. 8 t + 7.
int InputAt(int instruction, int k) {
  const int t = k % 8 / 2;
  return 8 * t + instruction * 4 + k / 8 * 2 + k % 2;
}

TEST(LayoutTest, UnitsAreInTheOrderOfTheInstructionsOperand) {
  for (int instruction = 0; instruction < 2; ++instruction) {
    for (int row = 0; row < 16; ++row) {
      for (int k = 0; k < 16; ++k) {
        const Fragment at = FragmentOfA(row, k);
        EXPECT_EQ(FragmentIndex(row, InputAt(instruction, k)),
                  instruction * 256 + at.lane * 8 + at.reg * 2 + at.half)
            << "row " << row << ", k " << k;
      }
    }
  }
}

TEST(LayoutTest, NibblesUnpackIntoTheSameOrder) {
  for (int instruction = 0; instruction < 4; ++instruction) {
    for (int row = 0; row < 16; ++row) {
      for (int k = 0; k < 16; ++k) {
        const Fragment at = FragmentOfA(row, k);
        const int input = instruction / 2 * 32 + InputAt(instruction % 2, k);
        // (word >> 4 reg) & 0x000F000F: the low half of a register is nibble reg, the high reg + 4.
        EXPECT_EQ(NibbleIndex(row, input), at.lane * 32 + instruction * 8 + at.reg + 4 * at.half)
            << "row " << row << ", input " << input;
      }
    }
  }
}

void ExpectPermutation(RowOrder order, int rows, int head_dim) {
  std::vector<int> seen(static_cast<size_t>(rows));
  for (int row = 0; row < rows; ++row) {
    const int64_t packed = PackedRow(order, row, head_dim);
    ASSERT_GE(packed, 0);
    ASSERT_LT(packed, rows);
    EXPECT_EQ(seen[static_cast<size_t>(packed)]++, 0) << packed;
  }
}

TEST(LayoutTest, RopePairsAreEightRowsApart) {
  for (const int head_dim : {16, 32, 64, 128}) {
    ExpectPermutation(RowOrder::kInterleavedPairs, 3 * head_dim, head_dim);
    ExpectPermutation(RowOrder::kHalfPairs, 3 * head_dim, head_dim);
    for (int head = 0; head < 3; ++head) {
      for (int pair = 0; pair < head_dim / 2; ++pair) {
        const int64_t base = head * head_dim;
        const int64_t packed = base + pair / 8 * 16 + pair % 8;
        EXPECT_EQ(PackedRow(RowOrder::kInterleavedPairs, base + 2 * pair, head_dim), packed);
        EXPECT_EQ(PackedRow(RowOrder::kInterleavedPairs, base + 2 * pair + 1, head_dim),
                  packed + 8);
        EXPECT_EQ(PackedRow(RowOrder::kHalfPairs, base + pair, head_dim), packed);
        EXPECT_EQ(PackedRow(RowOrder::kHalfPairs, base + pair + head_dim / 2, head_dim),
                  packed + 8);
      }
    }
  }
}

TEST(LayoutTest, GateAndUpOfAnOutputAreEightRowsApart) {
  std::vector<int> seen(2 * 40);
  for (int row = 0; row < 40; ++row) {
    const int64_t gate = PackedRow(RowOrder::kGate, row, 0);
    EXPECT_EQ(PackedRow(RowOrder::kUp, row, 0), gate + 8);
    EXPECT_EQ(gate / 16 * 8 + gate % 16, row) << "the output that the kernels write";
    ++seen[static_cast<size_t>(gate)];
    ++seen[static_cast<size_t>(gate + 8)];
  }
  EXPECT_EQ(seen, std::vector<int>(2 * 40, 1));
}

TEST(LayoutTest, ValuesAreInTheOrderOfAnOperand) {
  constexpr int kDim = 64;
  std::vector<int> seen(kDim * kBlockTokens);
  for (int dim = 0; dim < kDim; ++dim) {
    for (int position = 0; position < kBlockTokens; ++position) {
      ++seen[static_cast<size_t>(ValueIndex(dim, position))];
      // Lane 4 n + t reads the uint4 4 n + t of 16 dimensions: dimensions 2 n and 2 n + 1,
      // positions 4 t .. 4 t + 3.
      const int lane = dim % 16 / 2 * 4 + position / 4;
      EXPECT_EQ(ValueIndex(dim, position) / 8, dim / 16 * 32 + lane);
    }
  }
  EXPECT_EQ(seen, std::vector<int>(kDim * kBlockTokens, 1));
}

TEST(LayoutTest, SlicesCoverAllUnits) {
  for (const int units : {1, 2, 7, 8, 32, 33, 96}) {
    EXPECT_EQ(SliceBegin(units, 0), 0);
    EXPECT_EQ(SliceBegin(units, kSlices), units);
    for (int s = 0; s < kSlices; ++s) EXPECT_LE(SliceBegin(units, s), SliceBegin(units, s + 1));
  }
}

}  // namespace
}  // namespace erne::cuda
