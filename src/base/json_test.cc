#include "base/json.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/strings.h"

namespace erne {
namespace {

using ::testing::HasSubstr;

std::string Fault(std::string_view text, const JsonLimits& limits = {}) {
  const Result<Json> json = Json::Parse(text, limits);
  EXPECT_FALSE(json.ok()) << text;
  if (json.ok()) return "";
  EXPECT_EQ(json.status().code(), StatusCode::kInvalidArgument);
  return json.status().message();
}

std::string ReadBack(std::string_view text) {
  const Result<Json> json = Json::Parse(text);
  return json.ok() ? json->Dump() : json.status().message();
}

TEST(Json, ReadsAndWritesEveryKind) {
  EXPECT_EQ(ReadBack(" { \"a\" : [ 1 , -2.5 , true , false , null , \"x\" ] , \"b\" : { } }\r\n\t"),
            R"({"a":[1,-2.5,true,false,null,"x"],"b":{}})");
  EXPECT_EQ(ReadBack("[]"), "[]");
  EXPECT_EQ(ReadBack("\"\""), "\"\"");
}

TEST(Json, Numbers) {
  EXPECT_EQ(ReadBack("9223372036854775807"), "9223372036854775807");
  EXPECT_EQ(ReadBack("-9223372036854775808"), "-9223372036854775808");
  EXPECT_TRUE(Json::Parse("9223372036854775808")->is_double());
  EXPECT_EQ(Json::Parse("9223372036854775808")->AsDouble(), 9223372036854775808.0);
  EXPECT_TRUE(Json::Parse("1")->is_int());
  EXPECT_TRUE(Json::Parse("1.0")->is_double());
  EXPECT_EQ(ReadBack("1.0"), "1.0");
  EXPECT_EQ(ReadBack("1E2"), "100.0");
  EXPECT_EQ(ReadBack("0.1"), "0.1");
  EXPECT_EQ(Json::Parse("-0.5e-3")->AsDouble(), -0.5e-3);
  for (const char* bad :
       {"01", "-", "+1", ".5", "1.", "1e", "1e+", "0x10", "NaN", "Infinity", "-Infinity", "1 2"}) {
    EXPECT_THAT(Fault(bad), HasSubstr("invalid JSON at byte")) << bad;
  }
  EXPECT_THAT(Fault("[1e999]"), HasSubstr("at byte 1: number out of range"));
  EXPECT_THAT(Fault("[-1e999]"), HasSubstr("at byte 1: number out of range"));
}

TEST(Json, NumbersTooSmallForADoubleAreZero) {
  EXPECT_EQ(Json::Parse("1e-999")->AsDouble(), 0.0);
  EXPECT_EQ(Json::Parse("-0." + std::string(500, '0') + "1")->AsDouble(), 0.0);
  EXPECT_EQ(Json::Parse("5e-324")->AsDouble(), std::numeric_limits<double>::denorm_min());
}

TEST(Json, AByteOrderMarkInFrontIsSkipped) {
  EXPECT_TRUE(Json::Parse("\xEF\xBB\xBF {\"a\":1}").ok());
  EXPECT_THAT(Fault("\xEF\xBB\xBF{a"), HasSubstr("at byte 4"));
  EXPECT_THAT(Fault("\xEF\xBB\xBF\xEF\xBB\xBF{}"), HasSubstr("at byte 3"));
  EXPECT_THAT(Fault("\xEF\xBB"), HasSubstr("at byte 0"));
}

TEST(Json, WritesDoublesExactly) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 10'000; ++i) {
    const uint64_t bits = random();
    double value = 0;
    std::memcpy(&value, &bits, sizeof(value));
    if (!std::isfinite(value) ||
        (value != 0 && std::fabs(value) < std::numeric_limits<double>::min()))
      continue;
    ASSERT_EQ(Json::Parse(Json(value).Dump())->AsDouble(), value);
  }
  EXPECT_EQ(Json(std::nan("")).Dump(), "null");
  EXPECT_EQ(Json(std::numeric_limits<double>::infinity()).Dump(), "null");
}

TEST(Json, Strings) {
  EXPECT_EQ(Json::Parse(R"("\"\\\/\b\f\n\r\t\u0041\u00e9\u4e16\ud83d\ude00")")->AsString(),
            "\"\\/\b\f\n\r\tAé世😀");
  EXPECT_EQ(Json::Parse(R"("a\u0000b")")->AsString(), std::string("a\0b", 3));
  EXPECT_EQ(Json("世\n\x01\x7F\"\\/").Dump(), "\"世\\n\\u0001\x7F\\\"\\\\/\"");
  EXPECT_THAT(Fault(R"("\ud83d")"), HasSubstr("at byte 1: unpaired surrogate"));
  EXPECT_THAT(Fault(R"("\ude00")"), HasSubstr("unpaired surrogate"));
  EXPECT_THAT(Fault(R"("\ud83dx")"), HasSubstr("unpaired surrogate"));
  EXPECT_THAT(Fault(R"("\ud83d\u0041")"), HasSubstr("unpaired surrogate"));
  EXPECT_THAT(Fault(R"("\u12g4")"), HasSubstr("four hexadecimal digits"));
  EXPECT_THAT(Fault(R"("\x")"), HasSubstr("at byte 2: unknown escape"));
  EXPECT_THAT(Fault("\"a\nb\""), HasSubstr("at byte 2: control character"));
  EXPECT_THAT(Fault("\"a\xC3\""), HasSubstr("at byte 2: not UTF-8"));
  EXPECT_THAT(Fault("\"abc"),
              HasSubstr("at byte 4: unexpected end of text (a string is not closed)"));
}

TEST(Json, FaultsNameTheByte) {
  EXPECT_EQ(Fault(R"({"a" 1})"), "invalid JSON at byte 5: expected ':'");
  EXPECT_EQ(Fault(R"({"a":1 "b":2})"), "invalid JSON at byte 7: expected ',' or '}'");
  EXPECT_EQ(Fault("[1 2]"), "invalid JSON at byte 3: expected ',' or ']'");
  EXPECT_EQ(Fault("[1,]"), "invalid JSON at byte 3: expected a value");
  EXPECT_EQ(Fault(R"({"a":1,})"), "invalid JSON at byte 7: expected a member name in quotes");
  EXPECT_EQ(Fault("{a:1}"), "invalid JSON at byte 1: expected a member name in quotes");
  EXPECT_EQ(Fault("1 x"), "invalid JSON at byte 2: unexpected text after the value");
  EXPECT_THAT(Fault(""), HasSubstr("at byte 0: unexpected end of text"));
  EXPECT_THAT(Fault("tru"), HasSubstr("at byte 0: expected a value"));
  EXPECT_THAT(Fault(std::string_view("\0", 1)), HasSubstr("at byte 0: expected a value"));
  EXPECT_THAT(Fault("[\xEF\xBB\xBF]"), HasSubstr("at byte 1"));
}

TEST(Json, CutAtEveryByteIsAFault) {
  const std::string text = R"({"a": [1.5e3, "x\u00e9\n", {"b": null}], "c": true})";
  for (size_t size = 0; size < text.size(); ++size) Fault(text.substr(0, size));
  EXPECT_TRUE(Json::Parse(text).ok());
}

TEST(Json, Limits) {
  const auto nested = [](int depth) { return std::string(depth, '[') + std::string(depth, ']'); };
  EXPECT_TRUE(Json::Parse(nested(64)).ok());
  EXPECT_THAT(Fault(nested(65)), HasSubstr("at byte 64: nested deeper than 64"));
  EXPECT_THAT(Fault(std::string(1'000'000, '[')), HasSubstr("nested deeper"));
  std::string objects;
  for (int i = 0; i < 65; ++i) objects += "{\"a\":";
  EXPECT_THAT(Fault(objects), HasSubstr("nested deeper"));
  JsonLimits few;
  few.max_values = 3;
  EXPECT_TRUE(Json::Parse("[1,2]", few).ok());
  EXPECT_THAT(Fault("[1,2,3]", few), HasSubstr("more than 3 values"));
}

TEST(Json, OfMembersWithTheSameNameTheLastCounts) {
  EXPECT_EQ(ReadBack(R"({"a":1,"b":2,"a":3})"), R"({"a":3,"b":2})");
  // Also beyond the size up to which members are searched one by one.
  std::string text = "{";
  for (int round = 0; round < 2; ++round) {
    for (int i = 0; i < 100; ++i) text += StrCat("\"k", i, "\":", 1000 * round + i, ",");
  }
  text.back() = '}';
  const Json json = Json::Parse(text).value();
  ASSERT_EQ(json.AsObject().size(), 100u);
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(json.AsObject()[i].first, StrCat("k", i));
    EXPECT_EQ(json.AsObject()[i].second.AsInt(), 1000 + i);
  }
}

// Searching each new member among all before it would take hours here.
TEST(Json, AMillionMembers) {
  std::string text = "{";
  for (int i = 0; i < 1'000'000; ++i) text += StrCat("\"", i, "\":0,");
  text.back() = '}';
  EXPECT_EQ(Json::Parse(text)->AsObject().size(), 1'000'000u);
}

TEST(Json, BuildsAndFinds) {
  Json json = Json::Of({{"role", "user"}, {"n", 1}});
  json.Set("n", 2.5);
  json.Set("list", Json::MakeArray());
  Json list = Json::MakeArray();
  list.Push("x");
  list.Push(nullptr);
  json.Set("list", list);
  EXPECT_EQ(json.Dump(), R"({"role":"user","n":2.5,"list":["x",null]})");
  ASSERT_NE(json.Find("role"), nullptr);
  EXPECT_EQ(json.Find("role")->AsString(), "user");
  EXPECT_EQ(json.Find("absent"), nullptr);
  EXPECT_EQ(list.Find("role"), nullptr);
  EXPECT_EQ(json, Json::Parse(json.Dump()).value());
  EXPECT_NE(Json(1), Json(1.0));
}

TEST(Json, KindNames) {
  EXPECT_STREQ(Json().KindName(), "null");
  EXPECT_STREQ(Json(true).KindName(), "boolean");
  EXPECT_STREQ(Json(1).KindName(), "integer");
  EXPECT_STREQ(Json(1.5).KindName(), "number");
  EXPECT_STREQ(Json("").KindName(), "string");
  EXPECT_STREQ(Json::MakeArray().KindName(), "array");
  EXPECT_STREQ(Json::MakeObject().KindName(), "object");
}

TEST(Json, TypedMembers) {
  const Json json = Json::Parse(R"({"i": 3, "d": 0.5, "b": true, "s": "x", "n": null})").value();
  EXPECT_EQ(IntMember(json, "i", 7).value(), 3);
  EXPECT_EQ(IntMember(json, "n", 7).value(), 7);
  EXPECT_EQ(IntMember(json, "absent", 7).value(), 7);
  EXPECT_EQ(NumberMember(json, "i", 7).value(), 3.0);
  EXPECT_EQ(NumberMember(json, "d", 7).value(), 0.5);
  EXPECT_EQ(BoolMember(json, "b", false).value(), true);
  EXPECT_EQ(StringMember(json, "s", "y").value(), "x");
  EXPECT_EQ(StringMember(json, "n", "y").value(), "y");
  EXPECT_EQ(IntMember(json, "d", 7).status().message(), "`d` must be an integer, not number");
  EXPECT_EQ(IntMember(json, "d", 7).status().param(), "d");
  EXPECT_EQ(NumberMember(json, "s", 7).status().message(), "`s` must be a number, not string");
  EXPECT_EQ(BoolMember(json, "i", true).status().message(),
            "`i` must be true or false, not integer");
  EXPECT_EQ(StringMember(json, "b", "").status().message(), "`b` must be a string, not boolean");
}

TEST(JsonDeathTest, AWrongKindIsOurOwnMistake) {
  EXPECT_DEATH(Json("x").AsInt(), "JSON string");
  EXPECT_DEATH(Json().AsObject(), "JSON null");
}

}  // namespace
}  // namespace erne
