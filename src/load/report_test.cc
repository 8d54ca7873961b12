#include "load/report.h"

#include <cmath>

#include <gtest/gtest.h>

namespace erne::load {
namespace {

TEST(Percentile, InterpolatesBetweenNeighbours) {
  std::vector<float> values = {4, 1, 3, 2, 5};
  EXPECT_EQ(Percentile(values, 0), 1);
  EXPECT_EQ(Percentile(values, 50), 3);
  EXPECT_DOUBLE_EQ(Percentile(values, 95), 4.8);
  EXPECT_EQ(Percentile(values, 100), 5);
  std::vector<float> one = {7};
  EXPECT_EQ(Percentile(one, 99), 7);
  std::vector<float> none;
  EXPECT_TRUE(std::isnan(Percentile(none, 50)));
}

TEST(Report, TableAndJsonSayTheSame) {
  RunReport run{.mode = "closed", .concurrency = 4, .wall_s = 2};
  run.groups.push_back({.name = "requests", .answered = 6, .refused_429 = 2, .failed = 1});
  run.groups[0].tokens = 100;
  run.groups[0].gap_ms = {10, 20};
  run.faults["no finish_reason"] = 1;
  std::vector<RunReport> runs = {run};
  const Json json = Json::Parse(ToJson(runs).Dump()).value();
  EXPECT_EQ(json.Find("failures")->AsInt(), 1);
  const Json& group = json.Find("runs")->AsArray()[0].Find("groups")->AsArray()[0];
  EXPECT_EQ(group.Find("requests")->AsInt(), 9);
  EXPECT_EQ(group.Find("requests_per_s")->AsDouble(), 3);
  EXPECT_EQ(group.Find("tokens_per_s")->AsDouble(), 50);
  EXPECT_EQ(group.Find("gap_ms")->Find("p50")->AsDouble(), 15);
  EXPECT_TRUE(group.Find("first_ms")->Find("p50")->is_null()) << "nothing was measured";
  const std::string table = Table(runs);
  EXPECT_NE(table.find("FAULT 1 x no finish_reason"), std::string::npos) << table;
}

}  // namespace
}  // namespace erne::load
