// What an engine's statistics mean for those who operate it: the STATS line, whether it still
// works, whether its memory is full. No threads and no clock here: see monitor.h.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "engine/engine.h"

namespace erne {

// What is wrong with an engine.
struct EngineFault {
  enum class Kind {
    kStalled,  // work waits and no step has ended for long
    kFailing,  // the last steps failed
  };
  Kind kind;
  double seconds = 0;        // stalled: since the last step
  int64_t failed_steps = 0;  // failing: in a row
};

// "stalled" or "failing".
const char* NameOf(EngineFault::Kind kind);

// Times are milliseconds of the steady clock.
std::optional<EngineFault> FindFault(const EngineStats& stats, int64_t now_ms, int64_t stall_ms);

// Makes STATS lines. Not thread-safe.
class StatsReporter {
 public:
  explicit StatsReporter(const EngineStats& begin) : last_(begin) {}

  // The line about the `seconds` since the last call (or the beginning); nothing when no request
  // was inside in all that time.
  std::optional<std::string> Line(const EngineStats& now, double seconds);

 private:
  EngineStats last_;
};

// Says once when the engine stops working, and once when it goes on. Not thread-safe.
class Watchdog {
 public:
  explicit Watchdog(int64_t stall_ms) : stall_ms_(stall_ms) {}

  struct Message {
    bool bad = false;
    std::string text;
  };
  std::optional<Message> Look(const EngineStats& stats, int64_t now_ms);

 private:
  const int64_t stall_ms_;
  std::optional<EngineFault> fault_;  // as of the last look
  int64_t since_ms_ = 0;              // when it began
};

// Warns of a full KV cache, at most once a minute. Not thread-safe.
class CacheAlarm {
 public:
  std::optional<std::string> Look(const EngineStats& stats, int64_t now_ms);

 private:
  std::optional<int64_t> warned_ms_;
};

}  // namespace erne
