#include "bench/timing.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace erne::bench {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Case Named(std::string name, std::function<Status()> run) {
  Case made;
  made.name = std::move(name);
  made.tokens = 10;
  made.bytes = 4e9;
  made.operations = 6e9;
  made.run = Timed(std::move(run));
  return made;
}

TEST(TimeInTurns, EachCaseOnceInATurn) {
  std::vector<std::string> order;
  const auto note = [&order](const char* name) {
    return [&order, name] {
      order.emplace_back(name);
      return Status();
    };
  };
  std::vector<Case> cases = {Named("a", note("a")), Named("b", note("b"))};
  const auto meter = RoofMeter::Make(1).value();
  ASSERT_TRUE(TimeInTurns(cases, 2, *meter).ok());
  EXPECT_THAT(order, ElementsAre("a", "b", "a", "b"));
  EXPECT_EQ(cases[0].seconds.size(), 2U);
  EXPECT_EQ(meter->turns(), 2U);
}

TEST(TimeInTurns, EndsWithTheFirstError) {
  std::vector<Case> cases = {Named("a", [] { return Internal("broken"); })};
  const auto meter = RoofMeter::Make(1).value();
  EXPECT_EQ(TimeInTurns(cases, 2, *meter).message(), "broken");
}

TEST(Shares, OfTheRoof) {
  Case timed = Named("a", {});
  timed.seconds = {1.0, 0.5, 4.0};
  const Roof roof{.read = 8e9, .f32 = 24e9, .bf16 = 48e9, .int8 = 96e9};
  const ArithmeticRoof arithmetic{"f32", &Roof::f32};
  EXPECT_EQ(timed.tokens_per_second(), 10);
  EXPECT_EQ(OverlappedSeconds(timed, roof, arithmetic), 0.5);
  EXPECT_EQ(SequentialSeconds(timed, roof, arithmetic), 0.75);
  const Json json = ToJson(std::vector<Case>{timed}, roof, arithmetic).AsArray().at(0);
  EXPECT_EQ(json.Find("read_share")->AsDouble(), 0.5);
  EXPECT_EQ(json.Find("arithmetic_share")->AsDouble(), 0.25);
  EXPECT_EQ(json.Find("roof_share")->AsDouble(), 0.5);
  EXPECT_EQ(json.Find("sequential_roof_share")->AsDouble(), 0.75);
  EXPECT_EQ(json.Find("seconds")->AsArray().size(), 3U);
  const std::string table = Table({timed}, roof, arithmetic);
  EXPECT_THAT(table, HasSubstr("of the f32 roof"));
  EXPECT_THAT(table,
              HasSubstr("| a | 10.0 | 2.50, 20.0 | 4.00 | 50 % | 6.00 | 25 % | 50 %; 75 % |"));
}

}  // namespace
}  // namespace erne::bench
