#include "chat/jinja/format.h"

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>

#include "base/strings.h"
#include "base/utf8.h"
#include "chat/jinja/format_spec.h"
#include "chat/jinja/numbers.h"
#include "chat/jinja/operators.h"
#include "chat/jinja/strings.h"
#include "chat/jinja/unicode.h"

namespace erne::jinja {
namespace {

// "%s" % values, after the rules of printf-style formatting in Python's standard types.
class PercentFormatter {
 public:
  PercentFormatter(Runtime& runtime, const Text& format, const Value& values)
      : runtime_(runtime),
        format_(format),
        view_(format.view()),
        values_(values),
        out_(runtime.budget()) {}

  Text Run() {
    while (at_ < view_.size()) {
      const size_t percent = std::min(view_.find('%', at_), view_.size());
      out_.AppendSub(format_, at_, percent);
      at_ = percent;
      if (at_ < view_.size()) Directive();
    }
    // Whatever has subscripts may have been meant as a mapping; the rest must be used up.
    const bool subscripts = values_.is_undefined() || values_.is_list() || values_.is_dict() ||
                            std::string_view(values_.TypeName()) == "range";
    const bool surplus =
        values_.is_tuple() ? next_ < values_.AsItems().size() : !subscripts && next_ == 0;
    if (surplus) Fail("not all arguments converted during string formatting");
    return out_.Build();
  }

 private:
  char Take() {
    if (at_ >= view_.size()) Fail("incomplete format");
    return view_[at_++];
  }

  const Value& NextValue() {
    if (values_.is_tuple()) {
      if (next_ >= values_.AsItems().size()) Fail("not enough arguments for format string");
      return values_.AsItems()[next_++];
    }
    if (next_++ > 0) Fail("not enough arguments for format string");
    return values_;
  }

  // %(name): the value of that name in the dict.
  Value NamedValue() {
    if (!values_.is_dict()) Fail("format requires a mapping");
    const size_t begin = at_;
    int open = 1;
    while (open > 0) {
      const char c = Take();
      if (c == '(') ++open;
      if (c == ')') --open;
    }
    const std::string_view name = view_.substr(begin, at_ - 1 - begin);
    const Value* found = values_.AsDict().Find(name);
    if (found == nullptr) Fail("no key '", name, "' for format string");
    return *found;
  }

  int64_t NumberOrStar() {
    if (at_ < view_.size() && view_[at_] == '*') {
      ++at_;
      return ToIndex(NextValue(), "* of a format string");
    }
    const size_t begin = at_;
    while (at_ < view_.size() && view_[at_] >= '0' && view_[at_] <= '9') ++at_;
    if (begin == at_) return 0;
    const auto number = ParseNumber<int64_t>(view_.substr(begin, at_ - begin));
    if (!number) Fail("width or precision too big");
    return *number;
  }

  void Directive() {
    ++at_;
    std::optional<Value> named;
    if (at_ < view_.size() && view_[at_] == '(') {
      ++at_;
      named = NamedValue();
    }
    FormatSpec spec;
    bool zero = false;
    bool left = false;
    for (;
         at_ < view_.size() && std::string_view("#0- +").find(view_[at_]) != std::string_view::npos;
         ++at_) {
      const char flag = view_[at_];
      spec.alternate |= flag == '#';
      zero |= flag == '0';
      left |= flag == '-';
      if (flag == '+' || (flag == ' ' && spec.sign == 0)) spec.sign = flag;
    }
    spec.width = NumberOrStar();
    if (spec.width < 0) {
      left = true;
      spec.width = -std::max(spec.width, -(int64_t{1} << 40));
    }
    if (at_ < view_.size() && view_[at_] == '.') {
      ++at_;
      spec.precision = std::max<int64_t>(NumberOrStar(), 0);
    }
    while (at_ < view_.size() && std::string_view("hlL").find(view_[at_]) != std::string_view::npos)
      ++at_;
    spec.type = Take();
    if (spec.type == '%') {
      out_.Append("%", true);
      return;
    }
    spec.align = left ? '<' : '>';
    Convert(named ? *named : NextValue(), spec, zero && !left);
  }

  void Convert(const Value& value, FormatSpec& spec, bool zero) {
    switch (spec.type) {
      case 's':
        return AppendText(ToText(runtime_, value), spec);
      case 'r':
      case 'a':
        return AppendText(Repr(runtime_, value), spec);
      case 'c':
        spec.precision = -1;
        return AppendText(Character(value), spec);
      case 'd':
      case 'i':
      case 'u':
      case 'o':
      case 'x':
      case 'X':
        return AppendInteger(value, spec, zero);
      case 'e':
      case 'E':
      case 'f':
      case 'F':
      case 'g':
      case 'G':
        break;
      default:
        Fail("unsupported format character '", spec.type, "'");
    }
    if (!value.is_number()) {
      RequireDefined(value);
      Fail("must be real number, not ", value.TypeName());
    }
    if (zero) UseZeros(spec);
    out_.Append(PadFormatted(runtime_, FormatReal(value.AsDouble(), spec), spec, true));
  }

  static void UseZeros(FormatSpec& spec) {
    spec.fill = '0';
    spec.align = '=';
  }

  void AppendText(const Text& text, const FormatSpec& spec) {
    const size_t end = spec.precision < 0
                           ? text.size()
                           : OffsetOfChar(text.view(), static_cast<size_t>(spec.precision));
    const Text cut = text.Sub(runtime_.budget(), 0, end);
    out_.Append(
        Pad(runtime_, cut, spec.width, ' ', spec.align == '<' ? Side::kRight : Side::kLeft));
  }

  // Of a number, or a text of one character. Never trusted as a number: a request could spell
  // anything with it.
  Text Character(const Value& value) const {
    if (value.is_string()) {
      if (CountUtf8(value.AsText().view()) != 1) Fail("%c requires int or char");
      return value.AsText();
    }
    const int64_t code = ToIndex(value, "%c");
    if (code < 0 || code > 0x10FFFF || (code >= 0xD800 && code <= 0xDFFF))
      Fail("%c arg not in range");
    std::string text;
    AppendUtf8(static_cast<char32_t>(code), text);
    return Text(std::move(text), false);
  }

  void AppendInteger(const Value& value, FormatSpec& spec, bool zero) {
    if (!value.is_number()) {
      RequireDefined(value);
      Fail("%", spec.type, " format: a real number is required, not ", value.TypeName());
    }
    int64_t number = 0;
    if (value.is_float()) {
      const bool hexadecimal = spec.type == 'o' || spec.type == 'x' || spec.type == 'X';
      if (hexadecimal) Fail("%", spec.type, " format: an integer is required, not float");
      const double whole = value.AsDouble();
      if (!(whole > -0x1p63 && whole < 0x1p63))
        Fail("cannot convert float ", FormatFloat(whole), " to integer");
      number = static_cast<int64_t>(whole);
    } else {
      number = value.AsInt();
    }
    FormattedNumber formatted = FormatInteger(number, spec);
    // Precision is the least number of digits here.
    if (spec.precision > 1000) Fail("precision too big");
    const auto size = static_cast<int64_t>(formatted.digits.size());
    if (size < spec.precision)
      formatted.digits.insert(0, static_cast<size_t>(spec.precision - size), '0');
    if (zero) UseZeros(spec);
    out_.Append(PadFormatted(runtime_, formatted, spec, true));
  }

  Runtime& runtime_;
  const Text& format_;
  std::string_view view_;
  const Value& values_;
  TextBuilder out_;
  size_t at_ = 0;
  size_t next_ = 0;
};

// "{}".format(values), after Python's format string syntax.
class BraceFormatter {
 public:
  BraceFormatter(Runtime& runtime, const CallArgs& args) : runtime_(runtime), args_(args) {}

  // Fields may stand inside of the specification of a field, one level deep.
  Text Run(const Text& format, int depth) {
    TextBuilder out(runtime_.budget());
    const std::string_view view = format.view();
    size_t at = 0;
    while (at < view.size()) {
      const size_t brace = std::min(view.find_first_of("{}", at), view.size());
      out.AppendSub(format, at, brace);
      if (brace == view.size()) break;
      const bool twice = brace + 1 < view.size() && view[brace + 1] == view[brace];
      if (twice) {
        out.AppendSub(format, brace, brace + 1);
        at = brace + 2;
        continue;
      }
      if (view[brace] == '}') Fail("Single '}' encountered in format string");
      const size_t end = FieldEnd(view, brace + 1);
      out.Append(Field(format.Sub(runtime_.budget(), brace + 1, end), depth));
      at = end + 1;
    }
    return out.Build();
  }

 private:
  // Offset of the '}' that closes a field.
  static size_t FieldEnd(std::string_view view, size_t at) {
    int open = 1;
    for (; at < view.size(); ++at) {
      if (view[at] == '[') {  // an index ends at its bracket, whatever is in it
        at = std::min(view.find(']', at), view.size());
        continue;
      }
      if (view[at] == '{') ++open;
      if (view[at] == '}' && --open == 0) return at;
    }
    Fail(at == view.size() && open == 1 ? "expected '}' before end of string"
                                        : "Single '{' encountered in format string");
  }

  Text Field(const Text& field, int depth) {
    if (depth > 1) Fail("Max string recursion exceeded");
    const std::string_view view = field.view();
    size_t name_end = 0;
    bool in_brackets = false;
    for (; name_end < view.size(); ++name_end) {
      const char c = view[name_end];
      if (c == '[') in_brackets = true;
      if (c == ']') in_brackets = false;
      if (!in_brackets && (c == '!' || c == ':')) break;
    }
    Value value = Lookup(view.substr(0, name_end));
    size_t at = name_end;
    if (at < view.size() && view[at] == '!') {
      if (at + 1 >= view.size()) Fail("end of string while looking for conversion specifier");
      value = Converted(value, view[at + 1]);
      at += 2;
      if (at < view.size() && view[at] != ':') Fail("expected ':' after conversion specifier");
    }
    if (at >= view.size()) return ToText(runtime_, value);
    const Text spec_text = Run(field.Sub(runtime_.budget(), at + 1, view.size()), depth + 1);
    if (spec_text.empty()) return ToText(runtime_, value);
    const Text formatted = FormatValue(runtime_, value, ParseFormatSpec(spec_text.view()));
    // A specification from a request can choose the fill.
    return spec_text.trusted() ? formatted : Text(std::string(formatted.view()), false);
  }

  Value Converted(const Value& value, char conversion) const {
    switch (conversion) {
      case 's':
        return Value(ToText(runtime_, value));
      case 'r':
      case 'a':
        return Value(Repr(runtime_, value));
      default:
        Fail("Unknown conversion specifier ", conversion);
    }
  }

  // "name", "0", "" (the next), then .attribute and [index] as often as wanted.
  Value Lookup(std::string_view name) {
    const size_t end = std::min(name.find_first_of(".["), name.size());
    Value value = Argument(name.substr(0, end));
    name.remove_prefix(end);
    while (!name.empty()) {
      runtime_.budget().Steps();
      if (name[0] == '.') {
        const size_t stop = std::min(name.find_first_of(".[", 1), name.size());
        if (stop == 1) Fail("Empty attribute in format string");
        value = GetAttribute(runtime_, value, name.substr(1, stop - 1));
        name.remove_prefix(stop);
        continue;
      }
      if (name[0] != '[') Fail("Only '.' or '[' may follow ']' in format field specifier");
      const size_t stop = name.find(']');
      if (stop == std::string_view::npos) Fail("Missing ']' in format string");
      const std::string_view key = name.substr(1, stop - 1);
      if (key.empty()) Fail("Empty attribute in format string");
      const auto index = key[0] == '-' ? std::nullopt : ParseNumber<int64_t>(key);
      value = GetItem(runtime_, value, index ? Value(*index) : Value::Literal(key));
      name.remove_prefix(stop + 1);
    }
    return value;
  }

  Value Argument(std::string_view name) {
    std::optional<int64_t> index;
    if (name.empty()) {
      if (numbered_)
        Fail("cannot switch from manual field specification to automatic field numbering");
      index = next_++;
    } else if (name[0] >= '0' && name[0] <= '9') {
      index = ParseNumber<int64_t>(name);
      if (index && next_ > 0) {
        Fail("cannot switch from automatic field numbering to manual field specification");
      }
      numbered_ = numbered_ || index.has_value();
    }
    if (index) {
      if (*index >= static_cast<int64_t>(args_.positional.size())) {
        Fail("Replacement index ", *index, " out of range for positional args tuple");
      }
      return args_.positional[static_cast<size_t>(*index)];
    }
    for (const auto& [key, value] : args_.named) {
      if (key.view() == name) return value;
    }
    Fail("format() has no argument '", name, "'");
  }

  Runtime& runtime_;
  const CallArgs& args_;
  int64_t next_ = 0;
  bool numbered_ = false;
};

}  // namespace

Text FormatPercent(Runtime& runtime, const Text& format, const Value& values) {
  return PercentFormatter(runtime, format, values).Run();
}

Text FormatBraces(Runtime& runtime, const Text& format, const CallArgs& args) {
  return BraceFormatter(runtime, args).Run(format, 0);
}

}  // namespace erne::jinja
