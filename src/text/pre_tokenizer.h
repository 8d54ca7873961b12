// Cuts a text into words before byte-level merging, as the patterns of three families do.
//
// Each family publishes a regular expression with look-ahead and Unicode classes. The three that
// our models use are written out as code here: no expression engine, no backtracking, linear time
// on any text. An unknown expression is refused when the tokenizer is read.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

namespace erne {

enum class PreTokenizer { kNone, kGpt2, kLlama3, kQwen2 };

// The family whose pattern is exactly `pattern`.
std::optional<PreTokenizer> PreTokenizerOf(std::string_view pattern);

// The words of well-formed `text`, in order; together they are the text.
std::vector<std::string_view> SplitWords(PreTokenizer kind, std::string_view text);

}  // namespace erne
