#include "text/stop_matcher.h"

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace erne {
namespace {

struct Outcome {
  std::string text;
  std::optional<std::string> matched;
  bool operator==(const Outcome&) const = default;
};

void PrintTo(const Outcome& outcome, std::ostream* out) {
  *out << '"' << outcome.text << "\" stopped by " << outcome.matched.value_or("nothing");
}

// The definition: try every end from the beginning on, and for each the longest stop string that
// ends there.
Outcome MatchPlainly(const std::string& text, const std::vector<std::string>& stops,
                     bool include_stop) {
  for (size_t end = 1; end <= text.size(); ++end) {
    const std::string* best = nullptr;
    for (const std::string& stop : stops) {
      if (stop.empty() || stop.size() > end ||
          text.compare(end - stop.size(), stop.size(), stop) != 0)
        continue;
      if (best == nullptr || stop.size() > best->size()) best = &stop;
    }
    if (best != nullptr) return {text.substr(0, include_stop ? end : end - best->size()), *best};
  }
  return {text, std::nullopt};
}

// What must be held back after `text`: its longest suffix that is a true prefix of a stop string.
size_t HeldPlainly(const std::string& text, const std::vector<std::string>& stops) {
  size_t held = 0;
  for (const std::string& stop : stops) {
    for (size_t length = 1; length < stop.size() && length <= text.size(); ++length) {
      if (text.compare(text.size() - length, length, stop, 0, length) == 0)
        held = std::max(held, length);
    }
  }
  return held;
}

// Feeds `parts`, and checks after each that exactly the right text has been let out.
Outcome Feed(const std::vector<std::string>& parts, const std::vector<std::string>& stops,
             bool include_stop) {
  StopMatcher matcher(stops, include_stop);
  std::string seen;
  std::string released;
  for (const std::string& part : parts) {
    seen += part;
    released += matcher.Add(part);
    const Outcome so_far = MatchPlainly(seen, stops, include_stop);
    EXPECT_EQ(matcher.matched(), so_far.matched);
    const size_t held = so_far.matched ? 0 : HeldPlainly(seen, stops);
    EXPECT_EQ(released, so_far.text.substr(0, so_far.text.size() - held))
        << "after \"" << seen << '"';
  }
  released += matcher.Flush();
  EXPECT_EQ(matcher.Flush(), "");
  return {released, matcher.matched()};
}

struct Case {
  std::string text;
  std::vector<std::string> stops;
};

const std::vector<Case>& Cases() {
  static const std::vector<Case> cases = {
      {"Hello world", {}},
      {"Hello world", {"o w"}},
      {"Hello world", {"world", "lo"}},
      {"Hello world", {"worlds"}},
      {"Hello world", {"Hello world"}},
      {"aaaaab", {"aab"}},  // its beginning repeats in itself
      {"ababac", {"abac"}},
      {"abcabd", {"abcabe", "bd"}},   // a longer candidate fails after it has been held back
      {"xabcy", {"abc", "b"}},        // contained: the inner one ends first
      {"xabcy", {"abc", "bc", "c"}},  // the same end: the one that begins first
      {"xabcdy", {"abcd", "bc"}},
      {"one\n\ntwo", {"\n\n", "\n"}},
      {"春风拂面。<|end|>x", {"<|end|>", "。<"}},
      {"你好，世界", {"世界"}},
      {"你好，世畀", {"世界"}},  // the last character differs in its last byte
      {"😀😁", {"😁"}},
      {"User: a\nUser: b", {"\nUser:", "User: b"}},
  };
  return cases;
}

TEST(StopMatcher, EveryWayToCutInThreeGivesTheSame) {
  for (const Case& c : Cases()) {
    for (const bool include_stop : {false, true}) {
      const Outcome expected = MatchPlainly(c.text, c.stops, include_stop);
      for (size_t first = 0; first <= c.text.size(); ++first) {
        for (size_t second = first; second <= c.text.size(); ++second) {
          ASSERT_EQ(Feed({c.text.substr(0, first), c.text.substr(first, second - first),
                          c.text.substr(second)},
                         c.stops, include_stop),
                    expected);
        }
      }
    }
  }
}

TEST(StopMatcher, ByteByByte) {
  for (const Case& c : Cases()) {
    std::vector<std::string> bytes;
    for (const char byte : c.text) bytes.emplace_back(1, byte);
    EXPECT_EQ(Feed(bytes, c.stops, false), MatchPlainly(c.text, c.stops, false));
  }
}

TEST(StopMatcher, RandomTextsAndCuts) {
  std::mt19937 random(2);
  const auto text = [&](size_t max_length) {
    std::string out;
    for (size_t n = random() % (max_length + 1); n > 0; --n) out.push_back("ab"[random() % 2]);
    return out;
  };
  for (int round = 0; round < 5000; ++round) {
    std::vector<std::string> stops(1 + random() % 4);
    for (std::string& stop : stops) {
      stop = text(7);
      stop.push_back(random() % 8 == 0 ? 'c' : 'a');  // one that never comes, but is begun often
    }
    const std::string all = text(40);
    std::vector<std::string> parts;
    for (size_t at = 0; at < all.size();) {
      parts.push_back(all.substr(at, random() % 6));
      at += parts.back().size();
    }
    const bool include_stop = random() % 2 == 0;
    ASSERT_EQ(Feed(parts, stops, include_stop), MatchPlainly(all, stops, include_stop)) << all;
  }
}

TEST(StopMatcher, NothingComesOutAfterAMatch) {
  StopMatcher matcher({"stop"});
  EXPECT_EQ(matcher.Add("a st"), "a ");
  EXPECT_EQ(matcher.Add("op and more"), "");
  EXPECT_EQ(matcher.matched(), "stop");
  EXPECT_EQ(matcher.Add("more"), "");
  EXPECT_EQ(matcher.Flush(), "");
}

TEST(StopMatcher, EmptyStopStringsAreIgnored) {
  StopMatcher matcher({"", "b"});
  EXPECT_EQ(matcher.Add("a"), "a");
  EXPECT_EQ(matcher.matched(), std::nullopt);
  EXPECT_EQ(matcher.Add("b"), "");
  EXPECT_EQ(matcher.matched(), "b");
}

TEST(StopMatcher, HeldTextOfWholeCharactersIsCutBetweenCharacters) {
  StopMatcher matcher({"界限"});
  EXPECT_EQ(matcher.Add("世界"), "世");
  EXPECT_EQ(matcher.Add("畀"), "界畀");
}

// Backing up by one place at a time would be quadratic here, and not end within the time limit of
// the test.
TEST(StopMatcher, LongRepetitiveStopStrings) {
  StopMatcher matcher({std::string(1'000'000, 'a') + "b"});
  std::string released;
  for (int i = 0; i < 20; ++i) released += matcher.Add(std::string(100'000, 'a'));
  EXPECT_EQ(released.size(), 1'000'000u);
  EXPECT_EQ(matcher.Add("b"), "");
  EXPECT_TRUE(matcher.matched().has_value());
}

}  // namespace
}  // namespace erne
