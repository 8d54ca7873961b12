// One line about each request that has ended: what it was, and where its time went.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "base/log.h"
#include "engine/observer.h"

namespace erne {

// "id=chatcmpl-1f finish=stop prompt_tokens=35 cached_tokens=16 generated_tokens=120 queue_ms=3.1
// first_token_ms=85.0 mean_interval_ms=12.1 total_ms=1530.2"; what was not reached is left out.
std::string DescribeRequest(const RequestRecord& request);

// Thread-safe. The engine's loop thread adds, another one writes, so that a slow log never holds up
// the engine. Nothing is allocated for a request whose id has the usual length.
class RequestLog {
 public:
  // Requests that may wait to be written; of further ones only their number is logged.
  static constexpr size_t kCapacity = 4096;

  // Lines have this level; when the log leaves it out, nothing is kept.
  explicit RequestLog(LogLevel level);

  void Add(const RequestRecord& request);
  void Write();

 private:
  const LogLevel level_;
  const bool enabled_;
  std::mutex mutex_;  // guards all below
  std::vector<RequestRecord> added_;
  size_t count_ = 0;  // of added_ in use
  int64_t lost_ = 0;
  std::vector<RequestRecord> writing_;  // Write's alone: added_'s other buffer
};

}  // namespace erne
