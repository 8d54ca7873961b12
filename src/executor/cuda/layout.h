// Where things lie in the memory of the device: one place that packing, kernels and tests read.
//
// Packed weights. The outputs of a matrix are cut into tiles of 16, a tile into units along its
// inputs, and within a unit the weights lie in the order in which the lanes of a warp hold the A
// operand of mma.m16n8k16: a lane loads its part with 16-byte accesses that are contiguous over the
// warp, and nothing is shuffled afterwards. The B operand (activations, row-major) is to be read in
// 16-byte pieces too, so the inputs are taken in another order than the instruction's own: of 32
// inputs, the lanes 4r + t own the piece 8t .. 8t + 7, two instructions long:
//
//   instruction 0: (k 2t, 2t + 1) <- inputs 8t + 0, 1    (k 8 + 2t, 9 + 2t) <- inputs 8t + 2, 3
//   instruction 1: (k 2t, 2t + 1) <- inputs 8t + 4, 5    (k 8 + 2t, 9 + 2t) <- inputs 8t + 6, 7
//
// A sum does not mind the order of its terms as long as it is always the same one.
//
//   bf16, f16  unit = 16 outputs x 32 inputs, 1024 bytes: [2 instructions][32 lanes][16 bytes]
//   int4       unit = 16 outputs x 64 inputs: [32 lanes][4 instructions] words of 8 nibbles, then
//              one or two sets (a set serves 64 or 32 inputs) of 16 float scales and 16 halves
//              1024 + zero. Nibble i of a word is the low half of register i, nibble i + 4 the high
//              one, so that (word >> 4 i) & 0x000F000F are the two halves of register i.
//   f32        plain rows, [outputs][inputs], for scalar fused multiply-adds
//
// Inputs are padded with zero weights to whole units; the rows of activations are padded to 64
// zeros alike.
//
// Order of outputs. Rows r and r + 8 of a tile end up in the same lane. What belongs together is
// put there: the two halves of a rope pair, or gate and up of the same output (RowOrder).
//
// KV cache, 2-byte types. A block of 16 positions of one kv head is K [16][dim], then V in the
// order of a B operand: the uint4 number (d / 2) * 4 + p / 4 holds positions p .. p + 3 of
// dimension d (even), then of d + 1. float32 keeps K [16][dim] and V [16][dim].
#pragma once

#include <cstdint>

#include "base/host_device.h"
#include "kv/kv_dtype.h"

namespace erne::cuda {

enum class WeightKind : uint8_t { kF32, kBF16, kF16, kInt4 };

// What a product reads and so what whoever feeds it writes. Narrow ones are rounded to nearest; f16
// saturates.
enum class ActivationType : uint8_t { kF32, kBF16, kF16 };

constexpr ActivationType ActivationOf(WeightKind kind) {
  if (kind == WeightKind::kF32) return ActivationType::kF32;
  return kind == WeightKind::kBF16 ? ActivationType::kBF16 : ActivationType::kF16;
}

inline constexpr int kTileRows = 16;
inline constexpr int kActivationPad = 64;  // rows of activations are padded to so many elements
// A product's inputs are cut into so many slices, each added up by itself and then in order. Eight:
// the warps of a block that share a tile when there are few rows.
inline constexpr int kSlices = 8;

ERNE_HD constexpr int64_t RoundUpTo(int64_t value, int64_t step) {
  return (value + step - 1) / step * step;
}

// Inputs of a unit.
ERNE_HD constexpr int UnitInputs(WeightKind kind) { return kind == WeightKind::kInt4 ? 64 : 32; }
// sets: of scales in a unit, for int4.
ERNE_HD constexpr int UnitBytes(WeightKind kind, int sets) {
  if (kind == WeightKind::kF32) return kTileRows * 32 * 4;
  return kind == WeightKind::kInt4 ? 512 + 96 * sets : kTileRows * 32 * 2;
}
// First unit of a slice; slice kSlices ends the last one.
ERNE_HD constexpr int SliceBegin(int units, int slice) { return units * slice / kSlices; }

// 2-byte element of a unit: row in [0, 16), input in [0, 32).
ERNE_HD constexpr int FragmentIndex(int row, int input) {
  const int lane = row % 8 * 4 + input / 8;
  const int instruction = input % 8 / 4;
  const int reg = input % 4 / 2 * 2 + row / 8;
  return instruction * 256 + lane * 8 + reg * 2 + input % 2;
}

// Nibble of an int4 unit, counted from its first byte's low one: row in [0, 16), input in [0, 64).
ERNE_HD constexpr int NibbleIndex(int row, int input) {
  const int lane = row % 8 * 4 + input % 32 / 8;
  const int instruction = input / 32 * 2 + input % 8 / 4;
  const int reg = input % 4 / 2 * 2 + row / 8;
  return lane * 32 + instruction * 8 + reg + input % 2 * 4;
}

// How the rows of a checkpoint's matrix are spread over tiles.
enum class RowOrder : uint8_t {
  kPlain,
  kGate,  // with kUp: 8 rows of one above 8 rows of the other
  kUp,
  kInterleavedPairs,  // rope pairs (2i, 2i + 1) of each head of head_dim rows
  kHalfPairs,         // rope pairs (i, i + head_dim / 2)
};

ERNE_HD constexpr int64_t PackedRow(RowOrder order, int64_t row, int head_dim) {
  switch (order) {
    case RowOrder::kPlain:
      return row;
    case RowOrder::kGate:
      return row / 8 * 16 + row % 8;
    case RowOrder::kUp:
      return row / 8 * 16 + 8 + row % 8;
    case RowOrder::kInterleavedPairs:
    case RowOrder::kHalfPairs: {
      const int64_t d = row % head_dim;
      const bool interleaved = order == RowOrder::kInterleavedPairs;
      const int64_t pair = interleaved ? d / 2 : d % (head_dim / 2);
      const int64_t second = interleaved ? d % 2 : d / (head_dim / 2);
      return row - d + pair / 8 * 16 + second * 8 + pair % 8;
    }
  }
  return row;
}

inline constexpr int kBlockTokens = 16;  // == kKvBlockSize

// Bytes of one kv head in one block. dim: padded (PaddedHeadDim).
ERNE_HD constexpr int64_t KvHeadBytes(KvDType dtype, int dim) {
  return int64_t{2} * kBlockTokens * dim * (dtype == KvDType::kF32 ? 4 : 2);
}
// 2-byte element of V within its half of a block.
ERNE_HD constexpr int ValueIndex(int dim, int position) {
  return (dim / 2 * 4 + position / 4) * 8 + dim % 2 * 4 + position % 4;
}

// The attention kernels exist for these widths; narrower heads are padded with zeros.
ERNE_HD constexpr int PaddedHeadDim(KvDType dtype, int head_dim) {
  if (dtype == KvDType::kF32) return head_dim;
  return head_dim <= 32 ? 32 : head_dim <= 64 ? 64 : 128;
}
inline constexpr int kMaxHeadDim = 128;

}  // namespace erne::cuda
