#include "text/detokenizer.h"

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

}  // namespace erne
