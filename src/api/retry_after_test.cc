#include "api/retry_after.h"

#include <gtest/gtest.h>

namespace erne {
namespace {

TEST(RetryEstimate, ClientsComeBackAsPlacesBecomeFree) {
  RetryEstimate estimate;
  double now = 1000;
  for (int i = 0; i < 500; ++i) {
    now += 0.45;  // each inside for a minute
    estimate.OnEnd(now - 60, now);
  }
  EXPECT_EQ(estimate.OnRefused(), 1);
  EXPECT_EQ(estimate.OnRefused(), 1);
  EXPECT_EQ(estimate.OnRefused(), 2);
  EXPECT_EQ(estimate.OnRefused(), 2);
  EXPECT_EQ(estimate.OnRefused(), 3);
  for (int i = 0; i < 5; ++i) {
    now += 0.45;
    estimate.OnEnd(now - 60, now);
  }
  EXPECT_EQ(estimate.OnRefused(), 1) << "the line has moved on";
}

TEST(RetryEstimate, RequestsOfABatchThatEndTogetherCountAsTheirMean) {
  RetryEstimate estimate;
  double now = 1000;
  for (int batch = 0; batch < 40; ++batch) {
    now += 8;
    for (int i = 0; i < 8; ++i) estimate.OnEnd(now - 8, now);  // one a second in the mean
  }
  int64_t seconds = 0;
  for (int i = 0; i < 30; ++i) seconds = estimate.OnRefused();
  EXPECT_GE(seconds, 25);
  EXPECT_LE(seconds, 35);
}

TEST(RetryEstimate, AnIdleTimeIsNotSlowness) {
  RetryEstimate estimate;
  estimate.OnEnd(99.8, 100);
  estimate.OnEnd(100'000, 100'000.2);
  for (int i = 0; i < 4; ++i) EXPECT_EQ(estimate.OnRefused(), 1);
}

TEST(RetryEstimate, IsBoundedAndForgetsThoseWhoWereSentAwayForLong) {
  RetryEstimate estimate;
  EXPECT_EQ(estimate.OnRefused(), 1) << "nothing has ended yet";
  for (int i = 0; i < 100'000; ++i) estimate.OnRefused();
  EXPECT_EQ(estimate.OnRefused(), RetryEstimate::kMostSeconds);
  double now = 1000;
  for (int i = 0; i < 5000; ++i) {
    now += 0.1;
    estimate.OnEnd(now - 1, now);
  }
  EXPECT_EQ(estimate.OnRefused(), 1);
}

}  // namespace
}  // namespace erne
