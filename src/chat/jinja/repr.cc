// Values as text: str(x), repr(x) and JSON.
#include <charconv>
#include <cmath>
#include <numeric>

#include "base/json.h"
#include "base/utf8.h"
#include "chat/jinja/operators.h"
#include "chat/jinja/unicode.h"

namespace erne::jinja {
namespace {

void AppendHex(uint32_t value, int digits, std::string& out) {
  constexpr char kHex[] = "0123456789abcdef";
  for (int shift = (digits - 1) * 4; shift >= 0; shift -= 4)
    out.push_back(kHex[(value >> shift) & 15]);
}

void AppendReprChar(char32_t c, char quote, std::string& out) {
  if (c == static_cast<char32_t>(quote) || c == '\\') {
    out.push_back('\\');
    out.push_back(static_cast<char>(c));
  } else if (c == '\n') {
    out += "\\n";
  } else if (c == '\r') {
    out += "\\r";
  } else if (c == '\t') {
    out += "\\t";
  } else if (IsPrintable(c)) {
    AppendUtf8(c, out);
  } else if (c < 0x100) {
    out += "\\x";
    AppendHex(c, 2, out);
  } else if (c < 0x10000) {
    out += "\\u";
    AppendHex(c, 4, out);
  } else {
    out += "\\U";
    AppendHex(c, 8, out);
  }
}

void AppendReprText(const Text& text, TextBuilder& out) {
  std::string_view rest = text.view();
  const bool has_single = rest.find('\'') != std::string_view::npos;
  const bool has_double = rest.find('"') != std::string_view::npos;
  const char quote = has_single && !has_double ? '"' : '\'';
  std::string quoted(text.markup() ? "Markup(" : "");
  quoted.push_back(quote);
  while (!rest.empty()) AppendReprChar(TakeChar(rest), quote, quoted);
  quoted.push_back(quote);
  if (text.markup()) quoted.push_back(')');
  out.Append(quoted, text.trusted());
}

void AppendReprItems(Runtime& runtime, const std::vector<Value>& items, TextBuilder& out) {
  const char* separator = "";
  for (const Value& item : items) {
    out.Append(separator, true);
    AppendRepr(runtime, item, out);
    separator = ", ";
  }
}

// The part of a JSON text that is the same on all levels.
class JsonWriter {
 public:
  JsonWriter(Runtime& runtime, const JsonStyle& style)
      : runtime_(runtime), style_(style), out_(runtime.budget()) {}

  Text Write(const Value& value) {
    AppendValue(value, 0);
    return out_.BuildUniform();
  }

 private:
  void Raw(std::string_view text) { out_.Append(text, style_.trusted); }

  void NewLine(int level) {
    if (!style_.indent) return;
    Raw("\n");
    for (int i = 0; i < level; ++i) Raw(*style_.indent);
  }

  void AppendString(const Text& text) {
    std::string quoted;
    AppendJsonString(text.view(), quoted);
    if (style_.ascii && !IsAscii(quoted)) quoted = EscapeNonAscii(quoted);
    out_.Append(quoted, text.trusted());
  }

  static std::string EscapeNonAscii(std::string_view text) {
    std::string out;
    const auto unit = [&out](uint32_t value) {
      out += "\\u";
      AppendHex(value, 4, out);
    };
    while (!text.empty()) {
      const char32_t c = TakeChar(text);
      if (c < 0x80) {
        out.push_back(static_cast<char>(c));
      } else if (c < 0x10000) {
        unit(c);
      } else {
        unit(0xD800 + ((c - 0x10000) >> 10));
        unit(0xDC00 + ((c - 0x10000) & 0x3FF));
      }
    }
    return out;
  }

  static std::string NumberText(const Value& value) {
    if (value.is_int()) return std::to_string(value.AsInt());
    const double number = value.AsDouble();
    if (std::isnan(number)) return "NaN";
    if (std::isinf(number)) return number > 0 ? "Infinity" : "-Infinity";
    return FormatFloat(number);
  }

  void AppendKey(const Value& key) {
    if (key.is_string()) {
      AppendString(key.AsText());
    } else if (key.is_none()) {
      Raw("\"null\"");
    } else if (key.is_bool()) {
      Raw(key.AsBool() ? "\"true\"" : "\"false\"");
    } else if (key.is_number()) {
      Raw(StrCat("\"", NumberText(key), "\""));
    } else {
      Fail("keys must be str, int, float, bool or None, not ", key.TypeName());
    }
  }

  void AppendArray(const std::vector<Value>& items, int level) {
    if (items.empty()) return Raw("[]");
    Raw("[");
    for (size_t i = 0; i < items.size(); ++i) {
      if (i > 0) Raw(style_.item_separator);
      NewLine(level + 1);
      AppendValue(items[i], level + 1);
    }
    NewLine(level);
    Raw("]");
  }

  void AppendObject(const Dict& dict, int level) {
    if (dict.items().empty()) return Raw("{}");
    std::vector<size_t> order(dict.items().size());
    std::iota(order.begin(), order.end(), size_t{0});
    if (style_.sort_keys) {
      std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
        return Less(runtime_, dict.items()[a].first, dict.items()[b].first);
      });
    }
    Raw("{");
    for (size_t i = 0; i < order.size(); ++i) {
      if (i > 0) Raw(style_.item_separator);
      NewLine(level + 1);
      AppendKey(dict.items()[order[i]].first);
      Raw(style_.key_separator);
      AppendValue(dict.items()[order[i]].second, level + 1);
    }
    NewLine(level);
    Raw("}");
  }

  void AppendValue(const Value& value, int level) {
    runtime_.budget().Steps();
    switch (value.kind()) {
      case Kind::kNone:
        return Raw("null");
      case Kind::kBool:
        return Raw(value.AsBool() ? "true" : "false");
      case Kind::kInt:
      case Kind::kFloat:
        return Raw(NumberText(value));
      case Kind::kString:
        return AppendString(value.AsText());
      case Kind::kList:
      case Kind::kTuple:
        return AppendArray(value.AsItems(), level);
      case Kind::kDict:
        return AppendObject(value.AsDict(), level);
      case Kind::kUndefined:
      case Kind::kObject:
        Fail("Object of type ", value.TypeName(), " is not JSON serializable");
    }
  }

  Runtime& runtime_;
  const JsonStyle& style_;
  TextBuilder out_;
};

}  // namespace

std::string FormatFloat(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  // The shortest digits that read back as the same number; Python's choice between the two
  // notations.
  char text[64];
  const auto scientific =
      std::to_chars(text, text + sizeof(text), value, std::chars_format::scientific);
  const std::string_view shortest(text, scientific.ptr - text);
  const int exponent = std::stoi(std::string(shortest.substr(shortest.find('e') + 1)));
  if (exponent < -4 || exponent >= 16) return std::string(shortest);
  // Up to 16 digits before the point, or 4 zeros and 17 digits behind it.
  const auto fixed = std::to_chars(text, text + sizeof(text), value, std::chars_format::fixed);
  std::string out(text, fixed.ptr);
  if (out.find('.') == std::string::npos) out += ".0";
  return out;
}

void AppendRepr(Runtime& runtime, const Value& value, TextBuilder& out) {
  runtime.budget().Steps();
  switch (value.kind()) {
    case Kind::kUndefined:
      out.Append("Undefined", true);
      return;
    case Kind::kNone:
      out.Append("None", true);
      return;
    case Kind::kBool:
      out.Append(value.AsBool() ? "True" : "False", true);
      return;
    case Kind::kInt:
      out.Append(std::to_string(value.AsInt()), true);
      return;
    case Kind::kFloat:
      out.Append(FormatFloat(value.AsDouble()), true);
      return;
    case Kind::kString:
      AppendReprText(value.AsText(), out);
      return;
    case Kind::kList:
      out.Append("[", true);
      AppendReprItems(runtime, value.AsItems(), out);
      out.Append("]", true);
      return;
    case Kind::kTuple:
      out.Append("(", true);
      AppendReprItems(runtime, value.AsItems(), out);
      out.Append(value.AsItems().size() == 1 ? ",)" : ")", true);
      return;
    case Kind::kDict: {
      out.Append("{", true);
      const char* separator = "";
      for (const auto& [key, item] : value.AsDict().items()) {
        out.Append(separator, true);
        AppendRepr(runtime, key, out);
        out.Append(": ", true);
        AppendRepr(runtime, item, out);
        separator = ", ";
      }
      out.Append("}", true);
      return;
    }
    case Kind::kObject:
      value.AsObject().Repr(runtime, out);
      return;
  }
}

Text Repr(Runtime& runtime, const Value& value) {
  TextBuilder out(runtime.budget());
  AppendRepr(runtime, value, out);
  return out.BuildUniform();
}

Text ToText(Runtime& runtime, const Value& value) {
  if (value.is_string()) return value.AsText();
  if (value.is_undefined()) return Text();
  return Repr(runtime, value);
}

Text ToJson(Runtime& runtime, const Value& value, const JsonStyle& style) {
  return JsonWriter(runtime, style).Write(value);
}

}  // namespace erne::jinja
