#include "kv/block_pool.h"

#include <limits>

#include "base/check.h"
#include "base/strings.h"

namespace erne {

BlockPool::BlockPool(int64_t num_blocks) {
  ERNE_CHECK(num_blocks >= 0 && num_blocks <= std::numeric_limits<BlockId>::max())
      << num_blocks << " blocks";
  references_.assign(static_cast<size_t>(num_blocks), 0);
  // The top of the stack is block 0, so a fresh pool hands out 0, 1, 2, ...
  free_.reserve(static_cast<size_t>(num_blocks));
  for (int64_t block = num_blocks - 1; block >= 0; --block) {
    free_.push_back(static_cast<BlockId>(block));
  }
}

bool BlockPool::Allocate(int64_t count, std::vector<BlockId>& table) {
  ERNE_CHECK(count >= 0) << "Allocate(" << count << ")";
  if (count > num_free()) return false;
  for (int64_t i = 0; i < count; ++i) {
    const BlockId block = free_.back();
    free_.pop_back();
    references_[block] = 1;
    table.push_back(block);
  }
  return true;
}

void BlockPool::AddReference(BlockId block) {
  ERNE_CHECK(block >= 0 && block < num_blocks()) << "block " << block << " of " << num_blocks();
  ERNE_CHECK(references_[block] > 0) << "block " << block << " is free and cannot be shared";
  ++references_[block];
}

void BlockPool::Release(std::vector<BlockId>& table) {
  // From the back, so that the next sequence gets the same blocks in the same order.
  for (; !table.empty(); table.pop_back()) {
    const BlockId block = table.back();
    ERNE_CHECK(block >= 0 && block < num_blocks()) << "block " << block << " of " << num_blocks();
    ERNE_CHECK(references_[block] > 0) << "block " << block << " is released more often than held";
    if (--references_[block] == 0) free_.push_back(block);
  }
}

Status BlockPool::CheckIntegrity() const {
  std::vector<bool> is_free(references_.size(), false);
  for (const BlockId block : free_) {
    if (block < 0 || block >= num_blocks()) {
      return Internal(StrCat("free list holds block ", block, " of ", num_blocks()));
    }
    if (is_free[block]) return Internal(StrCat("block ", block, " is free twice"));
    is_free[block] = true;
  }
  for (int64_t block = 0; block < num_blocks(); ++block) {
    const int32_t references = references_[block];
    if (references < 0) {
      return Internal(StrCat("block ", block, " has ", references, " references"));
    }
    if (is_free[block] && references > 0) {
      return Internal(StrCat("block ", block, " is free and has ", references, " references"));
    }
    if (!is_free[block] && references == 0) {
      return Internal(StrCat("block ", block, " is lost: not free and not referenced"));
    }
  }
  return {};
}

}  // namespace erne
