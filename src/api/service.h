// The OpenAI-compatible service: routes, readiness, and the models behind them. No sockets here
// (see http_types.h).
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "api/http_types.h"
#include "api/served_model.h"

namespace erne {

struct ServiceOptions {
  std::vector<std::string> api_keys;  // empty: no key asked
  std::vector<std::string>
      loading_names;  // names of the model being loaded, for answers before it is ready
};

// Routes: POST /v1/chat/completions, /v1/completions, /tokenize and /detokenize, GET /v1/models
// (and /v1/models/{id}), /health, /version, and the page's static files. Starts in the state
// "loading": /health answers 503 with progress, completions 503 with Retry-After. Thread-safe.
class Service : public HttpHandler {
 public:
  explicit Service(ServiceOptions options);
  ~Service() override;

  void Handle(HttpRequest request, std::shared_ptr<ResponseWriter> writer) override;

  void SetProgress(double fraction);  // 0..1, while loading
  void SetReady(std::shared_ptr<ServedModel> model);
  // New completions are refused with 503; running ones go on.
  void SetDraining();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace erne
