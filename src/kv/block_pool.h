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
//
// A block that nobody refers to is free. Its content stays until somebody else takes it, and it may
// be taken up again for that content (Share): free blocks therefore stand in a list, the one that
// is to be given away next in front. Blocks whose content is of no use go to the front, the others
// to the back, so that what was used longest ago is lost first.
class BlockPool {
 public:
  explicit BlockPool(int64_t num_blocks);

  int64_t num_blocks() const { return static_cast<int64_t>(nodes_.size()) - 1; }
  int64_t num_free() const { return num_free_; }
  int64_t num_used() const { return num_blocks() - num_free(); }
  int32_t references(BlockId block) const;

  // Takes the free block at the front: one reference. CHECKs that there is one.
  BlockId Take();
  // One more reference to a block, used or free; a free one is taken up with what it holds.
  void Share(BlockId block);
  // Drops one reference. The last one frees the block: to the back of the list when its content is
  // worth keeping, else to the front.
  void Release(BlockId block, bool keep);

  // Every block is either in the list (once) or referenced: the invariant that tests and the idle
  // engine assert.
  Status CheckIntegrity() const;

 private:
  static constexpr BlockId kNotInList = -1;

  // A free block stands in a ring of free blocks and the head: behind the head is the front of the
  // list, before it the back.
  struct Node {
    int32_t references = 0;
    BlockId previous = kNotInList;
    BlockId next = kNotInList;
  };

  BlockId head() const { return static_cast<BlockId>(num_blocks()); }
  void CheckRange(BlockId block) const;
  void Unlink(BlockId block);
  void LinkBehind(BlockId block, BlockId place);

  std::vector<Node> nodes_;  // [num_blocks + 1]: the last one is the head
  int64_t num_free_ = 0;
};

}  // namespace erne
