// A pushdown automaton over bytes, made of one deterministic automaton for each rule.
//
// A state goes on by a byte (to one state at most), or by calling a rule and going on in another
// state when that rule has ended. A rule ends in an accepting state; the automaton has accepted
// when rule 0 has ended and nobody called it. Each state knows its distance: the fewest bytes from
// it to the end of its rule. Steps that lead nowhere (to a state without an end) are cut, so
// whatever an automaton has read, it can be brought to its end, and `shortest` says how.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "base/status.h"
#include "grammar/expression.h"

namespace erne::grammar {

using StateId = uint16_t;

// Bounds for hostile grammars: what reaches one is refused (InvalidArgument).
struct AutomatonLimits {
  size_t max_states = 60'000;       // below kNoState
  size_t max_expression = 400'000;  // states of the nondeterministic automata, repeats unrolled
  size_t max_work = 20'000'000;     // steps of making them deterministic
};

// Immutable; read by any thread.
class Automaton {
 public:
  static constexpr StateId kNoState = 0xFFFF;
  static constexpr int32_t kFar = INT32_MAX / 4;  // a distance: no end can be reached

  struct CallEdge {
    StateId begin = kNoState;   // of the rule that is called
    StateId behind = kNoState;  // where its caller goes on
    int32_t rule = -1;
  };
  struct State {
    uint32_t first_call = 0;
    uint16_t num_calls = 0;
    bool accepting = false;
    bool reads = false;       // some byte leads on
    int32_t distance = kFar;  // bytes
    // The first step of a shortest way to the end: a byte class, or num_classes + a number of a
    // call; meaningless when accepting.
    uint16_t shortest = 0;
  };

  // usable: bytes that the vocabulary can spell alone; the others are taken by nothing. Errors name
  // the rule: it has no body, calls itself before it has read anything (left recursion), is too
  // large, or nothing usable matches it.
  static Result<Automaton> Compile(const Grammar& grammar, const ByteSet& usable,
                                   const AutomatonLimits& limits = {});

  StateId start() const { return start_; }
  size_t size() const { return states_.size(); }
  const State& state(StateId id) const { return states_[id]; }
  std::span<const CallEdge> calls(StateId id) const {
    return std::span(calls_).subspan(states_[id].first_call, states_[id].num_calls);
  }
  StateId Next(StateId from, uint8_t byte) const {
    return next_[from * num_classes_ + class_of_[byte]];
  }
  // A state that has ended its rule and can do nothing else: a caller that goes on there need not
  // be remembered.
  bool only_ends(StateId id) const {
    return states_[id].accepting && !states_[id].reads && states_[id].num_calls == 0;
  }
  size_t num_classes() const { return num_classes_; }
  StateId NextOfClass(StateId from, size_t byte_class) const {
    return next_[from * num_classes_ + byte_class];
  }
  // A usable byte of the class.
  uint8_t ByteOf(size_t byte_class) const { return byte_of_[byte_class]; }
  size_t bytes() const;  // of memory

 private:
  friend class AutomatonBuilder;

  StateId start_ = kNoState;
  std::vector<State> states_;
  std::vector<CallEdge> calls_;
  std::vector<StateId> next_;  // [states, classes]
  size_t num_classes_ = 0;
  std::array<uint8_t, 256> class_of_{};
  std::vector<uint8_t> byte_of_;  // [classes]
};

}  // namespace erne::grammar
