// Filters that make text or numbers.
#include <charconv>
#include <cmath>
#include <cstdio>
#include <limits>

#include "base/strings.h"
#include "base/utf8.h"
#include "chat/jinja/arguments.h"
#include "chat/jinja/filter_tables.h"
#include "chat/jinja/format.h"
#include "chat/jinja/numbers.h"
#include "chat/jinja/operators.h"
#include "chat/jinja/strings.h"
#include "chat/jinja/unicode.h"

namespace erne::jinja {
namespace {

Value Upper(Runtime& runtime, const Value& input, CallArgs& args) {
  const BoundArgs bound(runtime, args, "upper", {});
  return Value(ChangeCase(runtime, ToText(runtime, input), Case::kUpper));
}

Value Lower(Runtime& runtime, const Value& input, CallArgs& args) {
  const BoundArgs bound(runtime, args, "lower", {});
  return Value(ChangeCase(runtime, ToText(runtime, input), Case::kLower));
}

Value Capitalize(Runtime& runtime, const Value& input, CallArgs& args) {
  const BoundArgs bound(runtime, args, "capitalize", {});
  return Value(ChangeCase(runtime, ToText(runtime, input), Case::kCapitalize));
}

// Words here begin after white space and - ( { [ <, other than for str.title.
Value Title(Runtime& runtime, const Value& input, CallArgs& args) {
  const BoundArgs bound(runtime, args, "title", {});
  const Text text = ToText(runtime, input);
  TextBuilder out(runtime.budget());
  bool word_begins = true;
  text.ForEachRun(0, text.size(), [&](std::string_view run, bool trusted) {
    std::string changed;
    while (!run.empty()) {
      const char32_t c = TakeChar(run);
      if (word_begins) {
        AppendUpper(c, changed);
      } else {
        AppendUtf8(ToLower(c), changed);
      }
      word_begins = IsSpace(c) || c == '-' || c == '(' || c == '{' || c == '[' || c == '<';
    }
    out.Append(changed, trusted);
  });
  return Value(out.Build());
}

Value Trim(Runtime& runtime, const Value& input, CallArgs& args) {
  const BoundArgs bound(runtime, args, "trim", {"chars"});
  const Text text = ToText(runtime, input);
  if (bound.GetUnlessNone(0) == nullptr) return Value(Strip(runtime, text, Side::kBoth));
  return Value(StripChars(runtime, text, bound.RequiredText(0).view(), Side::kBoth));
}

Value ReplaceFilter(Runtime& runtime, const Value& input, CallArgs& args) {
  const BoundArgs bound(runtime, args, "replace", {"old", "new", "count"}, 2);
  const int64_t count = bound.GetUnlessNone(2) == nullptr ? -1 : bound.Int(2, -1);
  return Value(Replace(runtime, ToText(runtime, input), bound.String(0), bound.String(1), count));
}

Value CenterFilter(Runtime& runtime, const Value& input, CallArgs& args) {
  const BoundArgs bound(runtime, args, "center", {"width"});
  return Value(Center(runtime, ToText(runtime, input), bound.Int(0, 80), ' '));
}

Value Indent(Runtime& runtime, const Value& input, CallArgs& args) {
  const BoundArgs bound(runtime, args, "indent", {"width", "first", "blank"});
  if (!input.is_string()) {
    RequireDefined(input);
    Fail("indent works on strings, not on '", input.TypeName(), "'");
  }
  Text indentation;
  if (bound.Get(0) != nullptr && bound.Get(0)->is_string()) {
    indentation = bound.Get(0)->AsText();
  } else {
    TextBuilder spaces(runtime.budget());
    spaces.AppendRepeated(Text(" ", true), bound.Int(0, 4));
    indentation = spaces.Build();
  }
  const bool blank = bound.Bool(2, false);
  const Text newline("\n", true);
  const std::vector<Text> lines =
      SplitLines(runtime, Concatenate(runtime, input.AsText(), newline), false);
  TextBuilder out(runtime.budget());
  if (bound.Bool(1, false)) out.Append(indentation);
  for (size_t i = 0; i < lines.size(); ++i) {
    if (i > 0) {
      out.Append(newline);
      if (blank || !lines[i].empty()) out.Append(indentation);
    }
    out.Append(lines[i]);
  }
  return Value(out.Build());
}

Value Truncate(Runtime& runtime, const Value& input, CallArgs& args) {
  const BoundArgs bound(runtime, args, "truncate", {"length", "killwords", "end", "leeway"});
  const Text text = ToText(runtime, input);
  const Text end = bound.String(2, "...");
  const int64_t length = bound.Int(0, 255);
  const int64_t leeway = bound.GetUnlessNone(3) == nullptr ? 5 : bound.Int(3, 5);
  const auto end_length = static_cast<int64_t>(CountUtf8(end.view()));
  if (length < end_length) Fail("truncate: expected length >= ", end_length, ", got ", length);
  if (leeway < 0) Fail("truncate: expected leeway >= 0, got ", leeway);
  const int64_t size = Length(runtime, input);
  if (size <= length || size - length <= leeway) return input;
  size_t cut = OffsetOfChar(text.view(), static_cast<size_t>(length - end_length));
  if (!bound.Bool(1, false)) {
    const size_t space = text.view().substr(0, cut).rfind(' ');
    if (space != std::string_view::npos) cut = space;
  }
  TextBuilder out(runtime.budget());
  out.AppendSub(text, 0, cut);
  out.Append(end);
  return Value(out.Build());
}

Value WordCount(Runtime& runtime, const Value& input, CallArgs& args) {
  const BoundArgs bound(runtime, args, "wordcount", {});
  const Text text = ToText(runtime, input);
  runtime.budget().Bytes(text.size());
  int64_t count = 0;
  bool inside = false;
  for (std::string_view rest = text.view(); !rest.empty();) {
    const char32_t c = TakeChar(rest);
    const bool word = c == '_' || IsAlpha(c) || IsDecimal(c);
    if (word && !inside) ++count;
    inside = word;
  }
  return Value(count);
}

Value Escape(Runtime& runtime, const Value& input, CallArgs& args) {
  const BoundArgs bound(runtime, args, "escape", {});
  return Value(EscapeHtml(runtime, ToText(runtime, input)));
}

Value ForceEscape(Runtime& runtime, const Value& input, CallArgs& args) {
  const BoundArgs bound(runtime, args, "forceescape", {});
  return Value(EscapeHtml(runtime, ToText(runtime, input).WithMarkup(false)));
}

Value Safe(Runtime& runtime, const Value& input, CallArgs& args) {
  const BoundArgs bound(runtime, args, "safe", {});
  return Value(ToText(runtime, input).WithMarkup(true));
}

Value String(Runtime& runtime, const Value& input, CallArgs& args) {
  const BoundArgs bound(runtime, args, "string", {});
  return Value(ToText(runtime, input));
}

Value Format(Runtime& runtime, const Value& input, CallArgs& args) {
  if (!args.positional.empty() && !args.named.empty()) {
    Fail("can't handle positional and keyword arguments at the same time");
  }
  const Text text = ToText(runtime, input);
  if (args.named.empty()) {
    return Value(
        FormatPercent(runtime, text, Value::MakeTuple(runtime, std::move(args.positional))));
  }
  auto dict = std::make_shared<Dict>();
  for (auto& [name, value] : args.named) dict->Set(runtime, Value(name), std::move(value));
  return Value(FormatPercent(runtime, text, Value(std::shared_ptr<const Dict>(std::move(dict)))));
}

void AppendQuoted(Runtime& runtime, const Text& text, bool for_query, TextBuilder& out) {
  runtime.budget().Bytes(text.size());
  text.ForEachRun(0, text.size(), [&](std::string_view run, bool trusted) {
    std::string quoted;
    for (const char c : run) {
      const bool letter =
          (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
      if (letter || std::string_view("_.-~").find(c) != std::string_view::npos ||
          (c == '/' && !for_query)) {
        quoted.push_back(c);
      } else if (c == ' ' && for_query) {
        quoted.push_back('+');
      } else {
        char hex[4];
        std::snprintf(hex, sizeof(hex), "%%%02X", static_cast<unsigned>(static_cast<uint8_t>(c)));
        quoted += hex;
      }
    }
    out.Append(quoted, trusted);
  });
}

Value UrlEncode(Runtime& runtime, const Value& input, CallArgs& args) {
  const BoundArgs bound(runtime, args, "urlencode", {});
  TextBuilder out(runtime.budget());
  if (input.is_string() || !IsIterable(input)) {
    AppendQuoted(runtime, ToText(runtime, input), false, out);
    return Value(out.Build());
  }
  std::vector<Value> pairs;
  if (input.is_dict()) {
    for (const auto& [key, value] : input.AsDict().items())
      pairs.push_back(Value::MakeTuple(runtime, {key, value}));
  } else {
    pairs = Items(runtime, input);
  }
  for (size_t i = 0; i < pairs.size(); ++i) {
    if (!pairs[i].is_sequence() || pairs[i].AsItems().size() != 2)
      Fail("urlencode needs pairs of key and value");
    if (i > 0) out.Append("&", true);
    AppendQuoted(runtime, ToText(runtime, pairs[i].AsItems()[0]), true, out);
    out.Append("=", true);
    AppendQuoted(runtime, ToText(runtime, pairs[i].AsItems()[1]), true, out);
  }
  return Value(out.Build());
}

// transformers' own: json.dumps(x, ensure_ascii, indent, separators, sort_keys).
Value ToJsonFilter(Runtime& runtime, const Value& input, CallArgs& args) {
  const BoundArgs bound(runtime, args, "tojson",
                        {"ensure_ascii", "indent", "separators", "sort_keys"});
  JsonStyle style;
  style.ascii = bound.Bool(0, false);
  style.sort_keys = bound.Bool(3, false);
  if (const Value* indent = bound.GetUnlessNone(1)) {
    style.item_separator = ",";
    if (indent->is_string()) {
      style.indent = indent->AsText().view();
      style.trusted &= indent->AsText().trusted();
    } else {
      // The limit is ours; it keeps one level of nesting from costing everything.
      const int64_t width = bound.Int(1, 0);
      if (width > 1000) Fail("tojson: indent ", width, " is too large");
      style.indent = std::string(static_cast<size_t>(std::max<int64_t>(width, 0)), ' ');
    }
  }
  if (const Value* separators = bound.GetUnlessNone(2)) {
    const bool pair = separators->is_sequence() && separators->AsItems().size() == 2 &&
                      separators->AsItems()[0].is_string() && separators->AsItems()[1].is_string();
    if (!pair) Fail("tojson: separators must be a pair of strings");
    for (const Value& item : separators->AsItems()) style.trusted &= item.AsText().trusted();
    style.item_separator = separators->AsItems()[0].AsText().view();
    style.key_separator = separators->AsItems()[1].AsText().view();
  }
  return Value(ToJson(runtime, input, style));
}

Value Abs(Runtime& runtime, const Value& input, CallArgs& args) {
  const BoundArgs bound(runtime, args, "abs", {});
  if (input.is_float()) return Value(std::fabs(input.AsDouble()));
  if (!input.is_integral()) {
    RequireDefined(input);
    Fail("bad operand type for abs(): '", input.TypeName(), "'");
  }
  return input.AsInt() < 0 ? Negate(input) : Value(input.AsInt());
}

int64_t ToInt64(double value) {
  if (!(value >= -0x1p63 && value < 0x1p63))
    Fail("cannot convert ", FormatFloat(value), " to an integer of 64 bits");
  return static_cast<int64_t>(value);
}

Value Int(Runtime& runtime, const Value& input, CallArgs& args) {
  const BoundArgs bound(runtime, args, "int", {"default", "base"});
  RequireDefined(input);
  if (input.is_integral()) return Value(input.AsInt());
  const Value fallback = bound.Get(0) == nullptr ? Value(int64_t{0}) : *bound.Get(0);
  std::optional<double> number;
  if (input.is_float()) {
    if (std::isinf(input.AsDouble())) Fail("cannot convert float infinity to integer");
    number = input.AsDouble();
  } else if (input.is_string()) {
    runtime.budget().Bytes(input.AsText().size());
    const int64_t base = bound.Int(1, 10);
    if (const auto value = ParsePythonInt(input.AsText().view(), base)) return Value(*value);
    number = ParsePythonFloat(input.AsText().view());
  }
  if (!number || !std::isfinite(*number)) return fallback;
  return Value(ToInt64(std::trunc(*number)));
}

Value Float(Runtime& runtime, const Value& input, CallArgs& args) {
  const BoundArgs bound(runtime, args, "float", {"default"});
  RequireDefined(input);
  if (input.is_number()) return Value(input.AsDouble());
  if (input.is_string()) {
    runtime.budget().Bytes(input.AsText().size());
    if (const auto value = ParsePythonFloat(input.AsText().view())) return Value(*value);
  }
  return bound.Get(0) == nullptr ? Value(0.0) : *bound.Get(0);
}

Value Round(Runtime& runtime, const Value& input, CallArgs& args) {
  const BoundArgs bound(runtime, args, "round", {"precision", "method"});
  const Text method = bound.String(1, "common");
  const int64_t precision = bound.Int(0, 0);
  if (!input.is_number()) {
    RequireDefined(input);
    Fail("round works on numbers, not on '", input.TypeName(), "'");
  }
  if (method.view() == "common") return RoundHalfEven(input, precision);
  if (method.view() != "ceil" && method.view() != "floor")
    Fail("method must be common, ceil or floor");
  // Beyond these the power of ten is no double.
  if (precision > 300 || precision < -300) Fail("round: precision ", precision, " is out of range");
  const double scale = std::pow(10.0, static_cast<double>(precision));
  const double scaled = input.AsDouble() * scale;
  if (!std::isfinite(scaled)) Fail("round: the number is out of range");
  return Value((method.view() == "ceil" ? std::ceil(scaled) : std::floor(scaled)) / scale);
}

constexpr FilterEntry kFilters[] = {
    {"abs", Abs},
    {"capitalize", Capitalize},
    {"center", CenterFilter},
    {"e", Escape},
    {"escape", Escape},
    {"float", Float},
    {"forceescape", ForceEscape},
    {"format", Format},
    {"indent", Indent},
    {"int", Int},
    {"lower", Lower},
    {"replace", ReplaceFilter},
    {"round", Round},
    {"safe", Safe},
    {"string", String},
    {"title", Title},
    {"tojson", ToJsonFilter},
    {"trim", Trim},
    {"truncate", Truncate},
    {"upper", Upper},
    {"urlencode", UrlEncode},
    {"wordcount", WordCount},
};

}  // namespace

std::span<const FilterEntry> TextFilters() { return kFilters; }

}  // namespace erne::jinja
