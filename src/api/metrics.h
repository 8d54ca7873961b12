// What GET /metrics tells, in Prometheus' text format and under vLLM's names, so that its
// dashboards work. docs/metrics.md lists every name; a test compares the two.
//
//   HTTP requests   counted by the service                   Metrics::CountRequest
//   events          told by the engine as they happen        ModelMetrics, an EngineObserver
//   states, totals  read from the engine's statistics when somebody asks
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "engine/engine.h"
#include "engine/observer.h"

namespace erne {

// Above this share of the KV cache in use, requests wait for each other's memory.
inline constexpr double kFullCacheUsage = 0.92;

// The share of the KV cache that running requests hold, 0..1.
double CacheUsage(const EngineStats& stats);

// Why a request ended, in vLLM's words: "stop", "length", "repetition", "abort" (nobody waited for
// the rest) or "error".
const char* EndReason(const std::optional<FinishReason>& finish);

struct MeasuredModel {
  std::string name;
  int64_t max_context = 1;  // tokens: the ends of histograms that count tokens
  int64_t block_size = 0;   // tokens in a block of the KV cache
  bool prefix_caching = false;
};

struct MetricRegistry;  // the library's, and the families of every model

// The events of one model. Thread-safe; none of its methods waits for more than another thread's
// addition.
class ModelMetrics : public EngineObserver {
 public:
  ModelMetrics(std::shared_ptr<MetricRegistry> registry, MeasuredModel model);
  ~ModelMetrics() override;

  void OnStep(const StepRecord& step) override;
  void OnFirstToken(double seconds) override;
  void OnNextToken(double seconds) override;
  void OnEnd(const RequestRecord& request) override;
  void OnBlockReused(double idle_seconds) override;
  void OnBlockEvicted(const BlockRecord& block) override;
  // A prompt to which `choices` answers were asked for was accepted.
  void OnAccepted(int64_t choices);

  const MeasuredModel& model() const { return model_; }

 private:
  struct Series;

  const std::shared_ptr<MetricRegistry> registry_;  // owns what series_ points to
  const MeasuredModel model_;
  const std::unique_ptr<const Series> series_;
};

// One model at the moment of a scrape. Totals are told from `since` on.
struct ModelState {
  const MeasuredModel& model;
  const EngineStats& stats;
  const EngineStats& since;
};

// Owned by the program; thread-safe.
class Metrics {
 public:
  static constexpr const char* kContentType = "text/plain; version=0.0.4; charset=utf-8";

  Metrics();
  Metrics(const Metrics&) = delete;
  Metrics& operator=(const Metrics&) = delete;
  ~Metrics();

  // One answered request. `handler` is the route's pattern and `method` one of a few, so that no
  // client can make up series.
  void CountRequest(const std::string& handler, const std::string& method, int status,
                    std::optional<double> seconds);

  // For the engine of a model that is about to be loaded.
  std::shared_ptr<ModelMetrics> AddModel(MeasuredModel model);

  // The answer to a scrape.
  std::string Text(std::span<const ModelState> models) const;

 private:
  const std::shared_ptr<MetricRegistry> registry_;
};

}  // namespace erne
