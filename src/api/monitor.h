// The thread that looks after a served model: STATS lines, the watchdog, the alarm about a full
// cache, and the lines about requests that have ended.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>

#include "api/engine_watch.h"
#include "api/served_model.h"

namespace erne {

struct MonitorOptions {
  int64_t stats_interval_ms = 60'000;  // 0: no STATS lines
  // Far above a slow machine's longest step: a busy server must not look dead.
  int64_t stall_ms = 60'000;
  int64_t tick_ms = 1000;  // between two looks
};

// Writes to the log and to nothing else. Its thread lives as long as it does.
class Monitor {
 public:
  Monitor(std::shared_ptr<ServedModel> model, const MonitorOptions& options);
  Monitor(const Monitor&) = delete;
  Monitor& operator=(const Monitor&) = delete;
  ~Monitor();

 private:
  void Run();
  void Look(bool last);

  const std::shared_ptr<ServedModel> model_;
  const MonitorOptions options_;
  // The thread's own.
  StatsReporter reporter_;
  Watchdog watchdog_;
  CacheAlarm cache_alarm_;
  int64_t reported_ms_;

  std::mutex mutex_;
  std::condition_variable wake_;
  bool stop_ = false;   // guarded by mutex_
  std::thread thread_;  // last: it uses all above
};

}  // namespace erne
