#include "base/status.h"

#include <memory>
#include <string>

#include <gtest/gtest.h>

namespace erne {
namespace {

Result<int> Half(int value) {
  if (value % 2 != 0) return InvalidArgument("odd", "value");
  return value / 2;
}

Result<int> Quarter(int value) {
  ERNE_ASSIGN_OR_RETURN(const int half, Half(value));
  ERNE_ASSIGN_OR_RETURN(int quarter, Half(half));
  return quarter;
}

Status CheckEven(int value) {
  ERNE_RETURN_IF_ERROR(Half(value).status());
  return {};
}

TEST(Status, CarriesCodeMessageAndParam) {
  EXPECT_TRUE(Status().ok());
  const Status status = NotFound("no such model", "model");
  EXPECT_FALSE(status.ok());
  EXPECT_EQ(status.code(), StatusCode::kNotFound);
  EXPECT_EQ(status.message(), "no such model");
  EXPECT_EQ(status.param(), "model");
}

TEST(Status, ContextComesFirstAndKeepsTheRest) {
  const Status status = InvalidArgument("too large", "n").WithContext("config.json");
  EXPECT_EQ(status.message(), "config.json: too large");
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(status.param(), "n");
  EXPECT_TRUE(Status().WithContext("config.json").ok());
}

TEST(Result, HoldsAValueOrAReason) {
  EXPECT_EQ(Half(4).value(), 2);
  EXPECT_EQ(*Half(4), 2);
  EXPECT_TRUE(Half(4).status().ok());
  EXPECT_FALSE(Half(3).ok());
  EXPECT_EQ(Half(3).status().param(), "value");
  Result<std::unique_ptr<std::string>> owner(std::make_unique<std::string>("x"));
  EXPECT_EQ((*owner)->size(), 1u);
  const std::unique_ptr<std::string> taken = *std::move(owner);
  EXPECT_EQ(*taken, "x");
}

TEST(Result, MacrosHandFailuresOn) {
  EXPECT_EQ(Quarter(8).value(), 2);
  EXPECT_EQ(Quarter(6).status().message(), "odd");
  EXPECT_EQ(Quarter(3).status().message(), "odd");
  EXPECT_TRUE(CheckEven(2).ok());
  EXPECT_FALSE(CheckEven(1).ok());
}

TEST(ResultDeathTest, ReadingWhatIsNotThereEndsTheProcess) {
  EXPECT_DEATH(Half(3).value(), "odd");
  EXPECT_DEATH(Result<int>{Status()}, "needs a reason");
}

TEST(CheckDeathTest, NamesFileConditionAndMessage) {
  ERNE_CHECK(1 + 1 == 2) << "never evaluated";
  EXPECT_DEATH(ERNE_CHECK(1 + 1 == 3) << "sum is " << 2,
               "status_test.cc:[0-9]+: check failed: 1 \\+ 1 == 3 sum is 2");
}

}  // namespace
}  // namespace erne
