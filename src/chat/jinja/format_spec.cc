#include "chat/jinja/format_spec.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <cstdio>

#include "base/utf8.h"
#include "chat/jinja/operators.h"
#include "chat/jinja/strings.h"
#include "chat/jinja/unicode.h"

namespace erne::jinja {
namespace {

// More digits than any double has; the limit keeps a hostile precision cheap.
constexpr int64_t kMaxPrecision = 400;
// Widths pass through texts, whose size is limited; this only keeps the arithmetic in range.
constexpr int64_t kMaxWidth = int64_t{1} << 40;

bool IsAlign(char32_t c) { return c == '<' || c == '>' || c == '^' || c == '='; }

int64_t TakeNumber(std::string_view& text) {
  int64_t value = 0;
  while (!text.empty() && text[0] >= '0' && text[0] <= '9') {
    value = std::min(value * 10 + (text[0] - '0'), kMaxWidth);
    text.remove_prefix(1);
  }
  return value;
}

bool TakeOne(std::string_view& text, char c) {
  if (text.empty() || text[0] != c) return false;
  text.remove_prefix(1);
  return true;
}

// "1234567" -> "1,234,567"; the digits before the first that is none.
std::string Grouped(const std::string& digits, char separator, size_t group) {
  size_t whole = 0;
  while (whole < digits.size() && std::isxdigit(static_cast<unsigned char>(digits[whole])) != 0 &&
         digits[whole] != 'e')
    ++whole;
  std::string out;
  for (size_t i = 0; i < whole; ++i) {
    if (i > 0 && (whole - i) % group == 0) out.push_back(separator);
    out.push_back(digits[i]);
  }
  return out + digits.substr(whole);
}

std::string SignOf(bool negative, char sign) {
  if (negative) return "-";
  return sign == 0 || sign == '-' ? "" : std::string(1, sign);
}

std::string Printf(char type, int precision, bool alternate, double value) {
  const char format[] = {'%',
                         alternate ? '#' : '.',
                         alternate ? '.' : '*',
                         alternate ? '*' : type,
                         alternate ? type : '\0',
                         '\0'};
  char text[kMaxPrecision + 400];  // 309 digits before the point at most
  const int length = std::snprintf(text, sizeof(text), format, precision, value);
  return std::string(text, static_cast<size_t>(std::max(length, 0)));
}

// A float without a type: like 'g', but with at least one digit behind the point.
std::string DefaultReal(double value, int64_t precision) {
  if (precision < 0) return FormatFloat(value);
  std::string text = Printf('g', static_cast<int>(std::max<int64_t>(precision, 1)), false, value);
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

}  // namespace

FormatSpec ParseFormatSpec(std::string_view text) {
  FormatSpec spec;
  const std::string whole(text.substr(0, 80));
  if (!text.empty()) {
    std::string_view behind = text;
    const char32_t first = TakeChar(behind);
    if (!behind.empty() && IsAlign(static_cast<unsigned char>(behind[0]))) {
      spec.fill = first;
      spec.align = behind[0];
      spec.explicit_align = true;
      text = behind.substr(1);
    } else if (IsAlign(first)) {
      spec.align = static_cast<char>(first);
      spec.explicit_align = true;
      text = behind;
    }
  }
  if (!text.empty() && (text[0] == '+' || text[0] == '-' || text[0] == ' ')) {
    spec.sign = text[0];
    text.remove_prefix(1);
  }
  spec.alternate = TakeOne(text, '#');
  if (!text.empty() && text[0] == '0') {
    if (spec.align == 0) {
      spec.fill = '0';
      spec.align = '=';
    } else if (spec.fill == ' ') {
      spec.fill = '0';
    }
  }
  spec.width = TakeNumber(text);
  if (!text.empty() && (text[0] == ',' || text[0] == '_')) {
    spec.grouping = text[0];
    text.remove_prefix(1);
  }
  if (TakeOne(text, '.')) {
    if (text.empty() || text[0] < '0' || text[0] > '9') Fail("Format specifier missing precision");
    spec.precision = TakeNumber(text);
  }
  if (!text.empty()) {
    spec.type = text[0];
    text.remove_prefix(1);
  }
  if (!text.empty()) Fail("Invalid format specifier '", whole, "'");
  return spec;
}

FormattedNumber FormatInteger(int64_t value, const FormatSpec& spec) {
  FormattedNumber number;
  number.prefix = SignOf(value < 0, spec.sign);
  const uint64_t magnitude =
      value < 0 ? uint64_t{0} - static_cast<uint64_t>(value) : static_cast<uint64_t>(value);
  const int base = spec.type == 'b'                       ? 2
                   : spec.type == 'o'                     ? 8
                   : spec.type == 'x' || spec.type == 'X' ? 16
                                                          : 10;
  char digits[72];
  const auto end = std::to_chars(digits, digits + sizeof(digits), magnitude, base).ptr;
  number.digits.assign(digits, end);
  if (spec.type == 'X') {
    for (char& c : number.digits)
      c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  }
  if (spec.alternate && base != 10) {
    number.prefix += '0';
    number.prefix += spec.type;
  }
  if (spec.grouping == ',' && base != 10) Fail("Cannot specify ',' with '", spec.type, "'.");
  if (spec.grouping != 0) number.digits = Grouped(number.digits, spec.grouping, base == 10 ? 3 : 4);
  return number;
}

FormattedNumber FormatReal(double value, const FormatSpec& spec) {
  if (spec.precision > kMaxPrecision) Fail("precision ", spec.precision, " is too large");
  FormattedNumber number;
  number.prefix = SignOf(std::signbit(value) && !std::isnan(value), spec.sign);
  const double magnitude = std::fabs(value);
  char type = spec.type;
  const bool upper = type == 'E' || type == 'F' || type == 'G';
  if (!std::isfinite(value)) {
    number.digits = std::isnan(value) ? (upper ? "NAN" : "nan") : (upper ? "INF" : "inf");
  } else if (type == 0) {
    number.digits = DefaultReal(magnitude, spec.precision);
  } else {
    const bool percent = type == '%';
    if (percent) type = 'f';
    int precision = spec.precision < 0 ? 6 : static_cast<int>(spec.precision);
    if (precision == 0 && (type == 'g' || type == 'G')) precision = 1;
    number.digits = Printf(type, precision, spec.alternate, percent ? magnitude * 100 : magnitude);
    if (percent) number.digits += '%';
  }
  if (spec.grouping != 0) number.digits = Grouped(number.digits, spec.grouping, 3);
  return number;
}

Text PadFormatted(Runtime& runtime, const FormattedNumber& number, const FormatSpec& spec,
                  bool trusted) {
  const Text digits(number.digits, trusted);
  const Text prefix(number.prefix, trusted);
  TextBuilder out(runtime.budget());
  if (spec.align == '=') {
    const auto size = static_cast<int64_t>(number.prefix.size() + number.digits.size());
    if (spec.grouping != 0 && spec.fill == '0' && size < spec.width) {
      Fail("zeros in front of grouped digits are not supported in format specifiers");
    }
    out.Append(prefix);
    const auto prefix_size = static_cast<int64_t>(number.prefix.size());
    out.Append(Pad(runtime, digits, spec.width - prefix_size, spec.fill, Side::kLeft));
    return out.Build();
  }
  out.Append(prefix);
  out.Append(digits);
  const Side side = spec.align == '<'   ? Side::kRight
                    : spec.align == '^' ? Side::kBoth
                                        : Side::kLeft;
  return Pad(runtime, out.Build(), spec.width, spec.fill, side);
}

Text FormatValue(Runtime& runtime, const Value& value, const FormatSpec& spec) {
  const bool real_type =
      spec.type != 0 && std::string_view("eEfFgG%").find(spec.type) != std::string_view::npos;
  const bool integer_type =
      spec.type != 0 && std::string_view("bdoxX").find(spec.type) != std::string_view::npos;
  if (value.is_float() && (spec.type == 0 || real_type)) {
    return PadFormatted(runtime, FormatReal(value.AsDouble(), spec), spec, true);
  }
  if (value.is_integral() && real_type) {
    return PadFormatted(runtime, FormatReal(value.AsDouble(), spec), spec, true);
  }
  if (value.is_integral()) {
    if (spec.precision >= 0) Fail("Precision not allowed in integer format specifier");
    if (spec.type == 0 || integer_type)
      return PadFormatted(runtime, FormatInteger(value.AsInt(), spec), spec, true);
  }
  if (value.is_string() && (spec.type == 0 || spec.type == 's')) {
    const char* refused = nullptr;
    if (spec.explicit_align && spec.align == '=') refused = "'=' alignment";
    if (spec.sign != 0) refused = "Sign or space";
    if (spec.alternate) refused = "Alternate form (#)";
    if (spec.grouping != 0) refused = "Grouping";
    if (refused != nullptr) Fail(refused, " not allowed in string format specifier");
    Text text = value.AsText();
    if (spec.precision >= 0) {
      text = text.Sub(runtime.budget(), 0,
                      OffsetOfChar(text.view(), static_cast<size_t>(spec.precision)));
    }
    const Side side = spec.align == '>'   ? Side::kLeft
                      : spec.align == '^' ? Side::kBoth
                                          : Side::kRight;
    return Pad(runtime, text, spec.width, spec.fill, side);
  }
  if (!value.is_string() && !value.is_number()) {
    RequireDefined(value);
    Fail("unsupported format string passed to ", value.TypeName(), ".__format__");
  }
  Fail("Unknown format code '", spec.type, "' for object of type '", value.TypeName(), "'");
}

}  // namespace erne::jinja
