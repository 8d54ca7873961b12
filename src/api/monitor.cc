#include "api/monitor.h"

#include <chrono>
#include <optional>
#include <string>
#include <utility>

#include "api/model_observer.h"
#include "base/clock.h"
#include "base/log.h"

namespace erne {

Monitor::Monitor(std::shared_ptr<ServedModel> model, const MonitorOptions& options)
    : model_(std::move(model)),
      options_(options),
      reporter_(model_->engine->stats()),
      watchdog_(options.stall_ms),
      reported_ms_(SteadyMilliseconds()),
      thread_([this] { Run(); }) {}

Monitor::~Monitor() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_one();
  thread_.join();
}

void Monitor::Run() {
  std::unique_lock lock(mutex_);
  while (!stop_) {
    wake_.wait_for(lock, std::chrono::milliseconds(options_.tick_ms), [this] { return stop_; });
    const bool last = stop_;
    lock.unlock();
    Look(last);
    lock.lock();
  }
}

void Monitor::Look(bool last) {
  if (model_->observer != nullptr) model_->observer->request_log().Write();
  if (last) return;
  const EngineStats stats = model_->engine->stats();
  const int64_t now_ms = SteadyMilliseconds();
  if (const std::optional<Watchdog::Message> message = watchdog_.Look(stats, now_ms)) {
    WriteLog(message->bad ? LogLevel::kError : LogLevel::kWarning, "watchdog", __LINE__,
             message->text);
  }
  if (const std::optional<std::string> warning = cache_alarm_.Look(stats, now_ms)) {
    WriteLog(LogLevel::kWarning, "stats", __LINE__, *warning, LogColour::kRed);
  }
  if (options_.stats_interval_ms == 0 || now_ms - reported_ms_ < options_.stats_interval_ms) return;
  const double seconds = static_cast<double>(now_ms - std::exchange(reported_ms_, now_ms)) / 1000;
  if (const std::optional<std::string> line = reporter_.Line(stats, seconds)) {
    ERNE_LOG(kInfo, "stats") << *line;
  }
}

}  // namespace erne
