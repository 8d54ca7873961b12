#include "bench/roof.h"

#include <cstring>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "bench/process_memory.h"

namespace erne::bench {
namespace {

using ::testing::HasSubstr;

TEST(Peaks, EverySetReadsAllBytes) {
  constexpr int64_t kBytes = 8192;
  alignas(64) static uint64_t data[kBytes / 8];
  uint64_t sum = 0;
  for (size_t i = 0; i < kBytes / 8; ++i) {
    data[i] = i * i * 0x9E3779B97F4A7C15;
    sum += data[i];
  }
  ASSERT_FALSE(SupportedPeaks().empty());
  for (const PeakSet& set : SupportedPeaks()) EXPECT_EQ(set.read(data, kBytes), sum) << set.name;
}

// Each round changes what comes out: none was left out by the compiler.
TEST(Peaks, EveryLoopDoesItsRounds) {
  for (const PeakSet& set : SupportedPeaks()) {
    for (const ArithmeticLoop& loop : {set.f32, set.bf16, set.int8}) {
      ASSERT_NE(loop.run, nullptr) << set.name;
      EXPECT_GT(loop.operations, 0);
      EXPECT_NE(loop.instruction, nullptr);
      const float zero = loop.run(0);
      const float one = loop.run(1);
      const float ten = loop.run(10);
      EXPECT_LT(zero, one) << loop.instruction;
      EXPECT_LT(one, ten) << loop.instruction;
      EXPECT_LT(ten, loop.run(100)) << loop.instruction;
    }
  }
}

TEST(Peaks, TheBestIsTheLast) { EXPECT_EQ(BestPeaks().name, SupportedPeaks().back().name); }

TEST(RoofMeter, MeasuresEverything) {
  const auto made = RoofMeter::Make(2);
  ASSERT_TRUE(made.ok()) << made.status().message();
  RoofMeter& meter = **made;
  meter.Measure();
  meter.Measure();
  EXPECT_EQ(meter.turns(), 2U);
  const Roof roof = meter.Median();
  for (const double figure : {roof.read, roof.f32, roof.bf16, roof.int8}) EXPECT_GT(figure, 0);
  const Json json = ToJson(roof, meter);
  EXPECT_EQ(json.Find("threads")->AsInt(), meter.threads());
  EXPECT_EQ(json.Find("read_gb_s")->AsDouble(), roof.read / 1e9);
  EXPECT_THAT(Describe(roof, meter), HasSubstr(meter.peaks().f32.instruction));
}

TEST(Median, OfFewAndMany) {
  EXPECT_EQ(Median({3}), 3);
  EXPECT_EQ(Median({3, 1, 2}), 2);
  EXPECT_EQ(Median({4, 1, 3, 2}), 3);
}

TEST(PeakResident, CountsWhatIsTouched) {
  constexpr size_t kBytes = size_t{64} << 20;
  if (!ResetPeakResident()) GTEST_SKIP() << "the system does not reset the peak";
  const uint64_t before = PeakResident();
  EXPECT_GT(before, 0U);
  {
    const std::vector<char> touched(kBytes, 'x');
    EXPECT_EQ(touched[kBytes / 2], 'x');
    EXPECT_GE(PeakResident(), before + kBytes / 2);
  }
  EXPECT_GE(PeakResident(), before + kBytes / 2);
  ASSERT_TRUE(ResetPeakResident());
  EXPECT_LT(PeakResident(), before + kBytes / 2);
}

}  // namespace
}  // namespace erne::bench
