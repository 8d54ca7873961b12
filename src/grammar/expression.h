// What every form of an answer is written in before it becomes an automaton: regular expressions
// over bytes that may call rules, so that a rule can hold itself.
#pragma once

#include <bitset>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace erne::grammar {

using ByteSet = std::bitset<256>;

struct Expression;
using Expr = std::shared_ptr<const Expression>;

inline constexpr int64_t kUnbounded = -1;

// Immutable; parts are shared freely.
struct Expression {
  enum class Kind {
    kBytes,    // one byte of a set
    kConcat,   // the parts, one after the other; none: the empty text
    kChoice,   // one of the parts; none: nothing at all matches
    kRepeat,   // parts[0], min to max times
    kRule,     // a call of rules[rule]
    kBoth,     // what parts[0] and parts[1] both match; they call no rule
    kWithout,  // what parts[0] matches and parts[1] does not; they call no rule
  };
  Kind kind = Kind::kConcat;
  ByteSet bytes = {};
  std::vector<Expr> parts = {};
  int64_t min = 0;
  int64_t max = kUnbounded;
  int32_t rule = -1;
};

struct Rule {
  std::string name;  // for messages
  Expr body;         // null while it is only called
};

// rules[0] is where an answer begins.
struct Grammar {
  std::vector<Rule> rules;

  // A new rule without a body.
  int32_t Declare(std::string name) {
    rules.push_back({std::move(name), nullptr});
    return static_cast<int32_t>(rules.size()) - 1;
  }
  void Define(int32_t rule, Expr body) { rules[static_cast<size_t>(rule)].body = std::move(body); }
};

struct CodePointRange {
  char32_t first = 0;
  char32_t last = 0;  // itself in it
};

Expr Bytes(const ByteSet& bytes);
Expr Literal(std::string_view text);
Expr Concat(std::vector<Expr> parts);
Expr Choice(std::vector<Expr> parts);
Expr Repeat(Expr part, int64_t min, int64_t max);
Expr Optional(Expr part);
Expr Call(int32_t rule);
Expr Both(Expr a, Expr b);
Expr Without(Expr a, Expr b);
// One character of the ranges, or of all others, in UTF-8; surrogates are none.
Expr CodePoints(std::span<const CodePointRange> ranges);
Expr CodePointsBut(std::span<const CodePointRange> ranges);

// The ranges in order, none touching another, without surrogates.
std::vector<CodePointRange> Normalized(std::span<const CodePointRange> ranges);

}  // namespace erne::grammar
