#include "text/token_trie.h"

#include <algorithm>

#include "base/check.h"

namespace erne {

int32_t TokenTrie::Child(const Node& node, uint8_t byte) const {
  const auto edge = std::lower_bound(node.edges.begin(), node.edges.end(), byte,
                                     [](const Edge& e, uint8_t b) { return e.byte < b; });
  return edge != node.edges.end() && edge->byte == byte ? edge->node : -1;
}

void TokenTrie::Add(std::string_view text, int32_t value) {
  ERNE_CHECK(!text.empty() && value >= 0);
  int32_t at = -1;
  for (const char c : text) {
    const auto byte = static_cast<uint8_t>(c);
    int32_t child = at < 0 ? first_[byte] : Child(nodes_[at], byte);
    if (child < 0) {
      child = static_cast<int32_t>(nodes_.size());
      nodes_.emplace_back();
      if (at < 0) {
        first_[byte] = child;
      } else {
        std::vector<Edge>& edges = nodes_[at].edges;
        edges.insert(std::upper_bound(edges.begin(), edges.end(), byte,
                                      [](uint8_t b, const Edge& e) { return b < e.byte; }),
                     Edge{byte, child});
      }
    }
    at = child;
  }
  nodes_[at].value = value;
}

}  // namespace erne
