#include "kv/prefix_cache.h"

#include <algorithm>
#include <bit>

#include "base/check.h"
#include "base/strings.h"
#include "kv/siphash.h"

namespace erne {
namespace {

// Salts are hashed under another key than blocks, so that no salt can pass for a block.
constexpr uint64_t kSaltDomain = 0x73616c74;

template <typename T>
uint8_t* AppendLittleEndian(T value, uint8_t* out) {
  for (size_t i = 0; i < sizeof(T); ++i) *out++ = static_cast<uint8_t>(value >> (8 * i));
  return out;
}

}  // namespace

PrefixCache::PrefixCache(int64_t num_blocks, std::array<uint64_t, 2> secret) : secret_(secret) {
  ERNE_CHECK(num_blocks >= 0) << num_blocks << " blocks";
  entries_.resize(static_cast<size_t>(num_blocks));
  // Never more than half full, so that there is always an empty slot and a search is short.
  slots_.assign(std::bit_ceil(2 * static_cast<size_t>(num_blocks) + 1), kNone);
}

PrefixKey PrefixCache::Root(std::string_view salt) const {
  const std::span bytes(reinterpret_cast<const uint8_t*>(salt.data()), salt.size());
  const auto [low, high] = SipHash128({secret_[0] ^ kSaltDomain, secret_[1]}, bytes);
  return {low, high};
}

PrefixKey PrefixCache::Next(const PrefixKey& parent, std::span<const int32_t> tokens) const {
  ERNE_CHECK(tokens.size() == kKvBlockSize) << tokens.size() << " tokens";
  std::array<uint8_t, sizeof(PrefixKey) + kKvBlockSize * sizeof(int32_t)> bytes;
  uint8_t* out = AppendLittleEndian(parent.low, bytes.data());
  out = AppendLittleEndian(parent.high, out);
  for (const int32_t token : tokens) out = AppendLittleEndian(static_cast<uint32_t>(token), out);
  const auto [low, high] = SipHash128(secret_, bytes);
  return {low, high};
}

size_t PrefixCache::SlotOf(const PrefixKey& key) const {
  size_t slot = Home(key);
  while (slots_[slot] != kNone && entries_[slots_[slot]].key != key) slot = (slot + 1) & Mask();
  return slot;
}

std::optional<BlockId> PrefixCache::Find(const PrefixKey& key, const PrefixKey& parent,
                                         std::span<const int32_t> tokens) const {
  ERNE_CHECK(tokens.size() == kKvBlockSize) << tokens.size() << " tokens";
  const BlockId block = slots_[SlotOf(key)];
  if (block == kNone) return std::nullopt;
  const Entry& entry = entries_[block];
  if (entry.parent != parent || !std::equal(tokens.begin(), tokens.end(), entry.tokens.begin())) {
    return std::nullopt;
  }
  return block;
}

const PrefixCache::Entry& PrefixCache::At(BlockId block) const {
  ERNE_CHECK(block >= 0 && block < num_blocks()) << "block " << block << " of " << num_blocks();
  return entries_[block];
}

bool PrefixCache::Has(BlockId block) const { return At(block).used; }

bool PrefixCache::Insert(BlockId block, const PrefixKey& key, const PrefixKey& parent,
                         std::span<const int32_t> tokens) {
  ERNE_CHECK(tokens.size() == kKvBlockSize) << tokens.size() << " tokens";
  ERNE_CHECK(!Has(block)) << "block " << block << " has an entry";
  const size_t slot = SlotOf(key);
  if (slots_[slot] != kNone) return false;
  slots_[slot] = block;
  Entry& entry = entries_[block];
  entry.key = key;
  entry.parent = parent;
  std::copy(tokens.begin(), tokens.end(), entry.tokens.begin());
  entry.used = true;
  ++size_;
  return true;
}

void PrefixCache::Erase(BlockId block) {
  if (!Has(block)) return;
  size_t hole = SlotOf(entries_[block].key);
  // Closes the hole (Knuth, TAOCP 3, 6.4, algorithm R): of the entries behind it, up to the next
  // empty slot, each that a search from its home would not reach past the hole moves into it.
  for (size_t slot = (hole + 1) & Mask(); slots_[slot] != kNone; slot = (slot + 1) & Mask()) {
    const size_t home = Home(entries_[slots_[slot]].key);
    if (((slot - home) & Mask()) < ((slot - hole) & Mask())) continue;
    slots_[hole] = slots_[slot];
    hole = slot;
  }
  slots_[hole] = kNone;
  entries_[block].used = false;
  --size_;
}

Status PrefixCache::CheckIntegrity() const {
  int64_t used = 0;
  for (BlockId block = 0; block < num_blocks(); ++block) {
    const Entry& entry = entries_[block];
    if (!entry.used) continue;
    ++used;
    if (slots_[SlotOf(entry.key)] != block) {
      return Internal(StrCat("the prefix cache does not find the entry of block ", block));
    }
  }
  int64_t filled = 0;
  for (const BlockId block : slots_) {
    if (block == kNone) continue;
    ++filled;
    if (block < 0 || block >= num_blocks() || !entries_[block].used) {
      return Internal(StrCat("the prefix cache lists block ", block, ", which has no entry"));
    }
  }
  if (used != size_ || filled != size_) {
    return Internal(StrCat("the prefix cache counts ", size_, " entries: there are ", used, ", ",
                           filled, " of them listed"));
  }
  return {};
}

}  // namespace erne
