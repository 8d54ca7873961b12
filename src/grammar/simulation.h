// What a pushdown automaton has read so far: every way at once in which it could have.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "grammar/automaton.h"

namespace erne::grammar {

// A state, and who waits for its rule to end.
struct Config {
  StateId state = 0;
  int32_t frame = -1;
  bool operator==(const Config&) const = default;
};

// All ways in which a text can have been read. Each config reads on.
struct ConfigSet {
  std::vector<Config> configs;
  bool ended = false;  // the text may end here
  size_t frames = 0;   // the simulation's frames that it needs are below this

  bool dead() const { return configs.empty() && !ended; }
};

// Steps of an automaton, and the frames of rules that wait. Used by one thread.
class Simulation {
 public:
  static constexpr int32_t kBottom = -1;  // the frame below which there is nothing
  // More ways than this are not followed: a grammar so ambiguous that it has them may lose some
  // answers that it allows, and allows no others.
  static constexpr size_t kMaxConfigs = 128;

  explicit Simulation(const Automaton& automaton) : automaton_(&automaton) {}

  // Everything that can be the case in `state` before a byte is read.
  void Begin(StateId state, int32_t frame, ConfigSet& out);
  // And behind a rule whose caller waits in `frame`.
  void Return(int32_t frame, ConfigSet& out) {
    Begin(frames_[static_cast<size_t>(frame)].state, frames_[static_cast<size_t>(frame)].parent,
          out);
  }
  // Frames of `from` stay, and so do those of sets that have no more; others are forgotten.
  void Step(const ConfigSet& from, uint8_t byte, ConfigSet& out);
  // Bytes of the shortest way to the end.
  int32_t Distance(const ConfigSet& set) const;
  int32_t DistanceBehind(int32_t frame) const {
    return frame == kBottom ? 0 : frames_[static_cast<size_t>(frame)].distance;
  }
  // A shortest way to the end.
  std::string ShortestEnd(const ConfigSet& set) const;
  // Forgets the frames that `set` does not need, and renumbers the others in it.
  void Compact(ConfigSet& set);
  size_t num_frames() const { return frames_.size(); }

 private:
  struct Frame {
    int32_t parent = kBottom;
    int32_t distance = 0;  // bytes from here to the end of everything
    StateId state = 0;     // where its rule goes on
  };

  int32_t Push(StateId state, int32_t parent);
  bool SameFrames(int32_t a, int32_t b) const;
  bool Holds(const std::vector<Config>& configs, const Config& config) const;
  void Close(Config config, ConfigSet& out);

  const Automaton* automaton_;
  std::vector<Frame> frames_;    // a parent comes before its children
  std::vector<Config> pending_;  // scratch of Close
  std::vector<Config> visited_;
};

}  // namespace erne::grammar
