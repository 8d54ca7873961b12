// Stop strings in a stream of text: nothing that might be the beginning of one is let out before it
// is known not to be.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace erne {

// One per choice; not thread-safe. The stop string that is complete first (ends earliest) counts,
// of those that end at the same place the one that begins earliest: so the result does not depend
// on how the text was cut into pieces. Holds back only the longest suffix that is a true prefix of
// some stop string. Each byte costs a constant for each stop string, however they are made (Knuth,
// Morris, Pratt).
class StopMatcher {
 public:
  // With `include_stop`, the matched string is part of the released text. Empty stop strings are
  // ignored: they would stop every answer before its first character.
  explicit StopMatcher(std::vector<std::string> stops, bool include_stop = false);

  // Text that may be shown now. After a match nothing more is released.
  std::string Add(std::string_view text);
  // The rest, when no more text comes; "" after a match.
  std::string Flush();
  // The stop string that matched.
  const std::optional<std::string>& matched() const { return matched_; }

 private:
  struct Stop {
    std::string text;
    // For each length n of a prefix of `text`: the longest shorter prefix that is also its suffix.
    std::vector<uint32_t> fallback;
    uint32_t seen = 0;  // the longest prefix that the text so far ends with
  };
  // Takes the next byte; true when `stop` is complete with it.
  static bool Advance(Stop& stop, char byte);

  std::vector<Stop> stops_;
  bool include_stop_;
  std::string held_;
  std::optional<std::string> matched_;
};

}  // namespace erne
