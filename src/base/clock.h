// Time that only goes forward, as a number.
#pragma once

#include <chrono>
#include <cstdint>

namespace erne {

inline int64_t SteadyMilliseconds() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::milliseconds>(now).count();
}

// The same time as in EngineObserver's records.
inline double SteadySeconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace erne
