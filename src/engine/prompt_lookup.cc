#include "engine/prompt_lookup.h"

#include <algorithm>

namespace erne {

std::span<const int32_t> LookUpNext(std::span<const int32_t> tokens, const PromptLookupRule& rule,
                                    int64_t max_tokens) {
  const auto length = static_cast<int64_t>(tokens.size());
  if (max_tokens <= 0 || length < rule.min_ngram + 1) return {};
  const int32_t last = tokens.back();
  int64_t best_match = 0;
  int64_t best_next = 0;
  // `end` is the last token of an earlier occurrence; from the latest one backwards.
  for (int64_t end = length - 2; end >= 0; --end) {
    if (tokens[static_cast<size_t>(end)] != last) continue;
    int64_t match = 1;
    while (match < rule.max_ngram && match <= end &&
           tokens[static_cast<size_t>(end - match)] ==
               tokens[static_cast<size_t>(length - 1 - match)]) {
      ++match;
    }
    if (match <= best_match) continue;
    best_match = match;
    best_next = end + 1;
    if (match == rule.max_ngram) break;
  }
  if (best_match < rule.min_ngram) return {};
  return tokens.subspan(static_cast<size_t>(best_next),
                        static_cast<size_t>(std::min(max_tokens, length - best_next)));
}

}  // namespace erne
