// What a server shows of itself: /health, and its process in /proc.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace erne::load {

// Members of erne's /health; a server that has others gives none of them.
struct HealthState {
  int64_t running = 0;
  int64_t waiting = 0;
  int64_t kv_blocks_used = 0;

  bool idle() const { return running == 0 && waiting == 0 && kv_blocks_used == 0; }
};
std::optional<HealthState> ParseHealth(std::string_view body);

struct ProcessState {
  double rss_mib = 0;
  double peak_rss_mib = 0;
  int64_t threads = 0;
  int64_t descriptors = 0;
};
// Nothing when there is no such process, or it is somebody else's.
std::optional<ProcessState> ReadProcess(int64_t pid);

}  // namespace erne::load
