#include "api/request_log.h"

#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "api/test_log.h"
#include "base/strings.h"

namespace erne {
namespace {

using ::testing::HasSubstr;

RequestRecord Whole() {
  return {.id = "chatcmpl-1f",
          .arrived = 100,
          .started = 100.0031,
          .first_token = 100.085,
          .last_token = 101.525,
          .ended = 101.53,
          .prompt_tokens = 35,
          .cached_tokens = 16,
          .generated_tokens = 121,
          .max_tokens = 500,
          .preemptions = 0,
          .finish = FinishReason::kStop};
}

TEST(DescribeRequest, SaysWhereTheTimeWent) {
  EXPECT_EQ(DescribeRequest(Whole()),
            "id=chatcmpl-1f finish=stop prompt_tokens=35 cached_tokens=16 generated_tokens=121 "
            "queue_ms=3.1 first_token_ms=85.0 mean_interval_ms=12.0 total_ms=1530.0");
}

TEST(DescribeRequest, LeavesOutWhatWasNotReached) {
  EXPECT_EQ(DescribeRequest({.id = "a", .arrived = 10, .ended = 10.5, .prompt_tokens = 3}),
            "id=a finish=abort prompt_tokens=3 cached_tokens=0 generated_tokens=0 total_ms=500.0");
  RequestRecord one = Whole();
  one.generated_tokens = 1;
  one.preemptions = 2;
  one.finish = FinishReason::kAbort;
  EXPECT_EQ(DescribeRequest(one),
            "id=chatcmpl-1f finish=error prompt_tokens=35 cached_tokens=16 generated_tokens=1 "
            "preemptions=2 queue_ms=3.1 first_token_ms=85.0 total_ms=1530.0");
}

class RequestLogTest : public LogTest {
 protected:
  std::vector<std::string> Lines() const {
    std::istringstream log(Log());
    std::vector<std::string> lines;
    for (std::string line; std::getline(log, line);) lines.push_back(line);
    return lines;
  }
};

TEST_F(RequestLogTest, WritesEachRequestOnceInOrder) {
  RequestLog log(LogLevel::kInfo);
  for (int round = 0; round < 3; ++round) {
    for (const char* id : {"first", "second"}) log.Add({.id = StrCat(id, round)});
    log.Write();
    log.Write();
  }
  const std::vector<std::string> lines = Lines();
  ASSERT_EQ(lines.size(), 6U);
  for (size_t i = 0; i < lines.size(); ++i) {
    EXPECT_THAT(lines[i], HasSubstr(StrCat("id=", i % 2 == 0 ? "first" : "second", i / 2, " ")));
    EXPECT_THAT(lines[i], HasSubstr("INFO [request:"));
  }
}

TEST_F(RequestLogTest, KeepsNothingBelowTheLevelOfTheLog) {
  RequestLog log(LogLevel::kDebug);
  log.Add(Whole());
  log.Write();
  EXPECT_TRUE(Lines().empty());
}

TEST_F(RequestLogTest, TooManyAreCounted) {
  RequestLog log(LogLevel::kInfo);
  for (size_t i = 0; i < RequestLog::kCapacity + 3; ++i) log.Add(Whole());
  log.Write();
  EXPECT_EQ(Lines().size(), RequestLog::kCapacity + 1);
  EXPECT_THAT(Lines().back(), HasSubstr("3 more requests"));
}

TEST_F(RequestLogTest, AddsWhileItWrites) {
  RequestLog log(LogLevel::kInfo);
  std::thread engine([&] {
    for (int i = 0; i < 2000; ++i) log.Add(Whole());
  });
  for (int i = 0; i < 20; ++i) log.Write();
  engine.join();
  log.Write();
  EXPECT_EQ(Lines().size(), 2000U);
}

}  // namespace
}  // namespace erne
