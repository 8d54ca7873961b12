#include "grammar/dfa.h"

#include <algorithm>
#include <map>

#include "base/check.h"

namespace erne::grammar {
namespace {

using Kind = Expression::Kind;

// A nondeterministic automaton. Each state has steps by classes of bytes, by rules, and by nothing.
struct Nfa {
  struct Step {
    std::vector<uint8_t> classes;
    int32_t rule = -1;  // classes are empty then
    int32_t target = 0;
  };
  struct State {
    std::vector<Step> steps;
    std::vector<int32_t> free;
    bool accepting = false;
  };
  std::vector<State> states;
};

Status TooLarge() { return InvalidArgument("it is too large or too ambiguous to be compiled"); }

Result<Dfa> Determinize(const Nfa& nfa, int32_t start, const ByteClasses& classes,
                        WorkBudget& budget);

// States of both automata at once; `want` tells from whether each accepts what the pair does.
template <typename Want>
Result<Dfa> Product(const Dfa& a, const Dfa& b, size_t classes, Want want, WorkBudget& budget) {
  Dfa product;
  std::map<std::pair<int32_t, int32_t>, int32_t> known;
  std::vector<std::pair<int32_t, int32_t>> pairs;
  const auto find = [&](int32_t x, int32_t y) {
    const auto [at, is_new] = known.try_emplace({x, y}, static_cast<int32_t>(pairs.size()));
    if (is_new) pairs.emplace_back(x, y);
    return at->second;
  };
  find(0, 0);
  for (size_t i = 0; i < pairs.size(); ++i) {
    if (budget.states <= pairs.size() || budget.work < classes) return TooLarge();
    budget.work -= classes;
    const auto [x, y] = pairs[i];
    const auto accepts = [](const Dfa& dfa, int32_t state) {
      return state != Dfa::kNone && dfa.states[static_cast<size_t>(state)].accepting;
    };
    const auto next = [&](const Dfa& dfa, int32_t state, size_t c) {
      return state == Dfa::kNone ? state : dfa.next[static_cast<size_t>(state) * classes + c];
    };
    product.states.push_back({.accepting = want(accepts(a, x), accepts(b, y)), .calls = {}});
    for (size_t c = 0; c < classes; ++c) {
      const int32_t to = next(a, x, c);
      product.next.push_back(to == Dfa::kNone ? Dfa::kNone : find(to, next(b, y, c)));
    }
  }
  return product;
}

class NfaBuilder {
 public:
  NfaBuilder(std::span<const Expr> inlined, const ByteClasses& classes, WorkBudget& budget)
      : inlined_(inlined), classes_(classes), budget_(budget) {}

  // Behind `from`; returns the state behind the expression.
  Result<int32_t> Add(const Expression& expression, int32_t from);
  Result<int32_t> NewState() {
    if (budget_.expression == 0) return TooLarge();
    --budget_.expression;
    nfa.states.emplace_back();
    return static_cast<int32_t>(nfa.states.size()) - 1;
  }
  Nfa::State& at(int32_t state) { return nfa.states[static_cast<size_t>(state)]; }

  Nfa nfa;

 private:
  Result<int32_t> AddChoice(const Expression& expression, int32_t from);
  Result<int32_t> AddRepeat(const Expression& expression, int32_t from);
  Result<int32_t> AddProduct(const Expression& expression, int32_t from);
  std::vector<uint8_t> ClassesOf(const ByteSet& bytes) const;

  std::span<const Expr> inlined_;
  const ByteClasses& classes_;
  WorkBudget& budget_;
};

std::vector<uint8_t> NfaBuilder::ClassesOf(const ByteSet& bytes) const {
  std::vector<uint8_t> classes;
  for (size_t c = 0; c < classes_.size(); ++c) {
    if (bytes.test(classes_.first[c])) classes.push_back(static_cast<uint8_t>(c));
  }
  return classes;
}

Result<int32_t> NfaBuilder::Add(const Expression& expression, int32_t from) {
  switch (expression.kind) {
    case Kind::kBytes: {
      ERNE_ASSIGN_OR_RETURN(const int32_t to, NewState());
      at(from).steps.push_back({.classes = ClassesOf(expression.bytes), .target = to});
      return to;
    }
    case Kind::kRule: {
      const Expr& body = inlined_[static_cast<size_t>(expression.rule)];
      if (body != nullptr) return Add(*body, from);
      ERNE_ASSIGN_OR_RETURN(const int32_t to, NewState());
      at(from).steps.push_back({.classes = {}, .rule = expression.rule, .target = to});
      return to;
    }
    case Kind::kConcat: {
      int32_t end = from;
      for (const Expr& part : expression.parts) {
        ERNE_ASSIGN_OR_RETURN(end, Add(*part, end));
      }
      return end;
    }
    case Kind::kChoice:
      return AddChoice(expression, from);
    case Kind::kRepeat:
      return AddRepeat(expression, from);
    case Kind::kBoth:
    case Kind::kWithout:
      return AddProduct(expression, from);
  }
  return Internal("an expression of no kind");
}

Result<int32_t> NfaBuilder::AddChoice(const Expression& expression, int32_t from) {
  ERNE_ASSIGN_OR_RETURN(const int32_t end, NewState());
  for (const Expr& part : expression.parts) {
    // A beginning of its own: a part that loops must not loop the others.
    ERNE_ASSIGN_OR_RETURN(const int32_t begin, NewState());
    at(from).free.push_back(begin);
    ERNE_ASSIGN_OR_RETURN(const int32_t last, Add(*part, begin));
    at(last).free.push_back(end);
  }
  return end;
}

Result<int32_t> NfaBuilder::AddRepeat(const Expression& expression, int32_t from) {
  const Expression& part = *expression.parts[0];
  int32_t end = from;
  for (int64_t i = 0; i < expression.min; ++i) {
    ERNE_ASSIGN_OR_RETURN(end, Add(part, end));
    // An empty part makes no states: its repeats would be counted by nobody.
    if (budget_.work-- == 0) return TooLarge();
  }
  ERNE_ASSIGN_OR_RETURN(const int32_t out, NewState());
  if (expression.max == kUnbounded) {
    ERNE_ASSIGN_OR_RETURN(const int32_t loop, NewState());
    at(end).free.push_back(loop);
    ERNE_ASSIGN_OR_RETURN(const int32_t last, Add(part, loop));
    at(last).free.push_back(loop);
    at(loop).free.push_back(out);
    return out;
  }
  for (int64_t i = expression.min; i < expression.max; ++i) {
    at(end).free.push_back(out);
    ERNE_ASSIGN_OR_RETURN(const int32_t begin, NewState());
    at(end).free.push_back(begin);
    ERNE_ASSIGN_OR_RETURN(end, Add(part, begin));
  }
  at(end).free.push_back(out);
  return out;
}

Result<int32_t> NfaBuilder::AddProduct(const Expression& expression, int32_t from) {
  ERNE_ASSIGN_OR_RETURN(const Dfa a, MakeDfa(expression.parts[0], inlined_, classes_, budget_));
  ERNE_ASSIGN_OR_RETURN(const Dfa b, MakeDfa(expression.parts[1], inlined_, classes_, budget_));
  const auto calls = [](const Dfa::State& state) { return !state.calls.empty(); };
  if (std::any_of(a.states.begin(), a.states.end(), calls) ||
      std::any_of(b.states.begin(), b.states.end(), calls)) {
    return InvalidArgument("a pattern that is joined with another one must not be recursive");
  }
  const bool both = expression.kind == Kind::kBoth;
  ERNE_ASSIGN_OR_RETURN(
      const Dfa product,
      Product(
          a, b, classes_.size(), [both](bool x, bool y) { return x && y == both; }, budget_));
  std::vector<int32_t> states;
  for (size_t i = 0; i < product.states.size(); ++i) {
    ERNE_ASSIGN_OR_RETURN(const int32_t state, NewState());
    states.push_back(state);
  }
  ERNE_ASSIGN_OR_RETURN(const int32_t end, NewState());
  at(from).free.push_back(states[0]);
  for (size_t i = 0; i < states.size(); ++i) {
    std::map<int32_t, std::vector<uint8_t>> by_target;
    for (size_t c = 0; c < classes_.size(); ++c) {
      const int32_t to = product.next[i * classes_.size() + c];
      if (to != Dfa::kNone) by_target[to].push_back(static_cast<uint8_t>(c));
    }
    for (auto& [to, by] : by_target) {
      at(states[i]).steps.push_back(
          {.classes = std::move(by), .target = states[static_cast<size_t>(to)]});
    }
    if (product.states[i].accepting) at(states[i]).free.push_back(end);
  }
  return end;
}

// Sets of states, each with what can be reached by nothing, without states that do nothing.
class Subsets {
 public:
  Subsets(const Nfa& nfa, WorkBudget& budget)
      : nfa_(nfa), budget_(budget), mark_(nfa.states.size()) {}

  // The number of the set that `states` close to; -1 when the budget is used up.
  int32_t Find(std::vector<int32_t> states) {
    ++round_;
    std::vector<int32_t> closed;
    while (!states.empty()) {
      if (budget_.work == 0) return -1;
      --budget_.work;
      const int32_t state = states.back();
      states.pop_back();
      if (mark_[static_cast<size_t>(state)] == round_) continue;
      mark_[static_cast<size_t>(state)] = round_;
      const Nfa::State& node = nfa_.states[static_cast<size_t>(state)];
      if (!node.steps.empty() || node.accepting) closed.push_back(state);
      states.insert(states.end(), node.free.begin(), node.free.end());
    }
    std::sort(closed.begin(), closed.end());
    const auto [at, is_new] =
        known_.try_emplace(std::move(closed), static_cast<int32_t>(sets_.size()));
    if (is_new) {
      if (budget_.states == 0) return -1;
      --budget_.states;
      sets_.push_back(&at->first);
    }
    return at->second;
  }
  size_t size() const { return sets_.size(); }
  const std::vector<int32_t>& set(size_t index) const { return *sets_[index]; }

 private:
  const Nfa& nfa_;
  WorkBudget& budget_;
  std::map<std::vector<int32_t>, int32_t> known_;
  std::vector<const std::vector<int32_t>*> sets_;
  std::vector<uint32_t> mark_;
  uint32_t round_ = 0;
};

Result<Dfa> Determinize(const Nfa& nfa, int32_t start, const ByteClasses& classes,
                        WorkBudget& budget) {
  Dfa dfa;
  Subsets subsets(nfa, budget);
  if (subsets.Find({start}) < 0) return TooLarge();
  for (size_t i = 0; i < subsets.size(); ++i) {
    std::vector<std::vector<int32_t>> by_class(classes.size());
    std::map<int32_t, std::vector<int32_t>> by_rule;
    dfa.states.emplace_back();
    for (const int32_t member : subsets.set(i)) {
      const Nfa::State& state = nfa.states[static_cast<size_t>(member)];
      if (state.accepting) dfa.states.back().accepting = true;
      for (const Nfa::Step& step : state.steps) {
        for (const uint8_t c : step.classes) by_class[c].push_back(step.target);
        if (step.rule >= 0) by_rule[step.rule].push_back(step.target);
      }
    }
    for (std::vector<int32_t>& targets : by_class) {
      int32_t to = Dfa::kNone;
      if (!targets.empty() && (to = subsets.Find(std::move(targets))) < 0) return TooLarge();
      dfa.next.push_back(to);
    }
    for (auto& [rule, targets] : by_rule) {
      const int32_t to = subsets.Find(std::move(targets));
      if (to < 0) return TooLarge();
      dfa.states.back().calls.emplace_back(rule, to);
    }
  }
  return dfa;
}

}  // namespace

ByteClasses ByteClasses::Of(std::span<const ByteSet> sets) {
  ByteClasses classes;
  std::map<std::vector<bool>, uint8_t> known;
  for (size_t byte = 0; byte < 256; ++byte) {
    std::vector<bool> in;
    in.reserve(sets.size());
    for (const ByteSet& set : sets) in.push_back(set.test(byte));
    const auto [at, is_new] =
        known.try_emplace(std::move(in), static_cast<uint8_t>(classes.first.size()));
    if (is_new) classes.first.push_back(static_cast<uint8_t>(byte));
    classes.class_of[byte] = at->second;
  }
  return classes;
}

Result<Dfa> MakeDfa(const Expr& expression, std::span<const Expr> inlined,
                    const ByteClasses& classes, WorkBudget& budget) {
  NfaBuilder builder(inlined, classes, budget);
  ERNE_ASSIGN_OR_RETURN(const int32_t start, builder.NewState());
  ERNE_ASSIGN_OR_RETURN(const int32_t end, builder.Add(*expression, start));
  builder.at(end).accepting = true;
  return Determinize(builder.nfa, start, classes, budget);
}

}  // namespace erne::grammar
