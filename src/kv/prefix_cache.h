// Which blocks hold the keys and values of which tokens, so that a prompt that begins like an
// earlier one does not compute that beginning again.
//
// The key of a block is a hash over the key of the block before it and its own kKvBlockSize tokens,
// so it stands for everything from the start of the sequence. The hash is SipHash-2-4 with 128 bits
// (Aumasson & Bernstein 2012) under a random key of the process: nobody outside can construct two
// prompts that collide, and guess from timing only whether a prompt of their own salt was there. A
// hit compares the tokens and the parent's key as well.
//
// The cache owns no block: a block whose content it knows may be in use or free (BlockPool keeps
// the order in which free ones are given away). Who gives a block another content says so (Erase).
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "kv/block_pool.h"

namespace erne {

struct PrefixKey {
  uint64_t low = 0;
  uint64_t high = 0;
  bool operator==(const PrefixKey&) const = default;
};

// Owned and used by the engine's loop thread alone, but for Root. Allocates nothing after
// construction: an open-addressing table of at least twice as many slots as blocks.
class PrefixCache {
 public:
  // `secret`: the hash key.
  PrefixCache(int64_t num_blocks, std::array<uint64_t, 2> secret);

  // Where the chain of a sequence with that salt begins. Thread-safe.
  PrefixKey Root(std::string_view salt) const;
  // The key of a full block behind `parent`. tokens: [kKvBlockSize]
  PrefixKey Next(const PrefixKey& parent, std::span<const int32_t> tokens) const;

  // The block with that content; none when there is none (or, beyond all odds, another content has
  // that key). tokens: [kKvBlockSize]
  std::optional<BlockId> Find(const PrefixKey& key, const PrefixKey& parent,
                              std::span<const int32_t> tokens) const;
  // `block` holds that content from now on. False, and nothing changes, when another block has
  // that key already. CHECKs that `block` has no entry.
  bool Insert(BlockId block, const PrefixKey& key, const PrefixKey& parent,
              std::span<const int32_t> tokens);
  // `block` gets another content. Nothing happens when it has no entry.
  void Erase(BlockId block);
  bool Has(BlockId block) const;

  int64_t size() const { return size_; }
  // Table and entries agree.
  Status CheckIntegrity() const;

 private:
  static constexpr BlockId kNone = -1;

  // What a block holds.
  struct Entry {
    PrefixKey key;
    PrefixKey parent;
    std::array<int32_t, kKvBlockSize> tokens = {};
    bool used = false;
  };

  int64_t num_blocks() const { return static_cast<int64_t>(entries_.size()); }
  const Entry& At(BlockId block) const;
  size_t Mask() const { return slots_.size() - 1; }
  // Where the search for a key begins: the hash is as good as random.
  size_t Home(const PrefixKey& key) const { return static_cast<size_t>(key.low) & Mask(); }
  // The slot of the entry with that key, else the empty one where it would go.
  size_t SlotOf(const PrefixKey& key) const;

  std::array<uint64_t, 2> secret_;
  std::vector<Entry> entries_;  // [num_blocks]
  std::vector<BlockId> slots_;  // a power of two, linear probing
  int64_t size_ = 0;
};

}  // namespace erne
