#include "api/schema.h"

#include <fstream>
#include <set>
#include <sstream>

#include <gtest/gtest.h>

#include "api/errors.h"
#include "base/strings.h"
#include "text/test_support.h"

namespace erne {
namespace {

constexpr Endpoint kEndpoints[] = {Endpoint::kChat, Endpoint::kCompletions, Endpoint::kTokenize,
                                   Endpoint::kDetokenize};

Status Check(Endpoint endpoint, std::string_view name, Json value) {
  std::vector<std::string> unknown;
  Json body = Json::MakeObject();
  if (const size_t dot = name.find('.'); dot != name.npos) {  // a member of a member
    value = Json::Of({{std::string(name.substr(dot + 1)), std::move(value)}});
    name = name.substr(0, dot);
  }
  body.Set(name, std::move(value));
  const Status status = CheckFields(body, endpoint, unknown);
  EXPECT_TRUE(unknown.empty()) << name;
  return status;
}

TEST(Schema, TheTableIsSound) {
  for (const Endpoint endpoint : kEndpoints) {
    std::set<std::string_view> names;
    for (const RequestField& field : RequestFields()) {
      if (!field.IsFor(endpoint)) continue;
      EXPECT_TRUE(names.insert(field.name).second) << field.name << " is in the table twice";
      EXPECT_FALSE(field.doc.empty()) << field.name;
      EXPECT_LE(field.min, field.max) << field.name;
      EXPECT_TRUE(Check(endpoint, field.name, Json()).ok()) << field.name << ": null is absent";
      if (field.neutral.empty()) continue;
      // What stands for an absent field must itself be a valid value.
      const Result<Json> neutral = Json::Parse(field.neutral);
      ASSERT_TRUE(neutral.ok()) << field.name << ": " << neutral.status().message();
      const Status status = Check(endpoint, field.name, *neutral);
      EXPECT_TRUE(status.ok()) << field.name << ": " << status.message();
    }
    EXPECT_TRUE(names.contains("model"));
  }
  for (const RequestField& field : RequestFields()) EXPECT_NE(field.endpoints, 0u) << field.name;
}

TEST(Schema, IntegersBeyond64BitsAreCalledThat) {
  const auto says = [](Json value) {
    return Check(Endpoint::kChat, "seed", std::move(value)).message();
  };
  EXPECT_EQ(says(Json(int64_t{1} << 62)), "");
  EXPECT_EQ(says(Json(9007199254740992.0)), "");
  EXPECT_EQ(says(Json::Parse("18446744073709551615").value()),
            "`seed` must be an integer of at most 64 bits, not 18446744073709551616.0");
  EXPECT_EQ(says(Json(1.5)), "`seed` must be an integer, not 1.5");
}

TEST(Schema, EveryHonouredFieldIsInTheDocumentation) {
  for (const char* page : {"docs/api.md", "docs/api.zh.md"}) {
    std::ifstream file(SourceFolder(page));
    std::stringstream text;
    text << file.rdbuf();
    for (const RequestField& field : RequestFields()) {
      if (field.use != FieldUse::kHonoured) continue;
      const std::string_view name = field.name.substr(field.name.find('.') + 1);
      const bool named = text.str().find(StrCat('`', name, '`')) != std::string::npos ||
                         text.str().find(StrCat('"', name, '"')) != std::string::npos;
      EXPECT_TRUE(named) << field.name << " is not in " << page;
    }
  }
}

TEST(Schema, AFieldIsForItsEndpointsAlone) {
  EXPECT_TRUE(Check(Endpoint::kChat, "logprobs", true).ok());
  EXPECT_FALSE(Check(Endpoint::kChat, "logprobs", 5).ok());
  EXPECT_TRUE(Check(Endpoint::kCompletions, "logprobs", 5).ok());
  EXPECT_FALSE(Check(Endpoint::kCompletions, "logprobs", true).ok());
  std::vector<std::string> unknown;
  EXPECT_TRUE(CheckFields(Json::Of({{"messages", 5}}), Endpoint::kCompletions, unknown).ok());
  EXPECT_EQ(unknown, std::vector<std::string>{"messages"});
}

TEST(Schema, MembersOfMembersAreChecked) {
  const Status status = Check(Endpoint::kChat, "stream_options.resumable_seconds", 61);
  EXPECT_EQ(status.param(), "stream_options.resumable_seconds");
  EXPECT_NE(status.message().find("at most 60, not 61"), std::string::npos) << status.message();
  std::vector<std::string> unknown;
  const Json body = Json::Parse(R"({"stream_options":{"colour":1},"metadata":{"colour":1},
                                    "stream_options.include_usage":true})")
                        .value();
  EXPECT_TRUE(CheckFields(body, Endpoint::kChat, unknown).ok());
  EXPECT_EQ(unknown,
            (std::vector<std::string>{"stream_options.colour", "stream_options.include_usage"}));
}

TEST(Schema, WhatIsNotSupportedSaysWhy) {
  const Status status = Check(Endpoint::kCompletions, "suffix", "x");
  EXPECT_EQ(status.message(),
            "`suffix` is not supported: leave it out. Models here go on from a text; they fill no "
            "gaps.");
}

TEST(Schema, TokenIds) {
  EXPECT_EQ(TokenId(Json(0)), 0);
  EXPECT_EQ(TokenId(Json(7.0)), 7);
  EXPECT_EQ(TokenId(Json(2147483647)), 2147483647);
  for (const Json& bad : {Json(-1), Json(2147483648.0), Json(1.5), Json("1"), Json(), Json(true)}) {
    EXPECT_EQ(TokenId(bad), std::nullopt) << bad.Dump();
  }
}

TEST(Schema, WholeNumbers) {
  EXPECT_TRUE(IsWhole(Json(5)));
  EXPECT_TRUE(IsWhole(Json(5.0)));
  EXPECT_EQ(WholeValue(Json(-5.0)), -5);
  EXPECT_FALSE(IsWhole(Json(5.5)));
  EXPECT_FALSE(IsWhole(Json(1e300)));
  EXPECT_FALSE(IsWhole(Json("5")));
  EXPECT_FALSE(IsWhole(Json(true)));
}

TEST(Schema, ShownIsShort) {
  EXPECT_EQ(Shown(Json("a")), "\"a\"");
  std::string text;
  for (int i = 0; i < 100; ++i) text += "好";
  const std::string shown = Shown(Json(text));
  EXPECT_LE(shown.size(), 63u);
  EXPECT_TRUE(Json::Parse(StrCat('"', shown.substr(1), '"')).ok())
      << "cut between characters: " << shown;
}

TEST(Errors, CodesAndBodies) {
  EXPECT_EQ(HttpStatusOf(StatusCode::kInvalidArgument), 400);
  EXPECT_EQ(HttpStatusOf(StatusCode::kNotFound), 404);
  EXPECT_EQ(HttpStatusOf(StatusCode::kResourceExhausted), 429);
  EXPECT_EQ(HttpStatusOf(StatusCode::kInternal), 500);
  EXPECT_EQ(HttpStatusOf(StatusCode::kUnimplemented), 501);
  EXPECT_EQ(HttpStatusOf(StatusCode::kUnavailable), 503);
  const HttpResponse bad = ErrorResponse(InvalidArgument("`n` is wrong", "n"));
  EXPECT_EQ(bad.status, 400);
  EXPECT_EQ(
      bad.body,
      R"({"error":{"message":"`n` is wrong","type":"BadRequestError","param":"n","code":400}})");
  const HttpResponse full = ErrorResponse(ResourceExhausted("full"));
  EXPECT_EQ(full.body,
            R"({"error":{"message":"full","type":"RateLimitError","param":null,"code":429}})");
  ASSERT_EQ(full.headers.size(), 1u);
  EXPECT_EQ(full.headers[0].first, "Retry-After");
}

}  // namespace
}  // namespace erne
