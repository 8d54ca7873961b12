// JSON as answers write it (the canonical form): what RFC 8259 allows, but
//   - white space is one space behind ',' and ':', or a line feed and at most 16 spaces where a
//   line
//     may end (behind '{', '[' and ',', before '}' and ']'), or nothing;
//   - numbers have at most 18 digits (15 and 15 with a fraction, and an exponent of two);
//   - names of members are written without escapes where the name is free;
//   - values of which nothing is said are nested at most 16 deep.
// So nothing can go on for ever but a text, which the end of the answer's budget closes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "grammar/characters.h"
#include "grammar/expression.h"

namespace erne::grammar {

// One of `characters` inside a JSON text: itself, or escaped where it must be.
Expr SpellInJson(const Characters& characters);
// '"' body '"'.
Expr Quoted(Expr body);
// That value, in any of its layouts.
Expr JsonLiteral(const Json& value);
// Where a line may end, and where a space may be.
Expr LineSpace();
Expr Gap();
// '[' or '{', some parts with ',' between them, and what closes it. Empty, or `parts`, which has no
// commas at its ends.
Expr Enclosed(char open, Expr parts, bool may_be_empty, char close);
// ',' and what may be behind it.
Expr Comma();
// first (',' next)*, in all min to max (kUnbounded) of them; min at least 1.
Expr Listed(const Expr& item, int64_t min, int64_t max);

struct NumberRange {
  std::optional<int64_t> min = {};
  std::optional<int64_t> max = {};
  bool above_min = false;  // min itself is too small
  bool below_max = false;
};
// Whole numbers, and numbers with a fraction, in a range; nothing matches when it is empty.
Expr IntegerText(const NumberRange& range);
Expr NumberText(const NumberRange& range);

// Rules that all parts of a grammar share, added to it when they are first asked for.
class JsonRules {
 public:
  explicit JsonRules(Grammar& grammar) : grammar_(grammar) {}

  Expr String();
  Expr Value() { return ValueAt(0); }
  Expr Object() { return ObjectAt(0); }
  Expr Array() { return ArrayAt(0); }
  // The text of a free name, with its quotes, but none of `taken`.
  Expr NameBut(const std::vector<std::string>& taken);

 private:
  static constexpr size_t kMaxDepth = 16;
  Expr ValueAt(size_t depth);
  Expr ObjectAt(size_t depth);
  Expr ArrayAt(size_t depth);

  Grammar& grammar_;
  int32_t string_ = -1;
  int32_t name_ = -1;
  std::vector<int32_t> values_;  // by depth
};

}  // namespace erne::grammar
