#include "base/json.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <unordered_map>

#include "base/strings.h"
#include "base/utf8.h"

namespace erne {
namespace {

// Recursive descent; the depth limit bounds the native stack.
class Parser {
 public:
  Parser(std::string_view text, const JsonLimits& limits) : text_(text), limits_(limits) {}

  Result<Json> ParseAll() {
    Json value;
    constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
    if (text_.starts_with(kByteOrderMark)) at_ = kByteOrderMark.size();
    SkipSpace();
    ERNE_RETURN_IF_ERROR(ParseValue(value, 0));
    SkipSpace();
    if (at_ != text_.size()) return Fault("unexpected text after the value");
    return value;
  }

 private:
  Status FaultAt(size_t offset, std::string_view what) const {
    return InvalidArgument(StrCat("invalid JSON at byte ", offset, ": ", what));
  }
  Status Fault(std::string_view what) const {
    return FaultAt(at_, at_ >= text_.size() ? StrCat("unexpected end of text (", what, ")") : std::string(what));
  }

  bool AtEnd() const { return at_ >= text_.size(); }
  char Peek() const { return AtEnd() ? '\0' : text_[at_]; }
  void SkipSpace() {
    while (!AtEnd() && (Peek() == ' ' || Peek() == '\t' || Peek() == '\n' || Peek() == '\r')) ++at_;
  }

  Status ParseValue(Json& out, int depth) {
    if (++values_ > limits_.max_values) return Fault(StrCat("more than ", limits_.max_values, " values"));
    switch (Peek()) {
      case '{': return ParseObject(out, depth + 1);
      case '[': return ParseArray(out, depth + 1);
      case '"': {
        std::string text;
        ERNE_RETURN_IF_ERROR(ParseString(text));
        out = Json(std::move(text));
        return {};
      }
      case 't': return ParseWord("true", Json(true), out);
      case 'f': return ParseWord("false", Json(false), out);
      case 'n': return ParseWord("null", Json(), out);
      default: return ParseNumberValue(out);
    }
  }

  Status ParseWord(std::string_view word, Json value, Json& out) {
    if (text_.substr(at_, word.size()) != word) return Fault("expected a value");
    at_ += word.size();
    out = std::move(value);
    return {};
  }

  Status ParseObject(Json& out, int depth) {
    if (depth > limits_.max_depth) return Fault(StrCat("nested deeper than ", limits_.max_depth));
    ++at_;
    Json::Object members;
    std::unordered_map<std::string, size_t> index;  // filled for large objects: keeps repeated names linear
    SkipSpace();
    if (Peek() == '}') {
      ++at_;
      out = Json::MakeObject();
      return {};
    }
    while (true) {
      SkipSpace();
      if (Peek() != '"') return Fault("expected a member name in quotes");
      std::string key;
      ERNE_RETURN_IF_ERROR(ParseString(key));
      SkipSpace();
      if (Peek() != ':') return Fault("expected ':'");
      ++at_;
      SkipSpace();
      Json value;
      ERNE_RETURN_IF_ERROR(ParseValue(value, depth));
      AddMember(std::move(key), std::move(value), members, index);
      SkipSpace();
      if (Peek() == ',') {
        ++at_;
        continue;
      }
      if (Peek() != '}') return Fault("expected ',' or '}'");
      ++at_;
      out = Json::MakeObject();
      out.AsObject() = std::move(members);
      return {};
    }
  }

  static void AddMember(std::string key, Json value, Json::Object& members,
                        std::unordered_map<std::string, size_t>& index) {
    constexpr size_t kLinear = 16;  // up to here a scan is cheaper than hashing
    size_t found = members.size();
    if (members.size() < kLinear) {
      for (size_t i = 0; i < members.size(); ++i) {
        if (members[i].first == key) found = i;
      }
    } else {
      if (index.empty()) {
        for (size_t i = 0; i < members.size(); ++i) index.emplace(members[i].first, i);
      }
      found = index.emplace(key, members.size()).first->second;
    }
    if (found < members.size()) {
      members[found].second = std::move(value);
    } else {
      members.emplace_back(std::move(key), std::move(value));
    }
  }

  Status ParseArray(Json& out, int depth) {
    if (depth > limits_.max_depth) return Fault(StrCat("nested deeper than ", limits_.max_depth));
    ++at_;
    Json::Array items;
    SkipSpace();
    if (Peek() == ']') {
      ++at_;
      out = Json(std::move(items));
      return {};
    }
    while (true) {
      SkipSpace();
      items.emplace_back();
      ERNE_RETURN_IF_ERROR(ParseValue(items.back(), depth));
      SkipSpace();
      if (Peek() == ',') {
        ++at_;
        continue;
      }
      if (Peek() != ']') return Fault("expected ',' or ']'");
      ++at_;
      out = Json(std::move(items));
      return {};
    }
  }

  Status ParseHex4(uint32_t& out) {
    out = 0;
    for (int i = 0; i < 4; ++i, ++at_) {
      const char c = Peek();
      uint32_t digit = 0;
      if (c >= '0' && c <= '9') {
        digit = c - '0';
      } else if (c >= 'a' && c <= 'f') {
        digit = c - 'a' + 10;
      } else if (c >= 'A' && c <= 'F') {
        digit = c - 'A' + 10;
      } else {
        return Fault("expected four hexadecimal digits after \\u");
      }
      out = out * 16 + digit;
    }
    return {};
  }

  Status ParseUnicodeEscape(std::string& out) {
    const size_t begin = at_ - 2;
    uint32_t code_point = 0;
    ERNE_RETURN_IF_ERROR(ParseHex4(code_point));
    if (code_point >= 0xDC00 && code_point <= 0xDFFF) return FaultAt(begin, "unpaired surrogate");
    if (code_point >= 0xD800 && code_point <= 0xDBFF) {
      if (text_.substr(at_, 2) != "\\u") return FaultAt(begin, "unpaired surrogate");
      at_ += 2;
      uint32_t low = 0;
      ERNE_RETURN_IF_ERROR(ParseHex4(low));
      if (low < 0xDC00 || low > 0xDFFF) return FaultAt(begin, "unpaired surrogate");
      code_point = 0x10000 + ((code_point - 0xD800) << 10) + (low - 0xDC00);
    }
    AppendUtf8(code_point, out);
    return {};
  }

  Status ParseEscape(std::string& out) {
    const char c = Peek();
    ++at_;
    switch (c) {
      case '"':
      case '\\':
      case '/': out.push_back(c); return {};
      case 'b': out.push_back('\b'); return {};
      case 'f': out.push_back('\f'); return {};
      case 'n': out.push_back('\n'); return {};
      case 'r': out.push_back('\r'); return {};
      case 't': out.push_back('\t'); return {};
      case 'u': return ParseUnicodeEscape(out);
      default: --at_; return Fault("unknown escape");
    }
  }

  Status ParseString(std::string& out) {
    ++at_;
    while (true) {
      const size_t begin = at_;
      while (!AtEnd() && Peek() != '"' && Peek() != '\\' && static_cast<uint8_t>(Peek()) >= 0x20) ++at_;
      const std::string_view run = text_.substr(begin, at_ - begin);
      const size_t bad = FindInvalidUtf8(run);
      if (bad != std::string_view::npos) return FaultAt(begin + bad, "not UTF-8");
      out.append(run);
      if (AtEnd()) return Fault("a string is not closed");
      if (Peek() == '"') {
        ++at_;
        return {};
      }
      if (Peek() != '\\') return Fault("control character in a string");
      ++at_;
      ERNE_RETURN_IF_ERROR(ParseEscape(out));
    }
  }

  bool SkipDigits() {
    const size_t begin = at_;
    while (Peek() >= '0' && Peek() <= '9') ++at_;
    return at_ > begin;
  }

  Status ParseNumberValue(Json& out) {
    const size_t begin = at_;
    bool integer = true;
    if (Peek() == '-') ++at_;
    const bool leading_zero = Peek() == '0';
    const size_t digits = at_;
    if (!SkipDigits()) {
      at_ = begin;
      return Fault("expected a value");
    }
    if (leading_zero && at_ > digits + 1) return FaultAt(digits, "a number must not begin with 0");
    if (Peek() == '.') {
      integer = false;
      ++at_;
      if (!SkipDigits()) return Fault("expected digits after '.'");
    }
    if (Peek() == 'e' || Peek() == 'E') {
      integer = false;
      ++at_;
      if (Peek() == '+' || Peek() == '-') ++at_;
      if (!SkipDigits()) return Fault("expected digits in the exponent");
    }
    const std::string_view token = text_.substr(begin, at_ - begin);
    if (integer) {
      if (const auto value = erne::ParseNumber<int64_t>(token)) {
        out = Json(*value);
        return {};
      }
    }
    double value = 0;
    const auto [end, error] = std::from_chars(token.data(), token.data() + token.size(), value);
    if (error == std::errc::result_out_of_range) {
      // Too small is 0, as everywhere; from_chars does not tell it from too large.
      value = std::strtod(std::string(token).c_str(), nullptr);
      if (!std::isfinite(value)) return FaultAt(begin, "number out of range");
    }
    out = Json(value);
    return {};
  }

  std::string_view text_;
  JsonLimits limits_;
  size_t at_ = 0;
  size_t values_ = 0;
};

void AppendDouble(double value, std::string& out) {
  if (!std::isfinite(value)) {
    out += "null";
    return;
  }
  char text[40];
  const auto result = std::to_chars(text, text + sizeof(text), value);
  const std::string_view digits(text, result.ptr - text);
  out += digits;
  // 1.0 stays a number with a fraction, so that it reads back as the kind it was.
  if (digits.find_first_of(".e") == std::string_view::npos) out += ".0";
}

Status KindFault(std::string_view key, std::string_view wanted, const Json& found) {
  return InvalidArgument(StrCat("`", key, "` must be ", wanted, ", not ", found.KindName()), std::string(key));
}

}  // namespace

Result<Json> Json::Parse(std::string_view text, const JsonLimits& limits) {
  return Parser(text, limits).ParseAll();
}

const char* Json::KindName() const {
  constexpr const char* kNames[] = {"null", "boolean", "integer", "number", "string", "array", "object"};
  return kNames[value_.index()];
}

bool Json::AsBool() const {
  ERNE_CHECK(is_bool()) << "JSON " << KindName();
  return std::get<bool>(value_);
}
int64_t Json::AsInt() const {
  ERNE_CHECK(is_int()) << "JSON " << KindName();
  return std::get<int64_t>(value_);
}
double Json::AsDouble() const {
  ERNE_CHECK(is_number()) << "JSON " << KindName();
  return is_int() ? static_cast<double>(std::get<int64_t>(value_)) : std::get<double>(value_);
}
const std::string& Json::AsString() const {
  ERNE_CHECK(is_string()) << "JSON " << KindName();
  return std::get<std::string>(value_);
}
const Json::Array& Json::AsArray() const {
  ERNE_CHECK(is_array()) << "JSON " << KindName();
  return std::get<Array>(value_);
}
Json::Array& Json::AsArray() {
  ERNE_CHECK(is_array()) << "JSON " << KindName();
  return std::get<Array>(value_);
}
const Json::Object& Json::AsObject() const {
  ERNE_CHECK(is_object()) << "JSON " << KindName();
  return std::get<Object>(value_);
}
Json::Object& Json::AsObject() {
  ERNE_CHECK(is_object()) << "JSON " << KindName();
  return std::get<Object>(value_);
}

const Json* Json::Find(std::string_view key) const {
  if (!is_object()) return nullptr;
  for (const Member& member : AsObject()) {
    if (member.first == key) return &member.second;
  }
  return nullptr;
}

void Json::Set(std::string_view key, Json value) {
  for (Member& member : AsObject()) {
    if (member.first == key) {
      member.second = std::move(value);
      return;
    }
  }
  AsObject().emplace_back(std::string(key), std::move(value));
}

void AppendJsonString(std::string_view text, std::string& out) {
  out.push_back('"');
  for (const char c : text) {
    switch (c) {
      case '"': out += "\\\""; break;
      case '\\': out += "\\\\"; break;
      case '\n': out += "\\n"; break;
      case '\r': out += "\\r"; break;
      case '\t': out += "\\t"; break;
      case '\b': out += "\\b"; break;
      case '\f': out += "\\f"; break;
      default:
        if (static_cast<uint8_t>(c) < 0x20) {
          constexpr char kHex[] = "0123456789abcdef";
          out += "\\u00";
          out.push_back(kHex[static_cast<uint8_t>(c) >> 4]);
          out.push_back(kHex[static_cast<uint8_t>(c) & 15]);
        } else {
          out.push_back(c);
        }
    }
  }
  out.push_back('"');
}

void Json::DumpTo(std::string& out) const {
  if (is_null()) {
    out += "null";
  } else if (is_bool()) {
    out += AsBool() ? "true" : "false";
  } else if (is_int()) {
    out += std::to_string(AsInt());
  } else if (is_double()) {
    AppendDouble(AsDouble(), out);
  } else if (is_string()) {
    AppendJsonString(AsString(), out);
  } else if (is_array()) {
    out.push_back('[');
    bool first = true;
    for (const Json& item : AsArray()) {
      if (!first) out.push_back(',');
      item.DumpTo(out);
      first = false;
    }
    out.push_back(']');
  } else {
    out.push_back('{');
    bool first = true;
    for (const Member& member : AsObject()) {
      if (!first) out.push_back(',');
      AppendJsonString(member.first, out);
      out.push_back(':');
      member.second.DumpTo(out);
      first = false;
    }
    out.push_back('}');
  }
}

std::string Json::Dump() const {
  std::string out;
  DumpTo(out);
  return out;
}

Result<int64_t> IntMember(const Json& object, std::string_view key, int64_t fallback) {
  const Json* value = object.Find(key);
  if (value == nullptr || value->is_null()) return fallback;
  if (!value->is_int()) return KindFault(key, "an integer", *value);
  return value->AsInt();
}

Result<double> NumberMember(const Json& object, std::string_view key, double fallback) {
  const Json* value = object.Find(key);
  if (value == nullptr || value->is_null()) return fallback;
  if (!value->is_number()) return KindFault(key, "a number", *value);
  return value->AsDouble();
}

Result<bool> BoolMember(const Json& object, std::string_view key, bool fallback) {
  const Json* value = object.Find(key);
  if (value == nullptr || value->is_null()) return fallback;
  if (!value->is_bool()) return KindFault(key, "true or false", *value);
  return value->AsBool();
}

Result<std::string> StringMember(const Json& object, std::string_view key, std::string_view fallback) {
  const Json* value = object.Find(key);
  if (value == nullptr || value->is_null()) return std::string(fallback);
  if (!value->is_string()) return KindFault(key, "a string", *value);
  return value->AsString();
}

}  // namespace erne
