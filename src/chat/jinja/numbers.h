// Numbers as Python reads and rounds them.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "chat/jinja/value.h"

namespace erne::jinja {

// int(text, base): white space around, a sign, single underscores, the prefix of the base. Nothing
// when it is no number; fails when the number needs more than 64 bits, or for a base that is not 0
// or 2 to 36.
std::optional<int64_t> ParsePythonInt(std::string_view text, int64_t base);
// float(text), with "inf" and "nan".
std::optional<double> ParsePythonFloat(std::string_view text);

// round(number, digits): of ties to the even digit. An int stays an int.
Value RoundHalfEven(const Value& number, int64_t digits);

}  // namespace erne::jinja
