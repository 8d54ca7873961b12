#include "grammar/matcher.h"

#include <algorithm>
#include <string_view>
#include <utility>

namespace erne::grammar {
namespace {

// Frames that nobody needs any more are kept up to here.
constexpr size_t kManyFrames = 4096;

}  // namespace

Matcher::Matcher(std::shared_ptr<const CompiledGrammar> grammar, std::vector<int32_t> end_tokens,
                 int64_t tokens_left)
    : grammar_(std::move(grammar)),
      end_tokens_(std::move(end_tokens)),
      simulation_(grammar_->automaton()),
      levels_(grammar_->vocabulary().depth() + 1),
      mask_(grammar_->vocabulary().mask_words()) {
  simulation_.Begin(grammar_->automaton().start(), Simulation::kBottom, now_);
  MakeMask(tokens_left);
}

void Matcher::Accept(int32_t token, int64_t tokens_left) {
  for (const char byte : grammar_->vocabulary().text(token)) {
    simulation_.Step(now_, static_cast<uint8_t>(byte), next_);
    std::swap(now_, next_);
  }
  if (simulation_.num_frames() > kManyFrames) {
    simulation_.Compact(now_);
    masked_.clear();  // frames have new numbers
  }
  if (!plan_.empty() && plan_.back() == token) {
    plan_.pop_back();
  } else {
    plan_.clear();
  }
  complete_ = now_.ended && now_.configs.empty();
  if (tokens_left > 0) MakeMask(tokens_left);
}

void Matcher::BeginEnd() {
  if (ending_) return;
  ending_ = true;
  if (!complete_) MakeMask(1);
}

void Matcher::MakeMask(int64_t tokens_left) {
  const bool same = !masked_.empty() && masked_ == now_.configs && !ending_;
  if (same && farthest_ < tokens_left)
    return;  // inside a text most masks are that of the token before
  masked_.clear();
  if (!ending_) {
    farthest_ = AllowAll();
    if (farthest_ < tokens_left) {
      masked_ = now_.configs;
    } else {
      AllowWithin(tokens_left - 1);
    }
  }
  if (masked_.empty()) {
    if (ending_) std::fill(mask_.begin(), mask_.end(), 0);
    if (plan_.empty()) PlanEnd();
    const bool fits = static_cast<int64_t>(plan_.size()) <= tokens_left;
    const bool stuck =
        std::all_of(mask_.begin(), mask_.end(), [](uint32_t word) { return word == 0; });
    if (!plan_.empty() && (fits || stuck)) Allow(plan_.back(), mask_);
    complete_ = plan_.empty() && stuck;
  }
  if (!now_.ended) return;
  for (const int32_t token : end_tokens_) {
    if (token >= 0 && token < grammar_->vocabulary().num_tokens()) Allow(token, mask_);
  }
}

void Matcher::AllowTokensAt(uint32_t node) {
  for (const int32_t token : grammar_->vocabulary().TokensAt(node)) Allow(token, mask_);
}

int64_t Matcher::AllowAll() {
  std::fill(mask_.begin(), mask_.end(), 0);
  int64_t farthest = 0;
  std::unique_ptr<const LocalMask> spare;
  for (const Config& config : now_.configs) {
    const LocalMask& local = grammar_->MaskOf(config.state, spare);
    local.AddTo(mask_);
    farthest =
        std::max<int64_t>(farthest, local.farthest + simulation_.DistanceBehind(config.frame));
    if (config.frame == Simulation::kBottom || local.exits.empty()) continue;
    simulation_.Return(config.frame, levels_[0]);
    for (const uint32_t exit : local.exits) {
      Walk(grammar_->vocabulary(), exit, simulation_, levels_,
           [&](uint32_t node, const ConfigSet& set) {
             AllowTokensAt(node);
             farthest = std::max<int64_t>(farthest, simulation_.Distance(set));
           });
    }
  }
  return farthest;
}

void Matcher::AllowWithin(int64_t bytes) {
  std::fill(mask_.begin(), mask_.end(), 0);
  levels_[0] = now_;
  Walk(grammar_->vocabulary(), 0, simulation_, levels_, [&](uint32_t node, const ConfigSet& set) {
    if (simulation_.Distance(set) <= bytes) AllowTokensAt(node);
  });
}

void Matcher::PlanEnd() {
  plan_ = grammar_->vocabulary().Spell(simulation_.ShortestEnd(now_));
  std::reverse(plan_.begin(), plan_.end());
}

}  // namespace erne::grammar
