// Accounting of the paged KV cache: which blocks of `block_size` token positions belong to whom.
// Holds no tensor: block ids index memory that the executor owns.
#pragma once

#include <cstdint>
#include <vector>

#include "base/status.h"

namespace erne {

using BlockId = int32_t;

// Token positions in a block. 16 keeps waste below one block of 16 a sequence and matches vLLM's
// default.
inline constexpr int64_t kKvBlockSize = 16;

inline int64_t BlocksForTokens(int64_t tokens) {
  return (tokens + kKvBlockSize - 1) / kKvBlockSize;
}

// Owned and used by the engine's loop thread alone (no locks). Reference counted, so that sequences
// can share blocks.
class BlockPool {
 public:
  explicit BlockPool(int64_t num_blocks);

  int64_t num_blocks() const { return static_cast<int64_t>(references_.size()); }
  int64_t num_free() const { return static_cast<int64_t>(free_.size()); }
  int64_t num_used() const { return num_blocks() - num_free(); }

  // Appends `count` fresh blocks (one reference each) to `table`; false, with nothing changed, when
  // too few are free.
  bool Allocate(int64_t count, std::vector<BlockId>& table);
  void AddReference(BlockId block);
  // Drops one reference of each block and empties `table`.
  void Release(std::vector<BlockId>& table);

  // Every block is either free (once) or referenced: the invariant that tests and the idle engine
  // assert.
  Status CheckIntegrity() const;

 private:
  std::vector<int32_t> references_;  // [num_blocks]
  std::vector<BlockId> free_;  // a stack: recently freed blocks are reused first (warm in cache)
};

}  // namespace erne
