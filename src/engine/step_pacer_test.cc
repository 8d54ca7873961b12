#include "engine/step_pacer.h"

#include <gtest/gtest.h>

namespace erne {
namespace {

// A machine on which a step takes this long: rows are cheaper in large chunks.
double Seconds(const StepShape& step) {
  const auto rows = static_cast<double>(step.prompt_rows);
  return 0.010 + 0.001 * static_cast<double>(step.decoding) + 0.0002 * rows +
         (rows > 0 ? 0.001 : 0.0) + 0.0005 * static_cast<double>(step.drafted);
}

void Measure(StepPacer& pacer, const StepShape& step) { pacer.Add(step, Seconds(step)); }

TEST(StepPacer, TakesAllItCanWhileItKnowsNothingOrNobodyDecodes) {
  StepPacer pacer(8, 512);
  EXPECT_EQ(pacer.MaxPromptRows(4, 1, 100), 512);
  Measure(pacer, {.prompt_rows = 512});
  Measure(pacer, {.decoding = 4});
  EXPECT_EQ(pacer.MaxPromptRows(0, 1, 100), 512);
  EXPECT_LT(pacer.MaxPromptRows(4, 1, 100), 512);
}

TEST(StepPacer, StretchesAStepAsFarAsItSays) {
  StepPacer pacer(8, 512);
  Measure(pacer, {.prompt_rows = 512});
  for (int i = 0; i < 20; ++i) Measure(pacer, {.decoding = 8});
  StepShape step{.decoding = 8};
  for (int i = 0; i < 200; ++i) {
    step.prompt_rows = pacer.MaxPromptRows(8, 1, 100);
    Measure(pacer, step);
  }
  const double ratio = Seconds(step) / Seconds({.decoding = 8});
  EXPECT_NEAR(ratio, 1 + StepPacer::kPromptStretch, 0.02);
}

// A row of a small chunk looks dear where it is the chunk that costs; smaller ones would be dearer.
TEST(StepPacer, AChunkIsNeverSmallerThanTheExecutorsLeast) {
  const StepShape decoding = {.decoding = 8};
  StepPacer pacer(8, 512, 128);
  Measure(pacer, {.prompt_rows = 512});
  Measure(pacer, decoding);
  for (int i = 0; i < 20; ++i) {
    pacer.Add({.decoding = 8, .prompt_rows = 128}, Seconds(decoding) + 0.1);
    EXPECT_EQ(pacer.MaxPromptRows(8, 1, 500), 128);
  }
}

TEST(StepPacer, ACrowdIsLetInFaster) {
  StepPacer pacer(8, 512);
  Measure(pacer, {.prompt_rows = 512});
  Measure(pacer, {.decoding = 8});
  Measure(pacer, {.decoding = 8, .prompt_rows = 30});
  const int64_t one = pacer.MaxPromptRows(8, 1, 100);
  EXPECT_NEAR(static_cast<double>(pacer.MaxPromptRows(8, 2, 100)), 2.0 * static_cast<double>(one),
              1);
  EXPECT_NEAR(static_cast<double>(pacer.MaxPromptRows(8, 3, 100)), 4.0 * static_cast<double>(one),
              2);
  EXPECT_EQ(pacer.MaxPromptRows(8, 100, 100), 512);
  EXPECT_EQ(pacer.MaxPromptRows(5, 1, 100), pacer.MaxPromptRows(8, 1, 100))
      << "8 is the nearest it knows";
}

TEST(StepPacer, ADisturbedStepChangesLittle) {
  StepPacer pacer(8, 512);
  Measure(pacer, {.prompt_rows = 512});
  for (int i = 0; i < 50; ++i) Measure(pacer, {.decoding = 8});
  const int64_t before = pacer.MaxPromptRows(8, 1, 100);
  pacer.Add({.decoding = 8}, 60.0);
  EXPECT_LT(pacer.MaxPromptRows(8, 1, 100), 2 * before);
}

TEST(StepPacer, APromptIsNotHeldUpForEver) {
  StepPacer pacer(1, 512);
  pacer.Add({.decoding = 1}, 1e-6);
  pacer.Add({.prompt_rows = 1}, 10.0);
  EXPECT_EQ(pacer.MaxPromptRows(1, 1, 1), 1);
  EXPECT_EQ(pacer.MaxPromptRows(1, 1, 6400), 100);
  EXPECT_EQ(pacer.MaxPromptRows(1, 1, 1'000'000), 512);
}

// Others take the processors now and then: the chunks stay near those of a quiet machine.
TEST(StepPacer, ANoisyMachineChangesLittle) {
  StepPacer quiet(8, 512);
  StepPacer noisy(8, 512);
  uint32_t random = 1;
  StepShape step;
  for (int i = 0; i < 3000; ++i) {
    random = random * 1664525 + 1013904223;
    step.decoding = 8;
    step.prompt_rows = i % 4 == 0 ? 0 : quiet.MaxPromptRows(8, 1, 100);
    if (i == 0) step = {.prompt_rows = 512};
    Measure(quiet, step);
    if (i > 0 && i % 4 != 0) step.prompt_rows = noisy.MaxPromptRows(8, 1, 100);
    noisy.Add(step, Seconds(step) * (random >> 30 == 0 ? 4.0 : 1.0));
  }
  const auto expected = static_cast<double>(quiet.MaxPromptRows(8, 1, 100));
  EXPECT_NEAR(static_cast<double>(noisy.MaxPromptRows(8, 1, 100)), expected, expected / 2);
}

TEST(StepPacer, GuessesWaitForWhatAPlainStepTakes) {
  StepPacer pacer(8, 512);
  EXPECT_FALSE(pacer.WantsGuesses(1, 0));
  Measure(pacer, {.decoding = 1});
  EXPECT_TRUE(pacer.WantsGuesses(1, 0));
  EXPECT_FALSE(pacer.WantsGuesses(0, 0));
  EXPECT_FALSE(pacer.WantsGuesses(1, 1)) << "a prompt waits";
  EXPECT_FALSE(pacer.WantsGuesses(StepPacer::kMaxGuessing + 1, 0));
}

// Of `steps` steps of one sequence, how many guess. Each guess is right with this share.
int StepsThatGuess(StepPacer& pacer, int steps, int64_t accepted) {
  int guessing = 0;
  for (int i = 0; i < steps; ++i) {
    StepShape step{.decoding = 1};
    if (pacer.WantsGuesses(1, 0)) {
      step.drafted = 4;
      step.accepted = accepted;
      ++guessing;
    }
    Measure(pacer, step);
  }
  return guessing;
}

TEST(StepPacer, GuessesGoOnWhileTheyPay) {
  StepPacer pacer(8, 512);
  const int guessing = StepsThatGuess(pacer, 1000, 2);
  EXPECT_GT(guessing, 950);
  EXPECT_LT(guessing, 1000) << "now and then a step shows what it takes without";
}

TEST(StepPacer, GuessesStopWhenTheyDoNotPayAndAreTriedAgain) {
  StepPacer pacer(8, 512);
  EXPECT_LT(StepsThatGuess(pacer, 10'000, 0), 150);
  EXPECT_GT(StepsThatGuess(pacer, 10'000, 4), 7'000) << "the text has become predictable";
}

}  // namespace
}  // namespace erne
