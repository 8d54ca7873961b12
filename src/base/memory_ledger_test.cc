#include "base/memory_ledger.h"

#include <atomic>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace erne {
namespace {

using ::testing::HasSubstr;
using Left = MemoryLedger::Left;
using Reservation = MemoryLedger::Reservation;

constexpr uint64_t kMiB = 1 << 20;

MemoryLedger::Plan Exactly(uint64_t bytes) {
  return [bytes](const Left&) { return Result<uint64_t>(bytes); };
}

TEST(MemoryLedgerTest, ClaimsAreGivenBack) {
  MemoryLedger ledger(100);
  {
    const Reservation a = ledger.Reserve("a", 0, Exactly(60)).value();
    EXPECT_EQ(ledger.reserved(), 60U);
    const Reservation b = ledger
                              .Reserve("b", 0,
                                       [](const Left& left) {
                                         return Result<uint64_t>(left.bytes);  // all that is left
                                       })
                              .value();
    EXPECT_EQ(b.bytes(), 40U);
    EXPECT_EQ(ledger.reserved(), 100U);
  }
  EXPECT_EQ(ledger.reserved(), 0U);
}

TEST(MemoryLedgerTest, WhatIsTooMuchIsRefusedWithTheNumbers) {
  MemoryLedger ledger(100 * kMiB);
  const Reservation a = ledger.Reserve("first", 0, Exactly(70 * kMiB)).value();
  const auto b = ledger.Reserve("second", 0, Exactly(31 * kMiB));
  ASSERT_FALSE(b.ok());
  EXPECT_EQ(b.status().code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(
      b.status().message(),
      "second needs 31.0 MiB of memory, 30.0 MiB of 100.0 MiB are left: 70.0 MiB are taken by "
      "first");
  EXPECT_EQ(ledger.reserved(), 70 * kMiB);
}

TEST(MemoryLedgerTest, ThePlanSeesWhatIsLeftAndMayRefuse) {
  MemoryLedger ledger(100);
  const Reservation a = ledger.Reserve("a", 0, Exactly(70)).value();
  const auto b = ledger.Reserve("b", 0, [](const Left& left) {
    EXPECT_EQ(left.bytes, 30U);
    EXPECT_THAT(left.holders, HasSubstr("taken by a"));
    return Result<uint64_t>(ResourceExhausted("too little"));
  });
  EXPECT_EQ(b.status().message(), "too little");
  EXPECT_EQ(ledger.reserved(), 70U);
}

TEST(MemoryLedgerTest, TheCapIsThatOfTheFirstToCome) {
  MemoryLedger ledger;
  std::optional<Reservation> a = ledger.Reserve("a", 100, Exactly(10)).value();
  const std::optional<Reservation> b = ledger.Reserve("b", 5000, Exactly(20)).value();
  EXPECT_EQ(ledger.cap(), 100U);  // what is free now is not what there is to share
  a.reset();
  EXPECT_FALSE(ledger.Reserve("c", 5000, Exactly(90)).ok());
}

TEST(MemoryLedgerTest, AnIdleLedgerTakesANewCap) {
  MemoryLedger ledger;
  ledger.Reserve("a", 100, Exactly(10)).value().GiveBack();
  const Reservation b = ledger.Reserve("b", 200, Exactly(150)).value();
  EXPECT_EQ(ledger.cap(), 200U);
}

TEST(MemoryLedgerTest, ReservationsMove) {
  MemoryLedger ledger(100);
  Reservation a = ledger.Reserve("a", 0, Exactly(10)).value();
  Reservation b = std::move(a);
  EXPECT_EQ(a.bytes(), 0U);  // NOLINT(bugprone-use-after-move): it is empty then
  b.Correct(15);
  EXPECT_EQ(ledger.reserved(), 15U);
  b = ledger.Reserve("b", 0, Exactly(20)).value();
  EXPECT_EQ(ledger.reserved(), 20U);
  b.GiveBack();
  b.GiveBack();
  EXPECT_EQ(ledger.reserved(), 0U);
}

TEST(MemoryLedgerTest, ThreadsNeverHoldMoreThanTheCap) {
  constexpr uint64_t kCap = 10;
  MemoryLedger ledger(kCap);
  std::atomic<uint64_t> held{0};
  std::atomic<int> claims{0};
  std::atomic<bool> exceeded{false};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 2000; ++i) {
        auto reservation = ledger.Reserve("x", 0, [](const Left& left) {
          if (left.bytes < 3) return Result<uint64_t>(ResourceExhausted("full"));
          return Result<uint64_t>(uint64_t{3});
        });
        if (!reservation.ok()) continue;
        if (held.fetch_add(3) + 3 > kCap) exceeded = true;
        ++claims;
        held.fetch_sub(3);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_FALSE(exceeded);
  EXPECT_GT(claims, 0);
  EXPECT_EQ(ledger.reserved(), 0U);
}

}  // namespace
}  // namespace erne
