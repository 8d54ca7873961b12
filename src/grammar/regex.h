// Regular expressions, as ECMAScript and Python write them: literals, `.` (no line feed), classes,
// \d \w \s and their opposites (ASCII), groups (captures are only groups), |, * + ? {m,n} (lazy
// ones allow the same), ^ at the beginning and $ at the end of an alternative of the whole.
// Look-around, back references, \b and flags are no regular expressions or are not supported:
// InvalidArgument with the place.
#pragma once

#include <functional>
#include <string_view>

#include "base/status.h"
#include "grammar/characters.h"
#include "grammar/expression.h"

namespace erne::grammar {

struct RegexOptions {
  // How one of some characters is written in the answer.
  std::function<Expr(const Characters&)> spell = [](const Characters& c) { return CodePoints(c); };
  // true: the pattern may match anywhere in the text; false: it matches all of it.
  bool search = false;
};

Result<Expr> ParseRegex(std::string_view pattern, const RegexOptions& options = {});

}  // namespace erne::grammar
