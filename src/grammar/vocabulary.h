// The texts of a model's tokens as a trie, so that tokens with a beginning in common are looked at
// together.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "grammar/expression.h"

namespace erne::grammar {

// Immutable; read by any thread.
class Vocabulary {
 public:
  // texts[t] is what token t stands for; "" for tokens that are no text (control tokens), which no
  // grammar allows. num_tokens: the width of a mask, at least texts.size().
  Vocabulary(std::span<const std::string> texts, int64_t num_tokens);

  int64_t num_tokens() const { return num_tokens_; }
  size_t mask_words() const { return (static_cast<size_t>(num_tokens_) + 31) / 32; }
  // Bytes that are tokens by themselves.
  const ByteSet& single_bytes() const { return single_bytes_; }
  std::string_view text(int32_t token) const;

  // Nodes in preorder: behind a node come those below it, then, at `end`, what is beside it. Node 0
  // is the empty text.
  struct Node {
    uint32_t end = 0;
    uint32_t first_token = 0;  // of tokens(); those of the node end where the next one's begin
    uint16_t depth = 0;        // bytes from the root
    uint8_t byte = 0;          // the last one
  };
  std::span<const Node> nodes() const { return {nodes_.data(), nodes_.size() - 1}; }
  // The tokens whose text is the node's.
  std::span<const int32_t> TokensAt(uint32_t node) const {
    return std::span(tokens_).subspan(nodes_[node].first_token,
                                      nodes_[node + 1].first_token - nodes_[node].first_token);
  }
  bool HasChildren(uint32_t node) const { return nodes_[node].end > node + 1; }
  // Bytes of the longest token.
  size_t depth() const { return depth_; }

  // The fewest tokens that spell `text` (which single_bytes can), of several ways that with the
  // longest first token.
  std::vector<int32_t> Spell(std::string_view text) const;

 private:
  int64_t num_tokens_;
  ByteSet single_bytes_;
  std::string texts_;
  std::vector<uint32_t> text_begin_;  // [tokens + 1], of texts_
  std::vector<Node> nodes_;           // and one behind the last
  std::vector<int32_t> tokens_;       // in the order of their texts
  size_t depth_ = 0;
};

// Sets the bit of a token in a mask.
inline void Allow(int32_t token, std::span<uint32_t> mask) {
  mask[static_cast<size_t>(token) / 32] |= uint32_t{1} << (token % 32);
}

}  // namespace erne::grammar
