#include "cli/bench_server.h"

#include <algorithm>
#include <utility>

#include "base/machine.h"
#include "chat/template.h"
#include "cli/number_tokenizer.h"
#include "text/tokenizer.h"

namespace erne {
namespace {

constexpr const char* kName = "bench";
// What clients write, one message after the other.
constexpr const char* kPlainTemplate = "{% for m in messages %}{{ m['content'] }} {% endfor %}";

ServiceOptions QuietService() {
  ServiceOptions options;
  options.loading_names = {kName};
  options.monitor.stats_interval_ms = 0;
  return options;
}

// As of `erne serve`.
HttpServerOptions HttpOptions() {
  HttpServerOptions options;
  options.threads = std::clamp(UsableCpus(), 3, 4);
  options.urgent_path = "/health";
  return options;
}

Status LoadText(const FileSet* files, const ModelSpec& spec, ServedModel& model) {
  if (files == nullptr) {
    model.tokenizer = MakeNumberTokenizer(spec.vocab_size);
    ERNE_ASSIGN_OR_RETURN(model.chat_template, ChatTemplate::Compile(kPlainTemplate));
    return {};
  }
  ERNE_ASSIGN_OR_RETURN(model.tokenizer, LoadTokenizer(*files));
  ERNE_ASSIGN_OR_RETURN(LoadedTemplate chat, LoadChatTemplate(*files, spec));
  model.chat_template = std::move(chat.chat_template);
  model.template_variables = std::move(chat.variables);
  ERNE_ASSIGN_OR_RETURN(model.prompt_prefix, LoadPromptPrefix(*files, *model.tokenizer));
  return {};
}

}  // namespace

BenchServer::BenchServer() : service_(QuietService()), server_(service_, HttpOptions()) {}

Result<std::unique_ptr<BenchServer>> BenchServer::Start(std::unique_ptr<Executor> executor,
                                                        const std::shared_ptr<const FileSet>& files,
                                                        const EngineOptions& options) {
  std::unique_ptr<BenchServer> bench(new BenchServer());
  bench->model_ = std::make_shared<ServedModel>();
  ServedModel& model = *bench->model_;
  model.names = {kName};
  model.root = kName;
  const ModelSpec& spec = executor->spec();
  ERNE_RETURN_IF_ERROR(LoadText(files.get(), spec, model));
  for (const int64_t token : spec.eos_tokens) {
    model.defaults.eos_tokens.push_back(static_cast<int32_t>(token));
  }
  model.engine = std::make_unique<Engine>(std::move(executor), options);
  ERNE_ASSIGN_OR_RETURN(bench->port_, bench->server_.Listen("127.0.0.1", 0));
  bench->service_.SetReady(bench->model_);
  return bench;
}

BenchServer::~BenchServer() {
  service_.SetDraining();
  server_.StopKeepAlive();
  if (model_ != nullptr && model_->engine != nullptr) model_->engine->Shutdown(0);
  server_.StopAccepting();
}

}  // namespace erne
