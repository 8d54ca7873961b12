#include "grammar/compiled_grammar.h"

#include <algorithm>
#include <utility>

#include "base/clock.h"

namespace erne::grammar {

void LocalMask::AddTo(std::span<uint32_t> mask) const {
  for (size_t i = 0; i < words.size(); ++i) mask[i] |= words[i];
  for (const int32_t token : tokens) Allow(token, mask);
}

size_t LocalMask::bytes() const {
  return sizeof(LocalMask) + words.size() * sizeof(uint32_t) + tokens.size() * sizeof(int32_t) +
         exits.size() * sizeof(uint32_t);
}

Result<std::shared_ptr<const CompiledGrammar>> CompiledGrammar::Compile(
    const Grammar& grammar, std::shared_ptr<const Vocabulary> vocabulary) {
  ERNE_ASSIGN_OR_RETURN(Automaton automaton,
                        Automaton::Compile(grammar, vocabulary->single_bytes()));
  return std::make_shared<const CompiledGrammar>(std::move(automaton), std::move(vocabulary));
}

CompiledGrammar::CompiledGrammar(Automaton automaton, std::shared_ptr<const Vocabulary> vocabulary)
    : automaton_(std::move(automaton)),
      vocabulary_(std::move(vocabulary)),
      masks_(automaton_.size()) {
  Simulation simulation(automaton_);
  ConfigSet begin;
  simulation.Begin(automaton_.start(), Simulation::kBottom, begin);
  shortest_answer_ = static_cast<int64_t>(vocabulary_->Spell(simulation.ShortestEnd(begin)).size());
}

CompiledGrammar::~CompiledGrammar() {
  for (const std::atomic<const LocalMask*>& mask : masks_) delete mask.load();
}

const LocalMask& CompiledGrammar::MaskOf(StateId state,
                                         std::unique_ptr<const LocalMask>& spare) const {
  std::atomic<const LocalMask*>& kept = masks_[state];
  if (const LocalMask* mask = kept.load(std::memory_order_acquire)) return *mask;
  spare = MakeMask(state);
  const size_t bytes = spare->bytes();
  if (mask_bytes_.fetch_add(bytes, std::memory_order_relaxed) + bytes > kMaxMaskBytes) {
    mask_bytes_.fetch_sub(bytes, std::memory_order_relaxed);
    return *spare;
  }
  const LocalMask* expected = nullptr;
  if (kept.compare_exchange_strong(expected, spare.get(), std::memory_order_acq_rel)) {
    return *spare.release();
  }
  mask_bytes_.fetch_sub(bytes, std::memory_order_relaxed);
  return *expected;  // another thread was faster
}

std::unique_ptr<const LocalMask> CompiledGrammar::MakeMask(StateId state) const {
  auto mask = std::make_unique<LocalMask>();
  Simulation simulation(automaton_);
  std::vector<ConfigSet> levels(vocabulary_->depth() + 1);
  // The state alone: what it can become without a byte are configs of their own.
  levels[0].configs = {{state, Simulation::kBottom}};
  Walk(*vocabulary_, 0, simulation, levels, [&](uint32_t node, const ConfigSet& set) {
    const std::span<const int32_t> tokens = vocabulary_->TokensAt(node);
    if (!tokens.empty()) {
      mask->tokens.insert(mask->tokens.end(), tokens.begin(), tokens.end());
      mask->farthest = std::max(mask->farthest, simulation.Distance(set));
    }
    if (set.ended && vocabulary_->HasChildren(node)) mask->exits.push_back(node);
  });
  if (mask->tokens.size() > vocabulary_->mask_words()) {  // the bitmap is smaller
    mask->words.resize(vocabulary_->mask_words());
    for (const int32_t token : mask->tokens) Allow(token, mask->words);
    mask->tokens = {};
  }
  mask->tokens.shrink_to_fit();
  mask->exits.shrink_to_fit();
  return mask;
}

void CompiledGrammar::Prepare(double seconds) const {
  const double end = SteadySeconds() + seconds;
  std::unique_ptr<const LocalMask> spare;
  for (size_t i = 0; i < automaton_.size() && SteadySeconds() < end; ++i) {
    const auto state = static_cast<StateId>(i);
    if (!automaton_.state(state).reads) continue;
    MaskOf(state, spare);
    if (spare != nullptr) return;  // there is no room for more
  }
}

}  // namespace erne::grammar
