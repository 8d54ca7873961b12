#include "sampling/repetition_detector.h"

#include <algorithm>

#include "base/check.h"
#include "base/strings.h"

namespace erne {
namespace {

Status Fault(std::string_view what) {
  return InvalidArgument(StrCat("repetition_detection: ", what), "repetition_detection");
}

}  // namespace

Status ValidateRepetition(const RepetitionRule& rule) {
  if (rule.max_period == 0) return {};
  if (rule.max_period < 0 || rule.max_period > RepetitionRule::kMaxPeriod) {
    return Fault(StrCat("max_pattern_size must be in 0..", RepetitionRule::kMaxPeriod, ", got ",
                        rule.max_period));
  }
  if (rule.min_period < 1 || rule.min_period > rule.max_period) {
    return Fault(StrCat("min_pattern_size must be in 1..max_pattern_size (", rule.max_period,
                        "), got ", rule.min_period));
  }
  if (rule.min_count < 2) {
    return Fault(StrCat("min_count must be at least 2, got ", rule.min_count));
  }
  return {};
}

RepetitionDetector::RepetitionDetector(const RepetitionRule& rule)
    : rule_(rule),
      matched_(rule.enabled() ? static_cast<size_t>(rule.max_period - rule.min_period + 1) : 0) {
  ERNE_CHECK(ValidateRepetition(rule).ok());
}

bool RepetitionDetector::Add(std::span<const int32_t> output) {
  if (!rule_.enabled() || output.empty()) return false;
  const int32_t token = output.back();
  const auto last = static_cast<int64_t>(output.size()) - 1;
  // Counts are still 0 for periods that reach before the first token.
  const int64_t longest = std::min<int64_t>(rule_.max_period, last);
  bool found = false;
  for (int64_t period = rule_.min_period; period <= longest; ++period) {
    int32_t& matched = matched_[static_cast<size_t>(period - rule_.min_period)];
    matched = output[static_cast<size_t>(last - period)] == token ? matched + 1 : 0;
    const int64_t tail = matched + period;
    found |= tail >= period * rule_.min_count && tail >= rule_.min_tokens;
  }
  return found;
}

}  // namespace erne
