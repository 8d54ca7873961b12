// One number or text laid out by width, precision and type; what both ways of formatting come down
// to.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "chat/jinja/runtime.h"
#include "chat/jinja/text.h"
#include "chat/jinja/value.h"

namespace erne::jinja {

// [[fill]align][sign][#][0][width][grouping][.precision][type] of Python's format specification
// language.
struct FormatSpec {
  char32_t fill = ' ';
  char align = 0;               // '<' '>' '^' '=' or 0: left for texts, right for numbers
  bool explicit_align = false;  // false too for the '=' that a leading zero stands for
  char sign = 0;                // '+' '-' ' ' or 0, which is as '-'
  bool alternate = false;
  int64_t width = 0;
  char grouping = 0;  // ',' '_' or 0
  int64_t precision = -1;
  char type = 0;
};

// Fails for a specification that is not well formed.
FormatSpec ParseFormatSpec(std::string_view text);

// An integer in the form of its type (d b o x X, or c), or a float in one of e E f F g G %, without
// padding: sign, prefix and digits apart, because zeros go between them.
struct FormattedNumber {
  std::string prefix;  // sign and 0x
  std::string digits;
};
FormattedNumber FormatInteger(int64_t value, const FormatSpec& spec);
FormattedNumber FormatReal(double value, const FormatSpec& spec);

// The value as format(value, spec) gives it.
Text FormatValue(Runtime& runtime, const Value& value, const FormatSpec& spec);

// The parts together, padded to spec.width. Numbers stand on the right unless spec.align says
// otherwise.
Text PadFormatted(Runtime& runtime, const FormattedNumber& number, const FormatSpec& spec,
                  bool trusted);

}  // namespace erne::jinja
