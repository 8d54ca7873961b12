#include "engine/request.h"

#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace erne {
namespace {

TEST(TokenStream, TakesEventsInOrderAndAppends) {
  int wakes = 0;
  TokenStream stream([&] { ++wakes; });
  std::vector<TokenEvent> events;
  EXPECT_FALSE(stream.Take(events));
  stream.Push({.token = 1});
  stream.Push({.token = 2});
  EXPECT_TRUE(stream.Take(events));
  stream.Push({.token = 3, .finish = FinishReason::kLength});
  EXPECT_TRUE(stream.Take(events));
  EXPECT_FALSE(stream.Take(events));
  ASSERT_EQ(events.size(), 3U);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(events[static_cast<size_t>(i)].token, i + 1);
  EXPECT_EQ(wakes, 3);
}

TEST(TokenStream, NothingFollowsCancel) {
  int wakes = 0;
  TokenStream stream([&] { ++wakes; });
  stream.Push({.token = 1});
  stream.Cancel();
  stream.Push({.token = 2});
  std::vector<TokenEvent> events;
  EXPECT_FALSE(stream.Take(events));
  EXPECT_EQ(wakes, 1);
  EXPECT_TRUE(stream.cancelled());
}

TEST(TokenStream, TheFirstCancelSaysWhatObserversAreTold) {
  TokenStream gone({});
  EXPECT_EQ(gone.cancelled_as(), std::nullopt);
  gone.Cancel();
  gone.Cancel(FinishReason::kStop);
  EXPECT_EQ(gone.cancelled_as(), std::nullopt);

  TokenStream stopped({});
  stopped.Cancel(FinishReason::kStop);
  stopped.Cancel();
  EXPECT_EQ(stopped.cancelled_as(), FinishReason::kStop);
}

TEST(TokenStream, WaitEndsAtTheLastEventAndAtCancel) {
  TokenStream finished({});
  finished.Push({.token = 1, .finish = FinishReason::kStop});
  std::vector<TokenEvent> events;
  finished.WaitAndTake(events);
  finished.WaitAndTake(events);  // does not hang
  EXPECT_EQ(events.size(), 1U);

  TokenStream cancelled({});
  std::thread canceller([&] { cancelled.Cancel(); });
  cancelled.WaitAndTake(events);
  canceller.join();
  EXPECT_EQ(events.size(), 1U);
}

TEST(TokenStream, AProducerAndAConsumer) {
  constexpr int kEvents = 20000;
  std::atomic<int> wakes{0};
  TokenStream stream([&] { ++wakes; });
  std::thread producer([&] {
    for (int i = 0; i < kEvents; ++i) {
      TokenEvent event{.token = i};
      if (i + 1 == kEvents) event.finish = FinishReason::kLength;
      stream.Push(std::move(event));
    }
  });
  std::vector<TokenEvent> events;
  while (events.empty() || !events.back().finish.has_value()) stream.WaitAndTake(events);
  producer.join();
  ASSERT_EQ(events.size(), static_cast<size_t>(kEvents));
  for (int i = 0; i < kEvents; ++i) EXPECT_EQ(events[static_cast<size_t>(i)].token, i);
  EXPECT_EQ(wakes, kEvents);
}

}  // namespace
}  // namespace erne
