#include "api/monitor.h"

#include <chrono>
#include <semaphore>
#include <string>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "api/model_observer.h"
#include "api/test_log.h"
#include "api/test_model.h"

namespace erne {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

GenerationRequest Request(int64_t max_tokens) {
  GenerationRequest request;
  request.prompt = {1, 2, 3};
  request.max_tokens = max_tokens;
  return request;
}

class MonitorTest : public LogTest {
 protected:
  void WaitForLog(const std::string& text) const {
    while (Log().find(text) == std::string::npos) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }
};

TEST_F(MonitorTest, LogsStatsAStallAndTheRecovery) {
  std::counting_semaphore<> may_step(0);
  const auto model = MakeTestModel([](int64_t) { return 'a'; }, 1024,
                                   [&] {
                                     may_step.acquire();
                                     return Status();
                                   });
  const Monitor monitor(model, {.stats_interval_ms = 20, .stall_ms = 50, .tick_ms = 5});
  const auto stream = std::make_shared<TokenStream>([] {});
  ASSERT_TRUE(model->engine->Submit(Request(2), stream).ok());
  WaitForLog("ERROR [watchdog:");
  EXPECT_THAT(Log(), HasSubstr("the engine hangs"));
  may_step.release(2);
  WaitForLog("the engine works again");
  WaitForLog("INFO [stats:");
  EXPECT_THAT(Log(), HasSubstr("] STATS num_requests_running="));
}

TEST_F(MonitorTest, ZeroTurnsStatsOffAndTheRestStays) {
  const auto model = MakeTestModel([](int64_t) { return 'a'; });
  model->observer = std::make_shared<ModelObserver>(
      Metrics().AddModel({.name = "m", .max_context = 10}), LogLevel::kInfo);
  {
    const Monitor monitor(model, {.stats_interval_ms = 0, .tick_ms = 1});
    model->observer->OnEnd({.id = "warm-up"});  // before Begin
    model->observer->Begin();
    const auto stream = std::make_shared<TokenStream>([] {});
    ASSERT_TRUE(model->engine->Submit(Request(500), stream).ok());
    std::vector<TokenEvent> events;
    while (events.empty() || !events.back().finish) stream->WaitAndTake(events);
    model->observer->OnEnd({.id = "early"});
    WaitForLog("id=early");
    model->observer->OnEnd({.id = "late"});
  }
  EXPECT_THAT(Log(), HasSubstr("id=late")) << "its last act";
  EXPECT_THAT(Log(), Not(HasSubstr("STATS")));
  EXPECT_THAT(Log(), Not(HasSubstr("warm-up")));
}

}  // namespace
}  // namespace erne
