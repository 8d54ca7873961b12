#include "text/bpe.h"

#include <algorithm>
#include <bit>
#include <functional>

#include "base/check.h"

namespace erne {
namespace {

// Finalizer of MurmurHash3: every bit of the key moves every bit of the slot.
uint64_t Mix(uint64_t x) {
  x ^= x >> 33;
  x *= 0xff51afd7ed558ccdULL;
  x ^= x >> 33;
  x *= 0xc4ceb9fe1a85ec53ULL;
  x ^= x >> 33;
  return x;
}

}  // namespace

// A symbol of the segment being merged; `rank` and `result` tell of its merge with the next one.
struct BpeMerges::Node {
  int32_t symbol;
  int32_t previous;  // index, -1 at the beginning
  int32_t next;      // index, -1 at the end
  uint32_t rank;     // kNoRank: no merge, or the node is gone
  int32_t result;
};

// Candidates are (rank << 32 | index of the left node), so that the smallest is the next one to do.
// An entry is out of date when its node's rank is another one by now; an entry whose rank still
// holds is right even if the pair has changed since, for it would have been pushed again with these
// same numbers.
struct BpeMerges::Scratch {
  std::vector<Node> nodes;
  std::vector<uint64_t> heap;
};

BpeMerges::BpeMerges(std::span<const BpeMerge> merges) {
  // Two pairs a merge at most, and the table at most half full.
  table_.resize(std::bit_ceil(std::max<size_t>(16, merges.size() * 4)));
  mask_ = table_.size() - 1;
  for (const BpeMerge& merge : merges) {
    ERNE_CHECK(merge.left >= 0 && merge.right >= 0 && merge.result >= 0 && merge.rank != kNoRank);
    Slot(Key(merge.left_end, merge.right_begin));
    Pair& pair = Slot(Key(merge.left, merge.right));
    if (merge.rank < pair.rank) {
      pair.rank = merge.rank;
      pair.result = merge.result;
    }
  }
}

BpeMerges::Pair& BpeMerges::Slot(uint64_t key) {
  for (uint64_t at = Mix(key) & mask_;; at = (at + 1) & mask_) {
    Pair& pair = table_[at];
    if (pair.key == kNoKey) pair.key = key;
    if (pair.key == key) return pair;
  }
}

const BpeMerges::Pair* BpeMerges::Find(int32_t left, int32_t right) const {
  if (left < 0 || right < 0) return nullptr;
  const uint64_t key = Key(left, right);
  for (uint64_t at = Mix(key) & mask_;; at = (at + 1) & mask_) {
    const Pair& pair = table_[at];
    if (pair.key == key) return &pair;
    if (pair.key == kNoKey) return nullptr;
  }
}

void BpeMerges::Apply(std::span<const int32_t> symbols, std::vector<int32_t>& out) const {
  ERNE_CHECK(symbols.size() < INT32_MAX) << "text of " << symbols.size() << " symbols";
  Scratch scratch;
  std::vector<Node>& nodes = scratch.nodes;
  for (size_t i = 0; i < symbols.size(); ++i) {
    const Pair* pair = i + 1 < symbols.size() ? Find(symbols[i], symbols[i + 1]) : nullptr;
    const auto at = static_cast<int32_t>(nodes.size());
    nodes.push_back({symbols[i], at - 1, pair != nullptr ? at + 1 : -1,
                     pair != nullptr ? pair->rank : kNoRank, pair != nullptr ? pair->result : -1});
    if (pair != nullptr) continue;  // the segment goes on
    if (nodes.size() == 1) {
      out.push_back(symbols[i]);
    } else {
      MergeSegment(scratch, out);
    }
    nodes.clear();
  }
}

// Looks up the merge of node `at` with its next one, and makes it a candidate.
void BpeMerges::Rate(Scratch& scratch, int32_t at) const {
  Node& node = scratch.nodes[at];
  const Pair* pair = node.next < 0 ? nullptr : Find(node.symbol, scratch.nodes[node.next].symbol);
  node.rank = pair != nullptr ? pair->rank : kNoRank;
  if (node.rank == kNoRank) return;
  node.result = pair->result;
  scratch.heap.push_back((static_cast<uint64_t>(node.rank) << 32) | static_cast<uint32_t>(at));
  std::push_heap(scratch.heap.begin(), scratch.heap.end(), std::greater<>());
}

void BpeMerges::MergeSegment(Scratch& scratch, std::vector<int32_t>& out) const {
  std::vector<Node>& nodes = scratch.nodes;
  std::vector<uint64_t>& heap = scratch.heap;
  heap.clear();
  for (size_t i = 0; i < nodes.size(); ++i) {
    if (nodes[i].rank != kNoRank) heap.push_back((static_cast<uint64_t>(nodes[i].rank) << 32) | i);
  }
  std::make_heap(heap.begin(), heap.end(), std::greater<>());
  while (!heap.empty()) {
    std::pop_heap(heap.begin(), heap.end(), std::greater<>());
    const uint64_t candidate = heap.back();
    heap.pop_back();
    const auto at = static_cast<int32_t>(candidate & UINT32_MAX);
    Node& node = nodes[at];
    if (node.rank != candidate >> 32) continue;
    Node& gone = nodes[node.next];
    gone.rank = kNoRank;
    node.symbol = node.result;
    node.next = gone.next;
    if (node.next >= 0) nodes[node.next].previous = at;
    Rate(scratch, at);
    if (node.previous >= 0) Rate(scratch, node.previous);
  }
  for (int32_t at = 0; at >= 0; at = nodes[at].next) out.push_back(nodes[at].symbol);
}

}  // namespace erne
