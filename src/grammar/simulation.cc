#include "grammar/simulation.h"

#include <algorithm>

#include "base/check.h"

namespace erne::grammar {

int32_t Simulation::Push(StateId state, int32_t parent) {
  // Ways that part and meet again push the same frame, one soon after the other.
  constexpr size_t kLookBack = 8;
  for (size_t i = frames_.size(); i > 0 && i + kLookBack > frames_.size(); --i) {
    const Frame& frame = frames_[i - 1];
    if (frame.state == state && frame.parent == parent) return static_cast<int32_t>(i - 1);
  }
  frames_.push_back({.parent = parent,
                     .distance = automaton_->state(state).distance + DistanceBehind(parent),
                     .state = state});
  return static_cast<int32_t>(frames_.size()) - 1;
}

bool Simulation::SameFrames(int32_t a, int32_t b) const {
  while (a != b) {
    if (a == kBottom || b == kBottom) return false;
    const Frame& x = frames_[static_cast<size_t>(a)];
    const Frame& y = frames_[static_cast<size_t>(b)];
    if (x.state != y.state) return false;
    a = x.parent;
    b = y.parent;
  }
  return true;
}

bool Simulation::Holds(const std::vector<Config>& configs, const Config& config) const {
  return std::any_of(configs.begin(), configs.end(), [&](const Config& held) {
    return held.state == config.state && SameFrames(held.frame, config.frame);
  });
}

// Adds what `config` can become without a byte: rules begin and end.
void Simulation::Close(Config config, ConfigSet& out) {
  pending_.assign(1, config);
  while (!pending_.empty()) {
    const Config at = pending_.back();
    pending_.pop_back();
    const Automaton::State& state = automaton_->state(at.state);
    if (state.num_calls == 0 && !state.accepting) {  // the usual case
      if (out.configs.size() < kMaxConfigs && !Holds(out.configs, at)) out.configs.push_back(at);
      continue;
    }
    if (visited_.size() >= kMaxConfigs || Holds(visited_, at)) continue;
    visited_.push_back(at);
    if (state.reads && out.configs.size() < kMaxConfigs) out.configs.push_back(at);
    if (state.accepting) {
      if (at.frame == kBottom) {
        out.ended = true;
      } else {
        const Frame& frame = frames_[static_cast<size_t>(at.frame)];
        pending_.push_back({frame.state, frame.parent});
      }
    }
    for (const Automaton::CallEdge& call : automaton_->calls(at.state)) {
      const int32_t frame =
          automaton_->only_ends(call.behind) ? at.frame : Push(call.behind, at.frame);
      pending_.push_back({call.begin, frame});
    }
  }
}

void Simulation::Begin(StateId state, int32_t frame, ConfigSet& out) {
  out.configs.clear();
  out.ended = false;
  visited_.clear();
  Close({state, frame}, out);
  out.frames = frames_.size();
}

void Simulation::Step(const ConfigSet& from, uint8_t byte, ConfigSet& out) {
  frames_.resize(from.frames);
  out.configs.clear();
  out.ended = false;
  visited_.clear();
  for (const Config& config : from.configs) {
    const StateId next = automaton_->Next(config.state, byte);
    if (next != Automaton::kNoState) Close({next, config.frame}, out);
  }
  out.frames = frames_.size();
}

int32_t Simulation::Distance(const ConfigSet& set) const {
  int32_t distance = set.ended ? 0 : Automaton::kFar;
  for (const Config& config : set.configs) {
    distance =
        std::min(distance, automaton_->state(config.state).distance + DistanceBehind(config.frame));
  }
  return distance;
}

std::string Simulation::ShortestEnd(const ConfigSet& set) const {
  std::string text;
  if (set.ended) return text;
  ERNE_CHECK(!set.configs.empty());
  const auto nearest = std::min_element(
      set.configs.begin(), set.configs.end(), [&](const Config& a, const Config& b) {
        return automaton_->state(a.state).distance + DistanceBehind(a.frame) <
               automaton_->state(b.state).distance + DistanceBehind(b.frame);
      });
  // Rules that were begun on the way; below them are the frames.
  std::vector<StateId> callers;
  StateId at = nearest->state;
  int32_t frame = nearest->frame;
  while (true) {
    const Automaton::State& state = automaton_->state(at);
    if (state.accepting) {
      if (!callers.empty()) {
        at = callers.back();
        callers.pop_back();
      } else if (frame != kBottom) {
        at = frames_[static_cast<size_t>(frame)].state;
        frame = frames_[static_cast<size_t>(frame)].parent;
      } else {
        return text;
      }
    } else if (state.shortest < automaton_->num_classes()) {
      text += static_cast<char>(automaton_->ByteOf(state.shortest));
      at = automaton_->NextOfClass(at, state.shortest);
    } else {
      const Automaton::CallEdge& call =
          automaton_->calls(at)[state.shortest - automaton_->num_classes()];
      callers.push_back(call.behind);
      at = call.begin;
    }
  }
}

void Simulation::Compact(ConfigSet& set) {
  constexpr int32_t kUnused = -2;
  std::vector<int32_t> moved(frames_.size(), kUnused);
  for (const Config& config : set.configs) {
    for (int32_t at = config.frame; at != kBottom && moved[static_cast<size_t>(at)] == kUnused;
         at = frames_[static_cast<size_t>(at)].parent) {
      moved[static_cast<size_t>(at)] = 0;
    }
  }
  size_t kept = 0;
  for (size_t i = 0; i < frames_.size(); ++i) {
    if (moved[i] == kUnused) continue;
    Frame frame = frames_[i];
    if (frame.parent != kBottom) frame.parent = moved[static_cast<size_t>(frame.parent)];
    moved[i] = static_cast<int32_t>(kept);
    frames_[kept++] = frame;
  }
  frames_.resize(kept);
  for (Config& config : set.configs) {
    if (config.frame != kBottom) config.frame = moved[static_cast<size_t>(config.frame)];
  }
  set.frames = kept;
}

}  // namespace erne::grammar
