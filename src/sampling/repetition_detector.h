// Finds an output that runs in a circle: the same span of tokens again and again, up to its end.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/status.h"

namespace erne {

// What counts as a loop: the output ends with a span of min_period..max_period tokens that stands
// there min_count times or more in a row, token for token, in min_tokens tokens or more together.
// The first three are vLLM's min_pattern_size, max_pattern_size and min_count.
struct RepetitionRule {
  int32_t max_period = 0;  // 0: nothing is looked for; at most kMaxPeriod
  int32_t min_period = 1;  // 1..max_period
  int32_t min_count = 2;   // at least 2
  int64_t min_tokens = 0;

  // Each token costs one comparison for each period: this many take well under a microsecond.
  static constexpr int32_t kMaxPeriod = 1024;
  bool enabled() const { return max_period > 0; }
};

// InvalidArgument, with repetition_detection as param, when a value is outside its range above.
Status ValidateRepetition(const RepetitionRule& rule);

// For each period p it counts how many of the last tokens equal the one p places before them. A
// tail of n such tokens is a span of p tokens followed by n more of the same circle: (n + p) / p
// copies. So nothing is ever searched for again. Owned by one request; one thread at a time.
class RepetitionDetector {
 public:
  // rule: valid. Takes all its memory here: 4 bytes for each period.
  explicit RepetitionDetector(const RepetitionRule& rule);

  // To be called after each token. output: all tokens so far, the new one last. True when the
  // output ends with a loop.
  bool Add(std::span<const int32_t> output);

 private:
  RepetitionRule rule_;
  std::vector<int32_t> matched_;  // [period - min_period]
};

}  // namespace erne
