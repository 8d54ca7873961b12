// How the queries of a step are handed to the attention kernels (attention.h): what the host plans
// and the device reads.
#pragma once

#include <cstdint>

namespace erne::cuda {

inline constexpr int kSpanTokens = 64;
inline constexpr int kTileQueries = 16;
inline constexpr int kWalkTiles = 8;   // of a block: its warps
inline constexpr int kSplitWarps = 4;  // of a block, at most

// Some queries of one sequence. Queries of a kv head, rows times heads, are numbered together:
// number f is head f % group of row f / group.
struct QueryRange {
  int32_t first_row = 0;  // of the sequence in this step
  int32_t position = 0;   // of that row
  int32_t begin = 0;      // queries [begin, end), numbered from that row
  int32_t end = 0;
  int32_t table = 0;        // where its block table begins
  int32_t first_state = 0;  // split: of its spans, per kv head
};

// Spans of a context that ends with `position`.
inline int SpansOf(int64_t position) { return static_cast<int>(position / kSpanTokens) + 1; }

}  // namespace erne::cuda
