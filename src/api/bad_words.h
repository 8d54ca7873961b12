// bad_words: texts that must not occur in an answer, as the token sequences that spell them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "text/tokenizer.h"

namespace erne {

// Each word as the tokenizer spells it in the middle of a text, without and with a space before it
// (vLLM's rule); no sequence twice. A word that is spelled in another way, across the edges of
// other tokens, is not found.
std::vector<std::vector<int32_t>> EncodeBadWords(const std::vector<std::string>& words,
                                                 const Tokenizer& tokenizer);

}  // namespace erne
