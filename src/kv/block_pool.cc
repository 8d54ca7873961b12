#include "kv/block_pool.h"

#include <limits>

#include "base/check.h"
#include "base/strings.h"

namespace erne {

BlockPool::BlockPool(int64_t num_blocks) : num_free_(num_blocks) {
  ERNE_CHECK(num_blocks >= 0 && num_blocks < std::numeric_limits<BlockId>::max())
      << num_blocks << " blocks";
  nodes_.resize(static_cast<size_t>(num_blocks) + 1);
  // A ring through the head: a fresh pool hands out 0, 1, 2, ...
  for (BlockId block = 0; block <= num_blocks; ++block) {
    nodes_[block].next = block == num_blocks ? 0 : block + 1;
    nodes_[nodes_[block].next].previous = block;
  }
}

int32_t BlockPool::references(BlockId block) const {
  CheckRange(block);
  return nodes_[block].references;
}

void BlockPool::CheckRange(BlockId block) const {
  ERNE_CHECK(block >= 0 && block < num_blocks()) << "block " << block << " of " << num_blocks();
}

void BlockPool::Unlink(BlockId block) {
  Node& node = nodes_[block];
  nodes_[node.previous].next = node.next;
  nodes_[node.next].previous = node.previous;
  node.previous = node.next = kNotInList;
  --num_free_;
}

void BlockPool::LinkBehind(BlockId block, BlockId place) {
  Node& node = nodes_[block];
  node.previous = place;
  node.next = nodes_[place].next;
  nodes_[node.next].previous = block;
  nodes_[place].next = block;
  ++num_free_;
}

BlockId BlockPool::Take() {
  ERNE_CHECK(num_free_ > 0) << "all " << num_blocks() << " blocks are in use";
  const BlockId block = nodes_[head()].next;
  Share(block);
  return block;
}

void BlockPool::Share(BlockId block) {
  CheckRange(block);
  if (nodes_[block].references++ == 0) Unlink(block);
}

void BlockPool::Release(BlockId block, bool keep) {
  CheckRange(block);
  ERNE_CHECK(nodes_[block].references > 0)
      << "block " << block << " is released more often than held";
  if (--nodes_[block].references == 0) LinkBehind(block, keep ? nodes_[head()].previous : head());
}

Status BlockPool::CheckIntegrity() const {
  int64_t linked = 0;
  BlockId previous = head();
  for (BlockId block = nodes_[head()].next; block != head(); block = nodes_[block].next) {
    if (block < 0 || block > num_blocks()) {
      return Internal(StrCat("the free list holds block ", block, " of ", num_blocks()));
    }
    // Each link is checked against its counterpart, so the walk meets no block twice.
    if (nodes_[block].previous != previous) {
      return Internal(StrCat("the free list is broken between blocks ", previous, " and ", block));
    }
    if (nodes_[block].references != 0) {
      return Internal(
          StrCat("block ", block, " is free and has ", nodes_[block].references, " references"));
    }
    previous = block;
    ++linked;
  }
  int64_t held = 0;
  for (BlockId block = 0; block < num_blocks(); ++block) {
    const int32_t references = nodes_[block].references;
    if (references < 0) {
      return Internal(StrCat("block ", block, " has ", references, " references"));
    }
    if (references > 0) ++held;
  }
  if (linked != num_free_ || linked + held != num_blocks()) {
    return Internal(StrCat(linked, " blocks in the free list, ", num_free_, " counted, ", held,
                           " held, of ", num_blocks()));
  }
  return {};
}

}  // namespace erne
