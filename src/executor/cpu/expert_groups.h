// The rows of a step sorted by expert, so that each expert's weights are read once.
#pragma once

#include <cstdint>
#include <span>

namespace erne::cpu {

// A slot is one (row, chosen expert) pair; slots of one expert are neighbours, in row order.
//   ids:    [rows * top_k], the experts chosen by each row, in [0, experts)
//   begin:  [experts + 1], expert e owns the slots [begin[e], begin[e + 1])
//   rows:   [rows * top_k], the row of each slot
//   slots:  [rows * top_k], the slot of each entry of ids
void GroupByExpert(std::span<const int32_t> ids, int64_t top_k, std::span<int32_t> begin,
                   std::span<int32_t> rows, std::span<int32_t> slots);

}  // namespace erne::cpu
