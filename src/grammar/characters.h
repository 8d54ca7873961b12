// Characters as patterns and grammars write them: escapes and classes like [a-z\d].
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "grammar/expression.h"

namespace erne::grammar {

// A text that is read from the front.
class PatternReader {
 public:
  explicit PatternReader(std::string_view text) : text_(text) {}

  bool done() const { return at_ == text_.size(); }
  size_t offset() const { return at_; }
  char peek() const { return done() ? '\0' : text_[at_]; }
  std::string_view rest() const { return text_.substr(at_); }
  bool Skip(std::string_view expected) {
    if (!rest().starts_with(expected)) return false;
    at_ += expected.size();
    return true;
  }
  void SkipByte() { ++at_; }
  // The next character; there is one, in well-formed UTF-8.
  char32_t Take();
  // An InvalidArgument with the offset.
  Status Fault(std::string_view what) const;

 private:
  std::string_view text_;
  size_t at_ = 0;
};

using Characters = std::vector<CodePointRange>;

Characters Complement(const Characters& characters);

// Behind a backslash: one character (\n, \x41, \u4E2D, \U0001F600, \u{1F600}, \.) or a class of
// them (\d, \W, \s: ASCII, as in ECMAScript without flags).
Result<Characters> ReadEscape(PatternReader& reader);
// Behind '[': up to and with ']'.
Result<Characters> ReadClass(PatternReader& reader);
// How often what was read occurs.
struct RepeatCount {
  int64_t min = 0;
  int64_t max = 0;  // kUnbounded: any number
};
// *, +, ?, {m}, {m,} or {m,n}; nothing where none of them is next.
Result<std::optional<RepeatCount>> ReadRepeat(PatternReader& reader);

}  // namespace erne::grammar
