#include "api/engine_watch.h"

#include <utility>

#include "api/metrics.h"
#include "base/strings.h"

namespace erne {
namespace {

// One failed step may be its batch's fault; so many in a row are the device's.
constexpr int64_t kFailedStepsOfABrokenDevice = 3;
constexpr int64_t kAlarmIntervalMs = 60'000;

std::string Percent(double share) { return FormatFixed(share * 100, 1) + "%"; }

double Share(int64_t part, int64_t all) {
  return all == 0 ? 0 : static_cast<double>(part) / static_cast<double>(all);
}

std::string RequestsInside(const EngineStats& stats) {
  return StrCat(stats.running, " running and ", stats.waiting, " waiting requests inside");
}

}  // namespace

const char* NameOf(EngineFault::Kind kind) {
  return kind == EngineFault::Kind::kStalled ? "stalled" : "failing";
}

std::optional<EngineFault> FindFault(const EngineStats& stats, int64_t now_ms, int64_t stall_ms) {
  if (stats.consecutive_failed_steps >= kFailedStepsOfABrokenDevice) {
    return EngineFault{.kind = EngineFault::Kind::kFailing,
                       .failed_steps = stats.consecutive_failed_steps};
  }
  const int64_t idle_ms = now_ms - stats.last_step_ms;
  if (stats.running + stats.waiting > 0 && idle_ms > stall_ms) {
    return EngineFault{.kind = EngineFault::Kind::kStalled,
                       .seconds = static_cast<double>(idle_ms) / 1000};
  }
  return std::nullopt;
}

std::optional<std::string> StatsReporter::Line(const EngineStats& now, double seconds) {
  const EngineStats last = std::exchange(last_, now);
  const bool idle = now.running + now.waiting + last.running + last.waiting == 0 &&
                    now.steps == last.steps && now.generated_tokens == last.generated_tokens &&
                    now.prompt_tokens == last.prompt_tokens;
  if (idle) return std::nullopt;
  const auto rate = [&](int64_t EngineStats::* total) {
    return FormatFixed(static_cast<double>(now.*total - last.*total) / seconds, 1) + " tokens/s";
  };
  return StrCat(
      "STATS num_requests_running=", now.running, ", num_requests_waiting=", now.waiting,
      ", gpu_cache_usage=", Percent(CacheUsage(now)),
      ", avg_prompt_throughput=", rate(&EngineStats::prompt_tokens),
      ", avg_generation_throughput=", rate(&EngineStats::generated_tokens),
      ", prefix_cache_hit_rate=",
      Percent(Share(now.prefix_hits - last.prefix_hits, now.prefix_queries - last.prefix_queries)));
}

std::optional<Watchdog::Message> Watchdog::Look(const EngineStats& stats, int64_t now_ms) {
  const std::optional<EngineFault> before = fault_;
  fault_ = FindFault(stats, now_ms, stall_ms_);
  if (fault_.has_value() == before.has_value() &&
      (!fault_.has_value() || fault_->kind == before->kind)) {
    return std::nullopt;
  }
  if (!fault_) {
    return Message{false, StrCat("the engine works again after ",
                                 FormatFixed(static_cast<double>(now_ms - since_ms_) / 1000, 0),
                                 " s, with ", RequestsInside(stats))};
  }
  if (!before) since_ms_ = now_ms - static_cast<int64_t>(fault_->seconds * 1000);
  if (fault_->kind == EngineFault::Kind::kFailing) {
    return Message{true, StrCat("the last ", fault_->failed_steps, " steps of the engine failed; ",
                                "/health says failing, with ", RequestsInside(stats))};
  }
  return Message{true,
                 StrCat("the engine hangs: no step has ended for ", FormatFixed(fault_->seconds, 0),
                        " s, with ", RequestsInside(stats), "; /health says stalled")};
}

std::optional<std::string> CacheAlarm::Look(const EngineStats& stats, int64_t now_ms) {
  const double usage = CacheUsage(stats);
  if (usage <= kFullCacheUsage) return std::nullopt;
  if (warned_ms_ && now_ms - *warned_ms_ < kAlarmIntervalMs) return std::nullopt;
  warned_ms_ = now_ms;
  return StrCat(
      "gpu_cache_usage is ", Percent(usage), ", above ", Percent(kFullCacheUsage), ", with ",
      RequestsInside(stats),
      ": the KV cache is nearly full, and requests wait for memory. Clear sessions (begin "
      "new conversations) or lower concurrency (--max-num-seqs, or fewer clients)");
}

}  // namespace erne
