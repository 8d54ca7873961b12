#include "cli/model_report.h"

#include <cstdlib>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/file_set.h"

namespace erne {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

ModelReport ReportOf(const std::string& folder) {
  const char* source = std::getenv("ERNE_SOURCE");
  const std::string root = source == nullptr ? "." : source;
  ModelReport report;
  report.name = "name";
  report.path = "/path/name";
  report.model = *LoadModel(*OpenFolder(root + folder), {.unpack = false});
  report.executor = {
      .name = "cpu (test)", .weight_type = "w", .activation_type = "a", .kv_type = "k"};
  report.available_bytes = 1 << 30;
  report.utilization = 0.5;
  MemoryPlan plan;
  plan.max_context = 100;
  plan.num_blocks = 7;
  plan.block_bytes = 1024;
  report.plan = plan;
  return report;
}

TEST(ModelReportTest, CountsReadEasily) {
  EXPECT_EQ(FormatCount(0), "0");
  EXPECT_EQ(FormatCount(999), "999");
  EXPECT_EQ(FormatCount(38'463'744), "38.5 M");
  EXPECT_EQ(FormatCount(21'825'437'888), "21.8 B");
}

TEST(ModelReportTest, JsonOfAMixtureOfExperts) {
  const Json json = ReportJson(ReportOf("/models/erne-mini"));
  EXPECT_EQ(json.Find("architecture")->AsString(), "ernie4_5_moe");
  EXPECT_EQ(json.Find("layers")->AsInt(), 8);
  EXPECT_EQ(json.Find("dense_layers")->AsInt(), 1);
  EXPECT_EQ(json.Find("moe")->Dump(),
            R"({"layers":7,"experts":8,"top_k":2,"intermediate":384,"shared_intermediate":384})");
  EXPECT_EQ(json.Find("attention")->Find("rope")->Dump(),
            R"({"style":"interleaved","theta":10000.0,"scaling":null})");
  EXPECT_EQ(json.Find("executor")->Find("kv")->AsString(), "k");
  EXPECT_EQ(json.Find("memory_plan")->Find("kv_bytes")->AsInt(), 7 * 1024);
  EXPECT_EQ(json.Find("tensors")->Find("list"), nullptr);
  int64_t count = 0;
  for (const auto& [type, total] : json.Find("tensors")->Find("by_dtype")->AsObject()) {
    count += total.Find("count")->AsInt();
  }
  EXPECT_EQ(json.Find("tensors")->Find("count")->AsInt(), count);
}

TEST(ModelReportTest, ADenseModelHasNoExperts) {
  ModelReport report = ReportOf("/tests/data/reference-models/llama3-rope-scaling");
  EXPECT_EQ(ReportJson(report).Find("moe")->Find("experts")->AsInt(), 0);
  EXPECT_THAT(ReportText(report, Language::kEnglish), HasSubstr("dense, 0 experts"));
  EXPECT_THAT(ReportText(report, Language::kChinese), HasSubstr("稠密模型，0 个专家"));
  EXPECT_THAT(ReportText(report, Language::kEnglish), HasSubstr("llama3 scaling by 8"));
  EXPECT_THAT(ReportText(report, Language::kEnglish),
              HasSubstr("activations a, keys and values k"));
}

TEST(ModelReportTest, WhatDoesNotFitSaysWhy) {
  ModelReport report = ReportOf("/models/erne-mini");
  report.plan = ResourceExhausted("too little");
  EXPECT_THAT(ReportText(report, Language::kEnglish), HasSubstr("does not fit    too little"));
  const Json json = ReportJson(report);
  EXPECT_FALSE(json.Find("memory_plan")->Find("fits")->AsBool());
  EXPECT_EQ(json.Find("memory_plan")->Find("reason")->AsString(), "too little");
}

TEST(ModelReportTest, TensorsAreListedOnRequest) {
  ModelReport report = ReportOf("/models/erne-mini");
  EXPECT_THAT(ReportText(report, Language::kEnglish), Not(HasSubstr("model.norm.weight")));
  report.with_tensors = true;
  EXPECT_THAT(ReportText(report, Language::kEnglish), HasSubstr("  model.norm.weight "));
  const Json json = ReportJson(report);
  const Json::Array& list = json.Find("tensors")->Find("list")->AsArray();
  EXPECT_EQ(list.size(), static_cast<size_t>(json.Find("tensors")->Find("count")->AsInt()));
  EXPECT_THAT(list.back().Dump(), HasSubstr(R"("name":"model.norm.weight")"));
}

}  // namespace
}  // namespace erne
