// Byte-pair merging, the heart of both kinds of tokenizer file.
//
// A text is a row of symbols (characters or bytes at first). As long as some neighbours may merge,
// the pair with the lowest rank is replaced by its result; of several places with that rank, the
// leftmost comes first. SentencePiece says the same with scores (highest first), Hugging Face with
// the position in a list of merges.
//
// Cost: symbols are a doubly linked list and candidates sit in a heap, so n symbols take O(n log n)
// whatever the text (a megabyte of one letter included). Before that, the row is cut wherever two
// neighbours stand side by side in no result of any merge: nothing can ever merge across such a
// place, so each part is worked on alone, which gives the same answer from a few symbols in the
// cache instead of a heap as long as the prompt.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace erne {

struct BpeMerge {
  int32_t left = 0;  // symbols, never negative
  int32_t right = 0;
  int32_t result = 0;
  uint32_t rank = 0;  // lower merges first
  // The basic symbols that meet in the middle: the last of `left` and the first of `right`.
  int32_t left_end = 0;
  int32_t right_begin = 0;
};

// Immutable after construction; thread-safe.
class BpeMerges {
 public:
  // Of several merges of one pair, the lowest rank counts.
  explicit BpeMerges(std::span<const BpeMerge> merges);

  // Merges `symbols` (basic ones: none is the result of a merge of others here) and appends what is
  // left to `out`. A negative symbol never merges.
  void Apply(std::span<const int32_t> symbols, std::vector<int32_t>& out) const;

 private:
  static constexpr uint32_t kNoRank = UINT32_MAX;

  // What is known of a pair of neighbours. Pairs that are absent never meet inside a result.
  struct Pair {
    uint64_t key = kNoKey;
    uint32_t rank =
        kNoRank;  // kNoRank: they meet inside a result, but do not merge with each other
    int32_t result = -1;
  };
  static constexpr uint64_t kNoKey = UINT64_MAX;

  struct Node;
  struct Scratch;

  static uint64_t Key(int32_t left, int32_t right) {
    return (static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32) |
           static_cast<uint32_t>(right);
  }
  Pair& Slot(uint64_t key);
  const Pair* Find(int32_t left, int32_t right) const;
  void MergeSegment(Scratch& scratch, std::vector<int32_t>& out) const;
  void Rate(Scratch& scratch, int32_t at) const;

  std::vector<Pair> table_;  // open addressing, at most half full; the size is a power of two
  uint64_t mask_ = 0;
};

}  // namespace erne
