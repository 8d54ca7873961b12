#include "api/bad_words.h"

#include <algorithm>

namespace erne {
namespace {

// The tokens of `text` in the middle of a line. A tokenizer that puts a space before a text does
// not put it behind a line's end.
std::vector<int32_t> Continued(const std::string& text, const Tokenizer& tokenizer) {
  const std::vector<int32_t> before = tokenizer.Encode("\n", /*parse_special=*/false);
  std::vector<int32_t> tokens = tokenizer.Encode("\n" + text, /*parse_special=*/false);
  const bool separate =
      tokens.size() > before.size() && std::equal(before.begin(), before.end(), tokens.begin());
  if (!separate) return tokenizer.Encode(text, /*parse_special=*/false);
  tokens.erase(tokens.begin(), tokens.begin() + static_cast<int64_t>(before.size()));
  return tokens;
}

}  // namespace

std::vector<std::vector<int32_t>> EncodeBadWords(const std::vector<std::string>& words,
                                                 const Tokenizer& tokenizer) {
  std::vector<std::vector<int32_t>> sequences;
  for (const std::string& word : words) {
    for (const std::string& text : {word, word.starts_with(' ') ? word : " " + word}) {
      std::vector<int32_t> tokens = Continued(text, tokenizer);
      if (tokens.empty()) continue;
      if (std::find(sequences.begin(), sequences.end(), tokens) != sequences.end()) continue;
      sequences.push_back(std::move(tokens));
    }
  }
  return sequences;
}

}  // namespace erne
