// A tokenizer for models that have none: random weights, served to measure a server.
#pragma once

#include <memory>

#include "text/tokenizer.h"

namespace erne {

// Every id has a text of its own, " t" and its number, and every word of a text is one token,
// chosen by the word's bytes. So prompts have as many tokens as words, and each token of an answer
// is seen by who reads it.
std::unique_ptr<const Tokenizer> MakeNumberTokenizer(int64_t vocab_size);

}  // namespace erne
