// What the program learns from the engine of a served model.
#pragma once

#include <atomic>
#include <memory>
#include <utility>

#include "api/metrics.h"
#include "api/request_log.h"
#include "api/retry_after.h"
#include "engine/observer.h"

namespace erne {

// Hands what the engine tells to those who want to know. Requests before Begin, the program's own
// to warm up, are nobody's business. Thread-safe.
class ModelObserver : public EngineObserver {
 public:
  ModelObserver(std::shared_ptr<ModelMetrics> metrics, LogLevel request_level)
      : metrics_(std::move(metrics)), request_log_(request_level) {}

  void Begin() { begun_.store(true, std::memory_order_relaxed); }

  void OnStep(const StepRecord& step) override {
    if (begun()) metrics_->OnStep(step);
  }
  void OnFirstToken(double seconds) override {
    if (begun()) metrics_->OnFirstToken(seconds);
  }
  void OnNextToken(double seconds) override {
    if (begun()) metrics_->OnNextToken(seconds);
  }
  void OnEnd(const RequestRecord& request) override {
    if (!begun()) return;
    metrics_->OnEnd(request);
    retry_estimate_.OnEnd(request.arrived, request.ended);
    request_log_.Add(request);
  }
  void OnBlockReused(double idle_seconds) override {
    if (begun()) metrics_->OnBlockReused(idle_seconds);
  }
  void OnBlockEvicted(const BlockRecord& block) override {
    if (begun()) metrics_->OnBlockEvicted(block);
  }

  ModelMetrics& metrics() { return *metrics_; }
  RequestLog& request_log() { return request_log_; }
  RetryEstimate& retry_estimate() { return retry_estimate_; }

 private:
  bool begun() const { return begun_.load(std::memory_order_relaxed); }

  const std::shared_ptr<ModelMetrics> metrics_;
  RequestLog request_log_;
  RetryEstimate retry_estimate_;
  std::atomic<bool> begun_{false};
};

}  // namespace erne
