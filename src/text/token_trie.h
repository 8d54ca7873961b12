// The longest of a set of strings that stands at a place of a text.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace erne {

// A byte trie. Fill it, then use it: Match is thread-safe once nothing is added any more.
class TokenTrie {
 public:
  TokenTrie() : first_(256, -1) {}

  // `text` must not be empty. Adding the same text again replaces its value.
  void Add(std::string_view text, int32_t value);
  bool empty() const { return nodes_.empty(); }

  struct Found {
    int32_t value = -1;  // -1: nothing here
    size_t length = 0;
  };
  // The longest string at the beginning of `text` whose value `accept(value, length)` takes.
  template <typename Accept>
  Found Match(std::string_view text, Accept&& accept) const {
    Found best;
    if (text.empty()) return best;
    int32_t at = first_[static_cast<uint8_t>(text[0])];
    for (size_t length = 1; at >= 0; ++length) {
      const Node& node = nodes_[at];
      if (node.value >= 0 && accept(node.value, length)) best = {node.value, length};
      if (length == text.size()) break;
      at = Child(node, static_cast<uint8_t>(text[length]));
    }
    return best;
  }
  Found Match(std::string_view text) const {
    return Match(text, [](int32_t, size_t) { return true; });
  }

 private:
  struct Edge {
    uint8_t byte;
    int32_t node;
  };
  struct Node {
    int32_t value = -1;
    std::vector<Edge> edges;  // sorted by byte
  };
  int32_t Child(const Node& node, uint8_t byte) const;

  std::vector<int32_t>
      first_;  // by first byte: most places of a text are turned away with one look
  std::vector<Node> nodes_;
};

}  // namespace erne
