// Guesses without a second model: where the last tokens of a sequence occurred in it before, what
// followed them then is likely to follow now (prompt lookup decoding, Saxena 2023). Good where an
// answer repeats its prompt: code to be changed, texts to be polished, lists.
#pragma once

#include <cstdint>
#include <span>

namespace erne {

struct PromptLookupRule {
  int64_t max_ngram = 4;  // last tokens that are looked for; a longer match wins
  int64_t min_ngram = 2;  // at least 1
};

// What followed the latest earlier occurrence of the longest suffix of `tokens` that has one, at
// most `max_tokens`; empty when there is none. Linear in the length of `tokens`.
std::span<const int32_t> LookUpNext(std::span<const int32_t> tokens, const PromptLookupRule& rule,
                                    int64_t max_tokens);

}  // namespace erne
