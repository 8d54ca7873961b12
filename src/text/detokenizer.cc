#include "text/detokenizer.h"

#include <utility>

#include "base/utf8.h"

namespace erne {

std::string Detokenizer::Add(int32_t token) {
  if (skip_special_ && tokenizer_.IsSpecial(token)) return "";
  held_ += tokenizer_.TokenBytes(token);
  const size_t complete = CompleteUtf8Prefix(held_);
  std::string text = SanitizeUtf8(std::string_view(held_).substr(0, complete));
  held_.erase(0, complete);
  return text;
}

std::string Detokenizer::Flush() { return SanitizeUtf8(std::exchange(held_, {})); }

}  // namespace erne
