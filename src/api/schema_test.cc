#include "api/schema.h"

#include <set>

#include <gtest/gtest.h>

#include "api/errors.h"

namespace erne {
namespace {

TEST(Schema, TheTableIsSound) {
  std::set<std::string_view> names;
  for (const RequestField& field : ChatRequestFields()) {
    EXPECT_TRUE(names.insert(field.name).second) << field.name << " is in the table twice";
    EXPECT_FALSE(field.doc.empty()) << field.name;
    EXPECT_LE(field.min, field.max) << field.name;
    if (field.neutral.empty()) continue;
    // What stands for an absent field must itself be a valid value.
    const Result<Json> neutral = Json::Parse(field.neutral);
    ASSERT_TRUE(neutral.ok()) << field.name << ": " << neutral.status().message();
    std::vector<std::string> unknown;
    Json body = Json::MakeObject();
    body.Set(field.name, *neutral);
    const Status status = CheckFields(body, ChatRequestFields(), unknown);
    EXPECT_TRUE(status.ok()) << field.name << ": " << status.message();
    EXPECT_TRUE(unknown.empty()) << field.name;
  }
}

TEST(Schema, NullIsAbsent) {
  for (const RequestField& field : ChatRequestFields()) {
    std::vector<std::string> unknown;
    Json body = Json::MakeObject();
    body.Set(field.name, Json());
    EXPECT_TRUE(CheckFields(body, ChatRequestFields(), unknown).ok()) << field.name;
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
  EXPECT_TRUE(Json::Parse("\"" + shown.substr(1) + "\"").ok())
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
