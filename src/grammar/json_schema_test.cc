#include "grammar/json_schema.h"

#include <random>
#include <string>

#include <gtest/gtest.h>

#include "base/utf8.h"
#include "grammar/test_vocabulary.h"

namespace erne::grammar {
namespace {

class Schema {
 public:
  explicit Schema(const std::string& text) : grammar_(TestCompile(Form::Kind::kJsonSchema, text)) {
    EXPECT_TRUE(grammar_.ok()) << text << ": " << grammar_.status().message();
  }
  bool Takes(std::string_view answer) const { return grammar_.ok() && Matches(*grammar_, answer); }
  const std::shared_ptr<const CompiledGrammar>& grammar() const { return *grammar_; }

 private:
  Result<std::shared_ptr<const CompiledGrammar>> grammar_;
};

TEST(JsonSchema, Strings) {
  const Schema any(R"({"type": "string"})");
  EXPECT_TRUE(any.Takes(R"("a\"\\\n\u4f60\ud83d\ude00你")"));
  for (const char* bad :
       {R"("a)", "\"\n\"", R"("\x")", R"("\ud83d")", R"("\ude00")", "\"\xff\"", " \"a\""}) {
    EXPECT_FALSE(any.Takes(bad)) << bad;
  }
  const Schema sized(R"({"type": "string", "minLength": 2, "maxLength": 3})");
  EXPECT_TRUE(sized.Takes("\"你好\""));
  EXPECT_TRUE(sized.Takes(R"("a\n😀")"));
  EXPECT_FALSE(sized.Takes("\"a\""));
  EXPECT_FALSE(sized.Takes("\"abcd\""));
  const Schema pattern(R"({"type": "string", "pattern": "b\"?$", "maxLength": 3})");
  EXPECT_TRUE(pattern.Takes("\"aab\""));
  EXPECT_TRUE(pattern.Takes(R"("ab\"")"));
  EXPECT_FALSE(pattern.Takes("\"aaab\""));
  EXPECT_FALSE(pattern.Takes("\"aba\""));
}

TEST(JsonSchema, Formats) {
  const auto takes = [](const std::string& format, const std::string& text) {
    return Schema(R"({"type": "string", "format": ")" + format + "\"}").Takes("\"" + text + "\"");
  };
  EXPECT_TRUE(takes("date", "2026-12-31"));
  EXPECT_FALSE(takes("date", "2026-02-30"));
  EXPECT_TRUE(takes("date-time", "2026-12-31T23:59:59.5+08:00"));
  EXPECT_TRUE(takes("time", "00:00:00Z"));
  EXPECT_FALSE(takes("time", "24:00:00Z"));
  EXPECT_TRUE(takes("uuid", "123e4567-e89b-12d3-a456-426614174000"));
  EXPECT_TRUE(takes("email", "a.b@example.com"));
  EXPECT_FALSE(takes("email", "a@b@example.com"));
  EXPECT_TRUE(takes("ipv4", "255.0.10.1"));
  EXPECT_FALSE(takes("ipv4", "256.0.10.1"));
  EXPECT_TRUE(takes("uri", "https://example.com:8080/a/b?c=d#e"));
  EXPECT_TRUE(takes("duration", "P3DT4H"));
}

TEST(JsonSchema, IntegersInARangeAreExactlyThose) {
  std::mt19937 random(11);
  for (int round = 0; round < 60; ++round) {
    const int64_t low = static_cast<int64_t>(random() % 2400) - 1200;
    const int64_t high = low + static_cast<int64_t>(random() % (round % 2 == 0 ? 12 : 1500));
    const Schema schema(R"({"type": "integer", "minimum": )" + std::to_string(low) +
                        R"(, "exclusiveMaximum": )" + std::to_string(high + 1) + "}");
    for (int i = 0; i < 40; ++i) {
      const int64_t value = i < 4   ? low - 1 + i
                            : i < 8 ? high - 6 + i
                                    : static_cast<int64_t>(random() % 3000) - 1500;
      EXPECT_EQ(schema.Takes(std::to_string(value)), value >= low && value <= high)
          << value << " in " << low << ".." << high;
    }
    EXPECT_FALSE(schema.Takes("-0"));
    EXPECT_FALSE(schema.Takes("007"));
  }
}

TEST(JsonSchema, NumbersInARange) {
  const Schema ratio(R"({"type": "number", "minimum": 0, "maximum": 1})");
  for (const char* good : {"0", "0.25", "1", "1.0", "0.99999"})
    EXPECT_TRUE(ratio.Takes(good)) << good;
  for (const char* bad : {"1.1", "-0.1", "2", "1.01", "0.", ".5", "00.5"})
    EXPECT_FALSE(ratio.Takes(bad)) << bad;
  const Schema open(R"({"type": "number", "exclusiveMinimum": -2, "exclusiveMaximum": 10})");
  for (const char* good : {"-1.9", "0", "9.99", "-0.5", "3"}) EXPECT_TRUE(open.Takes(good)) << good;
  for (const char* bad : {"-2", "-2.0", "10", "10.0", "11", "-3"})
    EXPECT_FALSE(open.Takes(bad)) << bad;
  const Schema any(R"({"type": "number"})");
  for (const char* good : {"-12.5e-3", "0", "1E9"}) EXPECT_TRUE(any.Takes(good)) << good;
  for (const char* bad : {"1e999", "+1", "01", "1.", "1234567890123456"})
    EXPECT_FALSE(any.Takes(bad)) << bad;
}

TEST(JsonSchema, ArraysAndWhiteSpace) {
  const Schema schema(
      R"({"type": "array", "items": {"type": "boolean"}, "minItems": 1, "maxItems": 2})");
  for (const char* good : {"[true]", "[true, false]", "[\n  true,\n  false\n]", "[true,false]"}) {
    EXPECT_TRUE(schema.Takes(good)) << good;
  }
  for (const char* bad :
       {"[]", "[true,]", "[true,true,true]", "[ true]", "[\n\ntrue]", "[1]", "[true] "}) {
    EXPECT_FALSE(schema.Takes(bad)) << bad;
  }
  const Schema tuple(
      R"({"type": "array", "prefixItems": [{"const": 1}, {"const": "a"}], "items": {"type": "null"}})");
  for (const char* good : {"[]", "[1]", "[1, \"a\"]", "[1, \"a\", null, null]"})
    EXPECT_TRUE(tuple.Takes(good)) << good;
  for (const char* bad : {"[\"a\"]", "[1, null]"}) EXPECT_FALSE(tuple.Takes(bad)) << bad;
}

TEST(JsonSchema, ObjectsHaveTheirMembersInOrder) {
  const Schema schema(R"({"type": "object", "required": ["b", "z"], "properties": {
    "a": {"type": "null"}, "b": {"type": "null"}, "c": {"type": "null"}}})");
  EXPECT_TRUE(schema.Takes(R"({"b": null, "z": 1})"));
  EXPECT_TRUE(schema.Takes(R"({"a": null, "b": null, "c": null, "z": {}})"));
  for (const char* bad : {"{}", R"({"a": null, "z": 1})", R"({"b": null, "a": null, "z": 1})",
                          R"({"b": null, "z": 1, "y": 1})"}) {
    EXPECT_FALSE(schema.Takes(bad)) << bad;
  }
  const Schema open(
      R"({"type": "object", "properties": {"a": {"type": "null"}}, "additionalProperties": {"type": "integer"}})");
  for (const char* good :
       {"{}", R"({"a": null})", R"({"b": 1, "ab": 2})", R"({"a": null, "é": 3})"}) {
    EXPECT_TRUE(open.Takes(good)) << good;
  }
  for (const char* bad :
       {R"({"a": 1})", R"({"b": null})", R"({"b": 1, "a": 2})", R"({"\u0061": 2})"}) {
    EXPECT_FALSE(open.Takes(bad)) << bad;
  }
  const Schema map(
      R"({"additionalProperties": {"type": "integer"}, "minProperties": 1, "maxProperties": 2})");
  EXPECT_TRUE(map.Takes(R"({"x":1,"y":2})"));
  EXPECT_FALSE(map.Takes("{}"));
  EXPECT_FALSE(map.Takes(R"({"x":1,"y":2,"z":3})"));
}

TEST(JsonSchema, Combinations) {
  const Schema tree(
      R"({"$defs": {"node": {"type": "object", "properties": {"v": {"type": "integer"},
    "kids": {"type": "array", "items": {"$ref": "#/$defs/node"}}}, "required": ["v"]}}, "$ref": "#/$defs/node"})");
  EXPECT_TRUE(tree.Takes(R"({"v": 1, "kids": [{"v": 2}, {"v": 3, "kids": [{"v": 4}]}]})"));
  EXPECT_FALSE(tree.Takes(R"({"v": 1, "kids": [{}]})"));
  const Schema any(R"({"anyOf": [{"type": "integer"}, {"type": "null"}, {"enum": ["x", "xy"]}]})");
  for (const char* good : {"12", "null", "\"x\"", "\"xy\""}) EXPECT_TRUE(any.Takes(good)) << good;
  const Schema one(R"({"oneOf": [
    {"type": "object", "properties": {"kind": {"const": "a"}, "x": {"type": "integer"}}, "required": ["kind", "x"]},
    {"type": "object", "properties": {"kind": {"const": "b"}}, "required": ["kind"]}]})");
  EXPECT_TRUE(one.Takes(R"({"kind": "a", "x": 1})"));
  EXPECT_TRUE(one.Takes(R"({"kind": "b"})"));
  EXPECT_FALSE(one.Takes(R"({"kind": "a"})"));
  const Schema all(
      R"({"$defs": {"base": {"type": "object", "properties": {"id": {"type": "integer"}}, "required": ["id"]}},
    "allOf": [{"$ref": "#/$defs/base"}, {"properties": {"id": {"minimum": 5}, "n": {"type": "null"}}, "required": ["n"]}]})");
  EXPECT_TRUE(all.Takes(R"({"id": 7, "n": null})"));
  EXPECT_FALSE(all.Takes(R"({"id": 3, "n": null})"));
  EXPECT_FALSE(all.Takes(R"({"id": 7})"));
  const Schema types(R"({"type": ["string", "null"], "maxLength": 1})");
  EXPECT_TRUE(types.Takes("null"));
  EXPECT_FALSE(types.Takes("\"ab\""));
}

TEST(JsonSchema, WhatIsNotSupportedIsNamed) {
  for (const auto& [schema, what] :
       {std::pair{R"({"type": "object", "properties": {"a": {"type": "integer", "multipleOf": 5}}})",
                  "#/properties/a/multipleOf is not supported"},
        {R"({"not": {}})", "#/not"}, {R"({"uniqueItems": true})", "#/uniqueItems"},
        {R"({"$ref": "http://x"})", "http://x"}, {R"({"$ref": "#/$defs/none"})", "#/$defs/none"},
        {R"({"type": "float"})", "#/type"}, {R"({"type": "string", "format": "color"})", "#/format"},
        {R"G({"type": "string", "pattern": "(?=a)"})G", "#/pattern"},
        {R"({"oneOf": [{"type": "integer"}, {"type": "number"}]})", "#/oneOf"},
        {R"({"type": "number", "minimum": 0.5})", "#/minimum"},
        {R"({"type": "string", "maxLength": 1000000})", "too large"},
        {R"({"enum": []})", "allows no value"}, {R"([])", "must be an object"},
        {R"({"$ref": "#"})", "matches it"},
        {R"({"type": "string", "minLength": 2, "maxLength": 1})", "allows no string"}}) {
    const auto grammar = TestCompile(Form::Kind::kJsonSchema, schema);
    ASSERT_FALSE(grammar.ok()) << schema;
    EXPECT_EQ(grammar.status().code(), StatusCode::kInvalidArgument);
    EXPECT_NE(grammar.status().message().find(what), std::string::npos)
        << schema << ": " << grammar.status().message();
  }
}

TEST(JsonSchema, RandomAnswersAreJson) {
  std::mt19937 random(13);
  const auto grammar = TestCompile(Form::Kind::kJsonObject, "");
  ASSERT_TRUE(grammar.ok());
  for (int i = 0; i < 100; ++i) {
    bool ended = false;
    const std::string answer = RandomAnswer(*grammar, 20 + i, random, &ended);
    EXPECT_TRUE(ended);
    const Result<Json> json = Json::Parse(answer);
    ASSERT_TRUE(json.ok()) << answer << ": " << json.status().message();
    EXPECT_TRUE(json->is_object());
  }
}

}  // namespace
}  // namespace erne::grammar
