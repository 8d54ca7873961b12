// One rule as a deterministic automaton: expression -> nondeterministic automaton (Thompson 1968)
// -> subset construction (Rabin and Scott 1959).
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "base/status.h"
#include "grammar/expression.h"

namespace erne::grammar {

// Bytes that no expression tells apart, as classes.
struct ByteClasses {
  std::array<uint8_t, 256> class_of{};
  std::vector<uint8_t> first;  // [classes], the lowest byte of each

  // The coarsest classes of which every set is a union.
  static ByteClasses Of(std::span<const ByteSet> sets);
  size_t size() const { return first.size(); }
};

// Steps that all rules of a grammar may take together.
struct WorkBudget {
  size_t states = 0;      // deterministic ones
  size_t expression = 0;  // nondeterministic ones
  size_t work = 0;
};

struct Dfa {
  static constexpr int32_t kNone = -1;
  struct State {
    bool accepting = false;
    std::vector<std::pair<int32_t, int32_t>> calls;  // rule, state behind it
  };
  std::vector<State> states;  // states[0] is where it begins
  std::vector<int32_t> next;  // [states, classes]
};

// Rules are called where `inlined` (by rule) is null, and written out where it is an expression.
// InvalidArgument when the budget, which is used up, does not suffice.
Result<Dfa> MakeDfa(const Expr& expression, std::span<const Expr> inlined,
                    const ByteClasses& classes, WorkBudget& budget);

}  // namespace erne::grammar
