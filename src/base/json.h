// JSON (RFC 8259): one value type, a strict parser with limits, and a compact writer.
//
// Written here and not taken from a library because erne_core, which reads config.json and safetensors headers, builds
// with a compiler alone; the server then uses the same one. Strings are well-formed UTF-8 and are written as UTF-8
// (never \u-escaped but for control characters). Objects keep the order of their members; of members with the
// same name the last one counts, as in Python. Values are plain data: safe to read from several threads.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/status.h"

namespace erne {

struct JsonLimits {
  int max_depth = 64;
  // Values in all; bounds the memory that a hostile text can ask for (a value takes about 48 bytes).
  size_t max_values = 4'000'000;
};

class Json {
 public:
  using Array = std::vector<Json>;
  using Member = std::pair<std::string, Json>;
  using Object = std::vector<Member>;

  Json() = default;  // null
  Json(std::nullptr_t) {}                                                  // NOLINT
  Json(bool value) : value_(value) {}                                      // NOLINT
  Json(int value) : value_(static_cast<int64_t>(value)) {}                 // NOLINT
  Json(int64_t value) : value_(value) {}                                   // NOLINT
  Json(size_t value) : value_(static_cast<int64_t>(value)) {}              // NOLINT
  Json(double value) : value_(value) {}                                    // NOLINT
  Json(float value) : value_(static_cast<double>(value)) {}                // NOLINT
  Json(const char* value) : value_(std::string(value)) {}                  // NOLINT
  Json(std::string value) : value_(std::move(value)) {}                    // NOLINT
  Json(std::string_view value) : value_(std::string(value)) {}             // NOLINT
  Json(Array value) : value_(std::move(value)) {}                          // NOLINT
  static Json MakeArray() { return Json(Array{}); }
  static Json MakeObject() {
    Json json;
    json.value_ = Object{};
    return json;
  }
  // Object literal: Json::Of({{"role", "user"}, {"content", text}}).
  static Json Of(std::initializer_list<Member> members) {
    Json json;
    json.value_ = Object(members);
    return json;
  }

  // Parses the whole of `text`. On failure an InvalidArgument that names the byte offset (0-based) of the fault:
  // "invalid JSON at byte 17: expected ':'". A byte order mark in front is skipped: some editors
  // leave one.
  static Result<Json> Parse(std::string_view text, const JsonLimits& limits = {});

  bool is_null() const { return std::holds_alternative<std::monostate>(value_); }
  bool is_bool() const { return std::holds_alternative<bool>(value_); }
  bool is_int() const { return std::holds_alternative<int64_t>(value_); }  // written without fraction or exponent
  bool is_double() const { return std::holds_alternative<double>(value_); }
  bool is_number() const { return is_int() || is_double(); }
  bool is_string() const { return std::holds_alternative<std::string>(value_); }
  bool is_array() const { return std::holds_alternative<Array>(value_); }
  bool is_object() const { return std::holds_alternative<Object>(value_); }
  const char* KindName() const;  // "null", "boolean", "integer", "number", "string", "array", "object"

  // Each is a CHECK failure when the value is of another kind.
  bool AsBool() const;
  int64_t AsInt() const;
  double AsDouble() const;  // of any number
  const std::string& AsString() const;
  const Array& AsArray() const;
  Array& AsArray();
  const Object& AsObject() const;
  Object& AsObject();

  // The member `key` of an object; nullptr when it is absent or this is no object. Linear in the members.
  const Json* Find(std::string_view key) const;
  // Adds or replaces a member of an object.
  void Set(std::string_view key, Json value);
  // Appends to an array.
  void Push(Json value) { AsArray().push_back(std::move(value)); }

  // Compact text. Non-finite numbers are written as null, floats in their shortest exact form.
  std::string Dump() const;
  void DumpTo(std::string& out) const;

  bool operator==(const Json& other) const = default;

 private:
  std::variant<std::monostate, bool, int64_t, double, std::string, Array, Object> value_;
};

// Appends `text` as a JSON string with its quotes.
void AppendJsonString(std::string_view text, std::string& out);

// Typed members of an object, for configuration files: the value, `fallback` when the member is absent or null, or an
// error that names the member and what was found.
Result<int64_t> IntMember(const Json& object, std::string_view key, int64_t fallback);
Result<double> NumberMember(const Json& object, std::string_view key, double fallback);
Result<bool> BoolMember(const Json& object, std::string_view key, bool fallback);
Result<std::string> StringMember(const Json& object, std::string_view key, std::string_view fallback);

}  // namespace erne
