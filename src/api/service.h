// The OpenAI-compatible service: routes, readiness, and the models behind them. No sockets here (see http_types.h).
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "api/http_types.h"
#include "base/json.h"
#include "base/status.h"
#include "chat/template.h"
#include "engine/engine.h"
#include "text/tokenizer.h"

namespace erne {

// Sampling defaults of a model (its generation_config.json); request fields win over them, OpenAI's defaults come last.
struct GenerationDefaults {
  std::optional<float> temperature;
  std::optional<float> top_p;
  std::optional<int32_t> top_k;
  std::optional<float> repetition_penalty;
  std::vector<int32_t> eos_tokens;  // generation ends with these
};

// One model that is ready to answer. Immutable but for the engine, which is thread-safe.
struct ServedModel {
  std::vector<std::string> names;  // the first is the one that answers carry; all are accepted, any letter case
  std::string root;                // path or "embedded:erne-mini", for /v1/models
  int64_t created = 0;             // seconds since the epoch
  std::unique_ptr<Engine> engine;
  std::unique_ptr<const Tokenizer> tokenizer;
  std::unique_ptr<const ChatTemplate> chat_template;
  Json template_variables = Json::MakeObject();  // trusted: bos_token, eos_token, cls_token, sep_token, ...
  GenerationDefaults defaults;
};

// Names under which a model is served, in order, without duplicates: `served` (from --served-model-name), else the last
// folder of `path` and the path itself; and the lower-case form of each.
std::vector<std::string> ServedNames(const std::string& path, const std::vector<std::string>& served);

// Sampling defaults out of generation_config.json (empty or absent: none) and the spec's eos tokens.
Result<GenerationDefaults> LoadGenerationDefaults(const FileSet& files, const ModelSpec& spec);

// The folder's chat template (chat_template.jinja, else tokenizer_config.json's; ERNIE's own form for an ERNIE checkpoint without
// one) compiled and tried on one message, and the special-token variables it may use.
struct LoadedTemplate {
  std::unique_ptr<const ChatTemplate> chat_template;
  Json variables;
};
Result<LoadedTemplate> LoadChatTemplate(const FileSet& files, const ModelSpec& spec);

struct ServiceOptions {
  std::vector<std::string> api_keys;  // empty: no key asked
  std::vector<std::string> loading_names;  // names of the model being loaded, for answers before it is ready
};

// Routes: POST /v1/chat/completions, GET /v1/models (and /v1/models/{id}), /health, /version, and the page's static files.
// Starts in the state "loading": /health answers 503 with progress, completions 503 with Retry-After. Thread-safe.
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
