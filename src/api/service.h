// The OpenAI-compatible service: routes, readiness, and the models behind them. No sockets here
// (see http_types.h).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "api/http_types.h"
#include "api/metrics.h"
#include "api/monitor.h"
#include "api/served_model.h"

namespace erne {

struct ServiceOptions {
  std::vector<std::string> api_keys = {};  // empty: no key asked
  // Names of the model being loaded, for answers before it is ready.
  std::vector<std::string> loading_names = {};
  MonitorOptions monitor = {};
  std::shared_ptr<Metrics> metrics = nullptr;  // null: some of its own
  // An answer that is not complete in this time ends with an error; a request may ask for less. 0:
  // none.
  int64_t request_timeout_ms = 0;
  bool force_include_usage = false;  // streams end with their usage, whatever they ask for
};

// Routes: POST /v1/chat/completions, /v1/completions, /tokenize and /detokenize, GET /v1/models
// (and /v1/models/{id}), /v1/streams/{id} (resumable_stream.h), /health (and /health/live,
// /health/ready), /ping, /metrics, /version, /openapi.json, and the page's static files. Starts in
// the state "loading": /health answers 503 with progress, completions 503 with Retry-After. /health
// turns 503 again when the engine hangs or all of its steps fail. What is ready is watched by a
// Monitor. Thread-safe.
class Service : public HttpHandler {
 public:
  explicit Service(ServiceOptions options);
  ~Service() override;

  void Handle(HttpRequest request, std::shared_ptr<ResponseWriter> writer) override;
  void OnRefused(int status) override;

  void SetProgress(double fraction);  // 0..1, while loading
  // `announce`, when given, tells the world (the log). Whoever hears of it may ask at once, and
  // whoever sees the service ready may look for it: requests that come in between wait for both.
  void SetReady(std::shared_ptr<ServedModel> model,
                const std::function<void()>& announce = nullptr);
  // New completions are refused with 503; running ones go on, but for streams that wait for their
  // clients to come back.
  void SetDraining();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace erne
