// A grammar ready to make token masks with: its automaton over one model's vocabulary, and the
// masks of its states.
//
// The mask of a place in an answer depends on the whole stack of rules that wait there. Most of it
// does not: what a state allows before its rule ends is the same whoever called it, is computed
// once, and is kept (LocalMask). Tokens that go on behind the end of the rule are few, and are
// looked at in the light of the stack, from where in the vocabulary's trie the rule ended.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/status.h"
#include "grammar/automaton.h"
#include "grammar/expression.h"
#include "grammar/simulation.h"
#include "grammar/vocabulary.h"

namespace erne::grammar {

// What a state that reads allows, as far as its rule goes.
struct LocalMask {
  std::vector<uint32_t> words;  // [mask_words]; empty when the tokens are few
  std::vector<int32_t> tokens;  // then these are they
  std::vector<uint32_t> exits;  // nodes of the trie with others below, where the rule may end
  int32_t farthest = 0;         // the most bytes to the end of the rule behind an allowed token

  void AddTo(std::span<uint32_t> mask) const;
  size_t bytes() const;
};

// Goes over the trie below `node`, whose text has led to levels[0]. on_node(node, set) sees each
// node that can be reached. levels: [0 .. depth of the trie], scratch but for the first.
template <typename OnNode>
void Walk(const Vocabulary& vocabulary, uint32_t node, Simulation& simulation,
          std::vector<ConfigSet>& levels, OnNode&& on_node) {
  const std::span<const Vocabulary::Node> nodes = vocabulary.nodes();
  const size_t top = nodes[node].depth;
  const uint32_t end = nodes[node].end;
  for (uint32_t i = node + 1; i < end;) {
    const size_t level = nodes[i].depth - top;
    ConfigSet& set = levels[level];
    simulation.Step(levels[level - 1], nodes[i].byte, set);
    if (!set.dead()) on_node(i, set);
    i = set.configs.empty() ? nodes[i].end : i + 1;
  }
}

// Thread-safe: masks are computed by whoever needs them first, and kept for all.
class CompiledGrammar {
 public:
  // Errors are those of Automaton::Compile.
  static Result<std::shared_ptr<const CompiledGrammar>> Compile(
      const Grammar& grammar, std::shared_ptr<const Vocabulary> vocabulary);
  CompiledGrammar(Automaton automaton, std::shared_ptr<const Vocabulary> vocabulary);
  CompiledGrammar(const CompiledGrammar&) = delete;
  CompiledGrammar& operator=(const CompiledGrammar&) = delete;
  ~CompiledGrammar();

  const Automaton& automaton() const { return automaton_; }
  const Vocabulary& vocabulary() const { return *vocabulary_; }
  // Tokens of the shortest answer, without an end token.
  int64_t shortest_answer() const { return shortest_answer_; }

  // The mask of a state that reads. It lives as long as this, or, when this has no room for more
  // (kMaxMaskBytes), as long as `spare`.
  const LocalMask& MaskOf(StateId state, std::unique_ptr<const LocalMask>& spare) const;
  // Computes masks ahead of the first request, from the beginning of the grammar on, for no longer
  // than that.
  void Prepare(double seconds) const;
  // Of memory that masks may take in all.
  static constexpr size_t kMaxMaskBytes = size_t{64} * 1024 * 1024;

 private:
  std::unique_ptr<const LocalMask> MakeMask(StateId state) const;

  const Automaton automaton_;
  const std::shared_ptr<const Vocabulary> vocabulary_;
  int64_t shortest_answer_ = 0;
  mutable std::vector<std::atomic<const LocalMask*>> masks_;  // by state; null: not made yet
  mutable std::atomic<size_t> mask_bytes_{0};
};

}  // namespace erne::grammar
