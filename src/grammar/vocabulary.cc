#include "grammar/vocabulary.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "base/check.h"

namespace erne::grammar {

Vocabulary::Vocabulary(std::span<const std::string> texts, int64_t num_tokens)
    : num_tokens_(num_tokens) {
  ERNE_CHECK(static_cast<int64_t>(texts.size()) <= num_tokens);
  text_begin_.push_back(0);
  for (size_t token = 0; token < texts.size(); ++token) {
    const std::string& text = texts[token];
    texts_ += text;
    text_begin_.push_back(static_cast<uint32_t>(texts_.size()));
    if (text.empty() || text.size() > std::numeric_limits<uint16_t>::max()) continue;
    tokens_.push_back(static_cast<int32_t>(token));
    if (text.size() == 1) single_bytes_.set(static_cast<uint8_t>(text[0]));
    depth_ = std::max(depth_, text.size());
  }
  std::stable_sort(tokens_.begin(), tokens_.end(),
                   [&](int32_t a, int32_t b) { return this->text(a) < this->text(b); });

  std::vector<uint32_t> open = {0};  // from the root to the newest node
  nodes_.emplace_back();
  const auto close_to = [&](size_t depth) {
    for (; open.size() > depth + 1; open.pop_back()) {
      nodes_[open.back()].end = static_cast<uint32_t>(nodes_.size());
    }
  };
  std::string_view before;
  for (size_t i = 0; i < tokens_.size(); ++i) {
    const std::string_view text = this->text(tokens_[i]);
    const auto differs = std::mismatch(before.begin(), before.end(), text.begin(), text.end());
    const auto common = static_cast<size_t>(differs.second - text.begin());
    close_to(common);
    for (size_t depth = common + 1; depth <= text.size(); ++depth) {
      open.push_back(static_cast<uint32_t>(nodes_.size()));
      nodes_.push_back({.first_token = static_cast<uint32_t>(i),
                        .depth = static_cast<uint16_t>(depth),
                        .byte = static_cast<uint8_t>(text[depth - 1])});
    }
    before = text;
  }
  close_to(0);
  nodes_[0].end = static_cast<uint32_t>(nodes_.size());
  nodes_.push_back({.first_token = static_cast<uint32_t>(tokens_.size())});
}

std::string_view Vocabulary::text(int32_t token) const {
  const auto at = static_cast<size_t>(token);
  if (at + 1 >= text_begin_.size()) return {};
  return std::string_view(texts_).substr(text_begin_[at], text_begin_[at + 1] - text_begin_[at]);
}

std::vector<int32_t> Vocabulary::Spell(std::string_view text) const {
  // fewest[i]: tokens for text[i..], and the first of them.
  constexpr size_t kNever = std::numeric_limits<size_t>::max();
  std::vector<size_t> fewest(text.size() + 1, kNever);
  std::vector<int32_t> first(text.size(), -1);
  fewest[text.size()] = 0;
  for (size_t begin = text.size(); begin-- > 0;) {
    uint32_t node = 0;
    for (size_t end = begin; end < text.size();) {
      const auto byte = static_cast<uint8_t>(text[end]);
      uint32_t child = node + 1;
      while (child < nodes_[node].end && nodes_[child].byte != byte) child = nodes_[child].end;
      if (child >= nodes_[node].end) break;
      node = child;
      ++end;
      const std::span<const int32_t> tokens = TokensAt(node);
      if (tokens.empty() || fewest[end] == kNever || fewest[end] + 1 > fewest[begin]) continue;
      fewest[begin] = fewest[end] + 1;
      first[begin] = tokens[0];
    }
    ERNE_CHECK(fewest[begin] != kNever) << "a byte that no token spells";
  }
  std::vector<int32_t> tokens;
  for (size_t at = 0; at < text.size(); at += this->text(tokens.back()).size()) {
    tokens.push_back(first[at]);
  }
  return tokens;
}

}  // namespace erne::grammar
