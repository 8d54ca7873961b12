#include "grammar/automaton.h"

#include <algorithm>
#include <functional>
#include <set>
#include <string>
#include <unordered_set>
#include <utility>

#include "base/strings.h"
#include "grammar/dfa.h"

namespace erne::grammar {
namespace {

using Kind = Expression::Kind;

// A rule that is called is remembered while it runs, and a token that crosses its end is looked at
// in the light of its caller; so small rules are written out where they are called.
constexpr int64_t kSmallRule = 24;  // bytes of text

// Every expression below `root` once, whatever shares it.
void Visit(const Expr& root, std::unordered_set<const Expression*>& seen,
           const std::function<void(const Expression&)>& visit) {
  std::vector<const Expression*> stack = {root.get()};
  while (!stack.empty()) {
    const Expression* expression = stack.back();
    stack.pop_back();
    if (!seen.insert(expression).second) continue;
    visit(*expression);
    for (const Expr& part : expression->parts) stack.push_back(part.get());
  }
}

std::vector<int32_t> RulesCalledBy(const Expr& body) {
  std::unordered_set<const Expression*> seen;
  std::set<int32_t> rules;
  Visit(body, seen, [&](const Expression& expression) {
    if (expression.kind == Kind::kRule) rules.insert(expression.rule);
  });
  return {rules.begin(), rules.end()};
}

}  // namespace

class AutomatonBuilder {
 public:
  AutomatonBuilder(const Grammar& grammar, const ByteSet& usable, const AutomatonLimits& limits)
      : grammar_(grammar), usable_(usable), limits_(limits) {}

  Result<Automaton> Build() {
    ERNE_RETURN_IF_ERROR(FindReachable());
    ChooseInlined();
    ERNE_RETURN_IF_ERROR(MakeStates());
    MeasureDistances();
    ERNE_RETURN_IF_ERROR(CheckEnd());
    CutDeadSteps();
    ERNE_RETURN_IF_ERROR(CheckLeftRecursion());
    return std::move(automaton_);
  }

 private:
  const Rule& rule(int32_t index) const { return grammar_.rules[static_cast<size_t>(index)]; }
  Status Fault(int32_t index, std::string_view what) const {
    return InvalidArgument(StrCat("rule ", rule(index).name, ": ", what));
  }

  Status FindReachable();
  bool IsRecursive(int32_t index) const;
  int64_t SizeOf(const Expression& expression);
  int64_t SizeOfRule(int32_t index);
  void ChooseInlined();
  ByteClasses FindClasses() const;
  Status MakeStates();
  void AddRule(int32_t index, const Dfa& dfa, const ByteClasses& classes);
  bool ShortenDistance(StateId id);
  void MeasureDistances();
  Status CheckEnd() const;
  void CutDeadSteps();
  std::vector<int32_t> RulesCalledFirst(int32_t index) const;
  Status CheckLeftRecursion() const;

  const Grammar& grammar_;
  const ByteSet& usable_;
  const AutomatonLimits& limits_;
  std::vector<std::vector<int32_t>> calls_;  // by rule
  std::vector<bool> reachable_;
  std::vector<Expr> inlined_;   // by rule; null: it is called
  std::vector<int64_t> sizes_;  // by rule; -1: not known yet
  std::vector<StateId> begin_;  // by rule
  Automaton automaton_;
};

Status AutomatonBuilder::FindReachable() {
  const size_t rules = grammar_.rules.size();
  calls_.resize(rules);
  reachable_.resize(rules);
  std::vector<int32_t> stack = {0};
  reachable_[0] = true;
  while (!stack.empty()) {
    const int32_t index = stack.back();
    stack.pop_back();
    if (rule(index).body == nullptr) return Fault(index, "it is used and not defined");
    calls_[static_cast<size_t>(index)] = RulesCalledBy(rule(index).body);
    for (const int32_t called : calls_[static_cast<size_t>(index)]) {
      if (reachable_[static_cast<size_t>(called)]) continue;
      reachable_[static_cast<size_t>(called)] = true;
      stack.push_back(called);
    }
  }
  return {};
}

bool AutomatonBuilder::IsRecursive(int32_t index) const {
  std::vector<bool> seen(grammar_.rules.size());
  std::vector<int32_t> stack = {index};
  while (!stack.empty()) {
    const int32_t at = stack.back();
    stack.pop_back();
    for (const int32_t called : calls_[static_cast<size_t>(at)]) {
      if (called == index) return true;
      if (seen[static_cast<size_t>(called)]) continue;
      seen[static_cast<size_t>(called)] = true;
      stack.push_back(called);
    }
  }
  return false;
}

// Bytes and calls of `expression` when it is written out, at most kSmallRule + 1.
int64_t AutomatonBuilder::SizeOf(const Expression& expression) {
  if (expression.kind == Kind::kBytes) return 1;
  if (expression.kind == Kind::kRule) {
    const int64_t size = SizeOfRule(expression.rule);
    return size <= kSmallRule ? size : 1;
  }
  int64_t times = 1;
  if (expression.kind == Kind::kRepeat) {
    times = std::max({expression.min, expression.max, int64_t{1}});
  }
  int64_t size = 0;
  for (const Expr& part : expression.parts) {
    size += SizeOf(*part);
    if (size > kSmallRule) return kSmallRule + 1;
  }
  return times > kSmallRule ? kSmallRule + 1 : std::min(size * times, kSmallRule + 1);
}

int64_t AutomatonBuilder::SizeOfRule(int32_t index) {
  int64_t& size = sizes_[static_cast<size_t>(index)];
  if (size < 0) {
    size = kSmallRule + 1;  // also what a rule that holds itself sees of itself
    if (!IsRecursive(index)) size = SizeOf(*rule(index).body);
  }
  return size;
}

void AutomatonBuilder::ChooseInlined() {
  inlined_.resize(grammar_.rules.size());
  sizes_.assign(grammar_.rules.size(), -1);
  for (int32_t i = 1; i < static_cast<int32_t>(grammar_.rules.size()); ++i) {
    if (reachable_[static_cast<size_t>(i)] && SizeOfRule(i) <= kSmallRule) {
      inlined_[static_cast<size_t>(i)] = rule(i).body;
    }
  }
}

ByteClasses AutomatonBuilder::FindClasses() const {
  std::unordered_set<const Expression*> seen;
  std::vector<ByteSet> sets = {usable_};
  std::unordered_set<ByteSet> known;
  for (size_t i = 0; i < grammar_.rules.size(); ++i) {
    if (!reachable_[i]) continue;
    Visit(grammar_.rules[i].body, seen, [&](const Expression& expression) {
      if (expression.kind != Kind::kBytes) return;
      if (known.insert(expression.bytes).second) sets.push_back(expression.bytes);
    });
  }
  return ByteClasses::Of(sets);
}

Status AutomatonBuilder::MakeStates() {
  const ByteClasses classes = FindClasses();
  WorkBudget budget = {.states = std::min<size_t>(limits_.max_states, Automaton::kNoState),
                       .expression = limits_.max_expression,
                       .work = limits_.max_work};
  automaton_.num_classes_ = classes.size();
  automaton_.class_of_ = classes.class_of;
  automaton_.byte_of_ = classes.first;
  begin_.assign(grammar_.rules.size(), Automaton::kNoState);
  for (int32_t i = 0; i < static_cast<int32_t>(grammar_.rules.size()); ++i) {
    if (!reachable_[static_cast<size_t>(i)] || inlined_[static_cast<size_t>(i)] != nullptr)
      continue;
    const Result<Dfa> dfa = MakeDfa(rule(i).body, inlined_, classes, budget);
    if (!dfa.ok()) return Fault(i, dfa.status().message());
    AddRule(i, *dfa, classes);
  }
  for (Automaton::CallEdge& call : automaton_.calls_) {
    call.begin = begin_[static_cast<size_t>(call.rule)];
  }
  automaton_.start_ = begin_[0];
  return {};
}

void AutomatonBuilder::AddRule(int32_t index, const Dfa& dfa, const ByteClasses& classes) {
  const auto base = static_cast<StateId>(automaton_.states_.size());
  begin_[static_cast<size_t>(index)] = base;
  for (const Dfa::State& from : dfa.states) {
    automaton_.states_.push_back({.first_call = static_cast<uint32_t>(automaton_.calls_.size()),
                                  .num_calls = static_cast<uint16_t>(from.calls.size()),
                                  .accepting = from.accepting,
                                  .distance = from.accepting ? 0 : Automaton::kFar});
    for (const auto& [called, behind] : from.calls) {
      automaton_.calls_.push_back({.behind = static_cast<StateId>(base + behind), .rule = called});
    }
  }
  for (size_t i = 0; i < dfa.next.size(); ++i) {
    const bool leads = dfa.next[i] != Dfa::kNone && usable_.test(classes.first[i % classes.size()]);
    automaton_.next_.push_back(leads ? static_cast<StateId>(base + dfa.next[i])
                                     : Automaton::kNoState);
  }
}

// Looks at all that the state can do; true when that brings its end nearer.
bool AutomatonBuilder::ShortenDistance(StateId id) {
  Automaton::State& state = automaton_.states_[id];
  if (state.accepting) return false;
  const int32_t before = state.distance;
  for (size_t c = 0; c < automaton_.num_classes_; ++c) {
    const StateId to = automaton_.NextOfClass(id, c);
    if (to == Automaton::kNoState) continue;
    const int32_t distance = 1 + automaton_.states_[to].distance;
    if (distance >= state.distance) continue;
    state.distance = distance;
    state.shortest = static_cast<uint16_t>(c);
  }
  const std::span<const Automaton::CallEdge> calls = automaton_.calls(id);
  for (size_t i = 0; i < calls.size(); ++i) {
    const int32_t distance =
        automaton_.states_[calls[i].begin].distance + automaton_.states_[calls[i].behind].distance;
    if (distance >= state.distance) continue;
    state.distance = distance;
    state.shortest = static_cast<uint16_t>(automaton_.num_classes_ + i);
  }
  return state.distance < before;
}

// Until nothing changes; from the last state to the first, because rules lead from low numbers to
// high ones.
void AutomatonBuilder::MeasureDistances() {
  bool changes = true;
  while (changes) {
    changes = false;
    for (size_t i = automaton_.states_.size(); i-- > 0;) {
      changes |= ShortenDistance(static_cast<StateId>(i));
    }
  }
}

Status AutomatonBuilder::CheckEnd() const {
  if (automaton_.states_[automaton_.start_].distance < Automaton::kFar) return {};
  return InvalidArgument("nothing that the model's vocabulary can spell matches it");
}

void AutomatonBuilder::CutDeadSteps() {
  const auto is_dead = [&](StateId id) {
    return automaton_.states_[id].distance >= Automaton::kFar;
  };
  for (StateId& to : automaton_.next_) {
    if (to != Automaton::kNoState && is_dead(to)) to = Automaton::kNoState;
  }
  // `shortest` counts calls by their number, so those that stay are moved together and it with
  // them.
  for (Automaton::State& state : automaton_.states_) {
    const auto first = automaton_.calls_.begin() + state.first_call;
    uint16_t kept = 0;
    for (uint16_t i = 0; i < state.num_calls; ++i) {
      const Automaton::CallEdge call = first[i];
      if (is_dead(call.begin) || is_dead(call.behind)) continue;
      if (state.shortest == automaton_.num_classes_ + i) {
        state.shortest = static_cast<uint16_t>(automaton_.num_classes_ + kept);
      }
      first[kept++] = call;
    }
    state.num_calls = kept;
  }
  for (size_t i = 0; i < automaton_.states_.size(); ++i) {
    const auto row = automaton_.next_.begin() + static_cast<ptrdiff_t>(i * automaton_.num_classes_);
    automaton_.states_[i].reads =
        std::any_of(row, row + static_cast<ptrdiff_t>(automaton_.num_classes_),
                    [](StateId to) { return to != Automaton::kNoState; });
  }
}

// Rules that can be called before the rule has read a byte.
std::vector<int32_t> AutomatonBuilder::RulesCalledFirst(int32_t index) const {
  std::set<int32_t> rules;
  std::set<StateId> seen;
  std::vector<StateId> stack = {begin_[static_cast<size_t>(index)]};
  while (!stack.empty()) {
    const StateId id = stack.back();
    stack.pop_back();
    if (!seen.insert(id).second) continue;
    for (const Automaton::CallEdge& call : automaton_.calls(id)) {
      rules.insert(call.rule);
      if (automaton_.states_[call.begin].distance == 0) stack.push_back(call.behind);
    }
  }
  return {rules.begin(), rules.end()};
}

Status AutomatonBuilder::CheckLeftRecursion() const {
  enum class Mark : uint8_t { kNew, kOpen, kDone };
  std::vector<Mark> marks(grammar_.rules.size(), Mark::kNew);
  struct Visited {
    int32_t rule;
    std::vector<int32_t> called;
  };
  for (int32_t root = 0; root < static_cast<int32_t>(grammar_.rules.size()); ++root) {
    if (begin_[static_cast<size_t>(root)] == Automaton::kNoState ||
        marks[static_cast<size_t>(root)] != Mark::kNew) {
      continue;
    }
    std::vector<Visited> path = {{root, RulesCalledFirst(root)}};
    marks[static_cast<size_t>(root)] = Mark::kOpen;
    while (!path.empty()) {
      if (path.back().called.empty()) {
        marks[static_cast<size_t>(path.back().rule)] = Mark::kDone;
        path.pop_back();
        continue;
      }
      const int32_t called = path.back().called.back();
      path.back().called.pop_back();
      Mark& mark = marks[static_cast<size_t>(called)];
      if (mark == Mark::kOpen) {
        return Fault(called, "it calls itself before it has read anything (left recursion)");
      }
      if (mark == Mark::kDone) continue;
      mark = Mark::kOpen;
      path.push_back({called, RulesCalledFirst(called)});
    }
  }
  return {};
}

Result<Automaton> Automaton::Compile(const Grammar& grammar, const ByteSet& usable,
                                     const AutomatonLimits& limits) {
  return AutomatonBuilder(grammar, usable, limits).Build();
}

size_t Automaton::bytes() const {
  return states_.size() * sizeof(State) + calls_.size() * sizeof(CallEdge) +
         next_.size() * sizeof(StateId);
}

}  // namespace erne::grammar
