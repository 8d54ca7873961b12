#include "engine/step_pacer.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace erne {
namespace {

// Weight of the newest measurement: what others do on the machine makes steps longer, never
// shorter, so that a shorter time says more than a longer one. What stays longer (contexts grow) is
// believed after some dozens of steps.
constexpr double kShorter = 1.0 / 4;
constexpr double kLonger = 1.0 / 32;
// A step that took this many times what it usually takes was disturbed from outside.
constexpr double kDisturbed = 3.0;
// Weight of the newest gain of guesses.
constexpr double kNewestGain = 1.0 / 8;
// Prompts that wait beyond this many: the stretch is no limit any more.
constexpr int64_t kCrowd = 12;

constexpr int64_t kGainSamples = 8;  // before they are judged
constexpr int64_t kShortestPause = 32;
constexpr int64_t kLongestPause = 2048;
// Every so often a step runs without guesses, to know what it takes: contexts grow.
constexpr int64_t kStepsInARow = 31;

void Learn(double& average, double value) {
  if (average == 0) {
    average = value;
  } else if (value < average) {
    average += kShorter * (value - average);
  } else {
    average += kLonger * (std::min(value, kDisturbed * average) - average);
  }
}

}  // namespace

StepPacer::StepPacer(int64_t max_sequences, int64_t max_rows, int64_t least_prompt_rows)
    : max_rows_(max_rows),
      least_prompt_rows_(least_prompt_rows),
      decode_seconds_(static_cast<size_t>(max_sequences) + 1, 0.0),
      next_pause_(kShortestPause) {
  ERNE_CHECK(max_sequences > 0 && max_rows > 0);
}

// The measured time of the nearest number of sequences: it grows slowly with them.
double StepPacer::DecodeSeconds(int64_t decoding) const {
  const auto size = static_cast<int64_t>(decode_seconds_.size());
  for (int64_t distance = 0; distance < size; ++distance) {
    for (const int64_t at : {decoding - distance, decoding + distance}) {
      if (at <= 0 || at >= size) continue;
      if (const double seconds = decode_seconds_[static_cast<size_t>(at)]; seconds > 0)
        return seconds;
    }
  }
  return 0;
}

int64_t StepPacer::MaxPromptRows(int64_t decoding, int64_t prompts, int64_t longest) const {
  if (decoding == 0 || prompts == 0 || prompts > kCrowd) return max_rows_;
  const double step = DecodeSeconds(decoding);
  if (step == 0 || prompt_row_seconds_ == 0) return max_rows_;
  const double stretch = std::ldexp(kPromptStretch, static_cast<int>(prompts - 1));
  const double rows = stretch * step / prompt_row_seconds_;
  const int64_t least = std::max((longest + kPromptSteps - 1) / kPromptSteps, least_prompt_rows_);
  const auto measured = static_cast<int64_t>(std::min(rows, 1e9));
  return std::min(std::max(measured, least), max_rows_);
}

bool StepPacer::WantsGuesses(int64_t decoding, int64_t prompts) {
  if (decoding == 0 || decoding > kMaxGuessing || prompts > 0) return false;
  if (pause_ > 0) {
    --pause_;
    return false;
  }
  const bool measured = decode_seconds_[static_cast<size_t>(decoding)] > 0;
  if (!measured || steps_in_a_row_ >= kStepsInARow) {
    steps_in_a_row_ = 0;
    return false;
  }
  return true;
}

void StepPacer::Add(const StepShape& step, double seconds) {
  if (seconds <= 0) return;
  if (step.drafted > 0) return AddGuesses(step, seconds);
  if (step.prompt_rows == 0) {
    if (step.decoding > 0) Learn(decode_seconds_[static_cast<size_t>(step.decoding)], seconds);
    return;
  }
  const auto rows = static_cast<double>(step.prompt_rows);
  if (step.decoding == 0) {
    // A first idea; beside decoding sequences chunks are smaller and a row takes longer.
    if (prompt_row_seconds_ == 0) prompt_row_seconds_ = seconds / rows;
    return;
  }
  // Only what was measured for this very number of sequences is good enough to be taken away.
  const double alone = decode_seconds_[static_cast<size_t>(step.decoding)];
  if (alone > 0 && seconds > alone) Learn(prompt_row_seconds_, (seconds - alone) / rows);
}

void StepPacer::AddGuesses(const StepShape& step, double seconds) {
  ++steps_in_a_row_;
  const double alone = DecodeSeconds(step.decoding);
  if (step.prompt_rows > 0 || step.decoding == 0 || alone == 0) return;
  const double tokens = static_cast<double>(step.decoding + step.accepted);
  const double gain = tokens / static_cast<double>(step.decoding) * alone / seconds;
  gain_ = gain_samples_ == 0 ? gain : gain_ + kNewestGain * (gain - gain_);
  if (++gain_samples_ < kGainSamples) return;
  if (gain_ >= kLeastGain) {
    next_pause_ = kShortestPause;
    return;
  }
  pause_ = next_pause_;
  next_pause_ = std::min(2 * next_pause_, kLongestPause);
  gain_samples_ = 0;
}

}  // namespace erne
