// Numbers in a range, as automata that compare digits (the usual way: same length, digit by digit).
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "grammar/json_text.h"

namespace erne::grammar {
namespace {

// Bounds of numbers of which nothing is said.
constexpr int64_t kLargestInteger = 999'999'999'999'999'999;
constexpr int64_t kLargestWhole = 999'999'999'999'999;  // before a fraction
// A double tells so many digits apart.
constexpr int64_t kExactDigits = 15;

Expr Digit(char first, char last) {
  return CodePoints(Characters{{static_cast<char32_t>(first), static_cast<char32_t>(last)}});
}

Expr Digits(int64_t min, int64_t max) { return Repeat(Digit('0', '9'), min, max); }

// Digits from `low` to `high`, which have one length.
Expr SameLength(std::string_view low, std::string_view high) {
  if (low.empty()) return Literal("");
  const auto rest = static_cast<int64_t>(low.size()) - 1;
  if (low[0] == high[0]) {
    return Concat({Literal(low.substr(0, 1)), SameLength(low.substr(1), high.substr(1))});
  }
  std::vector<Expr> ways;
  char first = low[0];
  char last = high[0];
  if (low.substr(1).find_first_not_of('0') != std::string_view::npos) {
    ways.push_back(Concat(
        {Literal(low.substr(0, 1)), SameLength(low.substr(1), std::string(low.size() - 1, '9'))}));
    ++first;
  }
  if (high.substr(1).find_first_not_of('9') != std::string_view::npos) {
    ways.push_back(Concat({Literal(high.substr(0, 1)),
                           SameLength(std::string(high.size() - 1, '0'), high.substr(1))}));
    --last;
  }
  if (first <= last) ways.push_back(Concat({Digit(first, last), Digits(rest, rest)}));
  return Choice(std::move(ways));
}

// Whole numbers from low to high, both at least 0; nothing when they are out of order.
Expr Whole(int64_t low, int64_t high) {
  std::vector<Expr> ways;
  for (int64_t first = low; first <= high;) {
    const std::string text = std::to_string(first);
    const uint64_t of_length = std::stoull(std::string(text.size(), '9'));
    const auto last = static_cast<int64_t>(std::min(of_length, static_cast<uint64_t>(high)));
    ways.push_back(SameLength(text, std::to_string(last)));
    if (last == high) break;
    first = last + 1;
  }
  return Choice(std::move(ways));
}

// Magnitudes from `low` to `high` with a fraction or without.
Expr Decimal(int64_t low, bool above_low, int64_t high, bool below_high) {
  const auto digits = static_cast<int64_t>(std::to_string(high).size());
  const int64_t most = std::max<int64_t>(1, kExactDigits - digits);
  const Expr fraction = Concat({Literal("."), Digits(1, most)});
  const Expr zeros = Concat({Literal("."), Repeat(Literal("0"), 1, most)});
  std::vector<Expr> ways;
  if (above_low && low < high) {
    const Expr begin = Concat({Whole(low, low), Literal(".")});
    ways.push_back(
        Without(Concat({begin, Digits(1, most)}), Concat({begin, Repeat(Literal("0"), 1, most)})));
  }
  const int64_t first = above_low ? low + 1 : low;
  ways.push_back(Concat({Whole(first, high - 1), Optional(fraction)}));
  if (!below_high && first <= high) ways.push_back(Concat({Whole(high, high), Optional(zeros)}));
  return Choice(std::move(ways));
}

}  // namespace

Expr IntegerText(const NumberRange& range) {
  int64_t low = range.min.value_or(-kLargestInteger);
  int64_t high = range.max.value_or(kLargestInteger);
  if (!range.min) low = std::min(low, high);
  if (!range.max) high = std::max(low, high);
  // The schema's reader keeps bounds far from the ends of int64_t.
  if (range.above_min) ++low;
  if (range.below_max) --high;
  std::vector<Expr> ways = {Whole(std::max<int64_t>(low, 0), high)};
  if (low < 0) {
    ways.push_back(Concat({Literal("-"), Whole(std::max<int64_t>(1, -high), -low)}));
  }
  return Choice(std::move(ways));
}

Expr NumberText(const NumberRange& range) {
  if (!range.min && !range.max) {
    const Expr whole = Whole(0, kLargestWhole);
    const Expr fraction = Concat({Literal("."), Digits(1, kExactDigits)});
    const Expr exponent =
        Concat({CodePoints(Characters{{'E', 'E'}, {'e', 'e'}}),
                Optional(CodePoints(Characters{{'+', '+'}, {'-', '-'}})), Digits(1, 2)});
    return Concat({Optional(Literal("-")), whole, Optional(fraction), Optional(exponent)});
  }
  int64_t low = range.min.value_or(-kLargestWhole);
  int64_t high = range.max.value_or(kLargestWhole);
  if (!range.min) low = std::min(low, high);
  if (!range.max) high = std::max(low, high);
  std::vector<Expr> ways;
  if (high >= 0) {
    ways.push_back(
        Decimal(std::max<int64_t>(low, 0), range.above_min && low >= 0, high, range.below_max));
  }
  if (low < 0) {  // but for -0
    const bool above = high >= 0 || range.below_max;
    ways.push_back(
        Concat({Literal("-"), Decimal(std::max<int64_t>(0, -high), above, -low, range.above_min)}));
  }
  return Choice(std::move(ways));
}

}  // namespace erne::grammar
