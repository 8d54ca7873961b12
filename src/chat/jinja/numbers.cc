#include "chat/jinja/numbers.h"

#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <string>

#include "base/strings.h"
#include "chat/jinja/error.h"
#include "chat/jinja/unicode.h"

namespace erne::jinja {
namespace {

// Without white space and underscores between digits; nothing when an underscore stands elsewhere.
std::optional<std::string> Cleaned(std::string_view text) {
  text = StripSpaceRight(StripSpaceLeft(text));
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '_') {
      out.push_back(text[i]);
      continue;
    }
    const auto is_digit = [&](size_t at) {
      const char c = at < text.size() ? static_cast<char>(text[at] | 0x20) : ' ';
      return (text[at] >= '0' && text[at] <= '9') || (c >= 'a' && c <= 'z');
    };
    if (i == 0 || i + 1 >= text.size() || !is_digit(i - 1) || !is_digit(i + 1)) return std::nullopt;
  }
  return out;
}

// Removes "0x", "0o" or "0b" where it fits `base`, which 0 leaves open.
void TakePrefix(std::string_view& digits, int& base) {
  if (digits.size() > 2 && digits[0] == '0') {
    const char letter = static_cast<char>(digits[1] | 0x20);
    const int prefixed = letter == 'x' ? 16 : letter == 'o' ? 8 : letter == 'b' ? 2 : 0;
    if (prefixed != 0 && (base == prefixed || base == 0)) {
      base = prefixed;
      digits.remove_prefix(2);
      if (digits[0] == '_') digits.remove_prefix(1);
    }
  }
  if (base == 0) base = 10;
}

}  // namespace

std::optional<int64_t> ParsePythonInt(std::string_view text, int64_t base) {
  if (base != 0 && (base < 2 || base > 36)) Fail("int() base must be >= 2 and <= 36, or 0");
  const std::optional<std::string> cleaned = Cleaned(text);
  if (!cleaned) return std::nullopt;
  std::string_view digits = *cleaned;
  const bool negative = !digits.empty() && digits[0] == '-';
  if (!digits.empty() && (digits[0] == '-' || digits[0] == '+')) digits.remove_prefix(1);
  int radix = static_cast<int>(base);
  TakePrefix(digits, radix);
  if (digits.empty() || digits[0] == '-') return std::nullopt;
  const std::string signed_digits = StrCat(negative ? "-" : "", digits);
  int64_t value = 0;
  const char* end = signed_digits.data() + signed_digits.size();
  const auto result = std::from_chars(signed_digits.data(), end, value, radix);
  if (result.ptr != end) return std::nullopt;
  if (result.ec == std::errc::result_out_of_range) {
    Fail("the number ", digits.substr(0, 40), " is too large (integers have 64 bits)");
  }
  return result.ec == std::errc() ? std::optional<int64_t>(value) : std::nullopt;
}

std::optional<double> ParsePythonFloat(std::string_view text) {
  const std::optional<std::string> cleaned = Cleaned(text);
  if (!cleaned) return std::nullopt;
  std::string_view digits = *cleaned;
  if (!digits.empty() && digits[0] == '+') {
    digits.remove_prefix(1);
    if (!digits.empty() && digits[0] == '-') return std::nullopt;
  }
  if (digits.find('(') != std::string_view::npos) return std::nullopt;  // C's nan(...)
  double value = 0;
  const auto result = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (digits.empty() || result.ptr != digits.data() + digits.size()) return std::nullopt;
  if (result.ec == std::errc::result_out_of_range) {
    // Python gives infinity or zero here, which strtod does as well.
    return std::strtod(std::string(digits).c_str(), nullptr);
  }
  return result.ec == std::errc() ? std::optional<double>(value) : std::nullopt;
}

Value RoundHalfEven(const Value& number, int64_t digits) {
  if (number.is_integral()) {
    if (digits >= 0) return Value(number.AsInt());
    if (digits < -18) return Value(int64_t{0});
    int64_t unit = 1;
    for (int64_t i = digits; i < 0; ++i) unit *= 10;
    const int64_t value = number.AsInt();
    int64_t quotient = value / unit;
    const int64_t remainder = std::abs(value % unit);
    const bool up = remainder > unit / 2 || (remainder == unit / 2 && quotient % 2 != 0);
    if (up) quotient += value < 0 ? -1 : 1;
    int64_t rounded = 0;
    if (__builtin_mul_overflow(quotient, unit, &rounded))
      Fail("integer overflow in round (integers have 64 bits)");
    return Value(rounded);
  }
  const double value = number.AsDouble();
  if (!std::isfinite(value) || digits > 323) return Value(value);
  if (digits < -308) return Value(std::copysign(0.0, value));
  if (digits >= 0) {
    // printf rounds the exact binary value, ties to even, as CPython's round does.
    char text[700];
    std::snprintf(text, sizeof(text), "%.*f", static_cast<int>(digits), value);
    return Value(std::strtod(text, nullptr));
  }
  const double unit = std::pow(10.0, static_cast<double>(-digits));
  const double rounded = std::nearbyint(value / unit) * unit;
  if (!std::isfinite(rounded)) Fail("rounded value too large to represent");
  return Value(rounded);
}

}  // namespace erne::jinja
