#include "api/service.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <mutex>
#include <optional>
#include <set>
#include <utility>

#include "api/answer_plan.h"
#include "api/answer_session.h"
#include "api/auth.h"
#include "api/chat_format.h"
#include "api/chat_request.h"
#include "api/completion_format.h"
#include "api/completion_prompt.h"
#include "api/completion_request.h"
#include "api/errors.h"
#include "api/generation.h"
#include "api/measured_writer.h"
#include "api/model_observer.h"
#include "api/openapi.h"
#include "api/request_id.h"
#include "api/resumable_stream.h"
#include "api/schema.h"
#include "api/static_files.h"
#include "api/tokenize.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/strings.h"

namespace erne {
namespace {

// A hang of so many times the watchdog's patience does not end by itself.
constexpr int64_t kHopelessStalls = 10;
constexpr std::string_view kModelPrefix = "/v1/models/";
constexpr std::string_view kStreamPrefix = "/v1/streams/";
// Unknown field names that are remembered as logged; after so many different ones no more are.
constexpr size_t kMaxLoggedFields = 256;

int64_t UnixSeconds() {
  using std::chrono::system_clock;
  return std::chrono::duration_cast<std::chrono::seconds>(system_clock::now().time_since_epoch())
      .count();
}

// The writer of one request with the headers that every answer carries.
class Reply {
 public:
  Reply(std::shared_ptr<ResponseWriter> writer, std::string request_id)
      : writer_(std::move(writer)), request_id_(std::move(request_id)) {}

  const std::shared_ptr<ResponseWriter>& writer() const { return writer_; }
  const std::string& request_id() const { return request_id_; }

  // Pages of other origins may call the API, as with vLLM's defaults.
  void AddHeaders(HttpResponse& response) const {
    response.headers.emplace_back("X-Request-Id", request_id_);
    response.headers.emplace_back("Access-Control-Allow-Origin", "*");
    response.headers.emplace_back("Access-Control-Expose-Headers",
                                  "X-Request-Id, X-Stream-Id, Retry-After");
  }

  void Send(HttpResponse response) const {
    AddHeaders(response);
    writer_->Send(std::move(response));
  }
  void SendJson(int status, const Json& body) const {
    HttpResponse response;
    response.status = status;
    response.body = body.Dump();
    Send(std::move(response));
  }
  void SendError(const Status& status) const { Send(ErrorResponse(status)); }

 private:
  std::shared_ptr<ResponseWriter> writer_;
  std::string request_id_;
};

// What answers completions. Shared by the requests that it answers.
struct ReadyModel {
  std::shared_ptr<ServedModel> model;
  ModelFacts facts;
  EngineStats before;  // what its engine had done until it was ready
};

// A method as a metric tells it: clients can make up any other.
std::string KnownMethod(const std::string& method) {
  for (const char* known : {"GET", "POST", "OPTIONS", "PUT", "DELETE", "PATCH"}) {
    if (method == known) return method;
  }
  return "other";
}

// For probes: no key is asked, and they fill no log.
bool IsHealthPath(std::string_view path) {
  return path == "/health" || path == "/health/live" || path == "/health/ready" || path == "/ping";
}

// Before anything of the request is read: Submit decides, but costs more.
Status CheckRoom(const ServedModel& model) {
  const EngineStats stats = model.engine->stats();
  const int64_t most = model.engine->max_requests();
  if (stats.running + stats.waiting < most) return {};
  return ResourceExhausted(StrCat("the queue is full: this server takes ", most,
                                  " requests at a time (--max-num-seqs and --max-num-queued-reqs); "
                                  "try again after the time in Retry-After"));
}

Json ModelCard(const ServedModel& model, const std::string& name) {
  Json permission = Json::Of({{"id", "modelperm-" + RandomId()},
                              {"object", "model_permission"},
                              {"created", model.created},
                              {"allow_create_engine", false},
                              {"allow_sampling", true},
                              {"allow_logprobs", true},
                              {"allow_search_indices", false},
                              {"allow_view", true},
                              {"allow_fine_tuning", false},
                              {"organization", "*"},
                              {"group", Json()},
                              {"is_blocking", false}});
  return Json::Of({{"id", name},
                   {"object", "model"},
                   {"created", model.created},
                   {"owned_by", "erne"},
                   {"root", model.root},
                   {"parent", Json()},
                   {"max_model_len", model.engine->max_context()},
                   {"permission", Json(Json::Array{std::move(permission)})}});
}

Status ModelNotFound(const std::string& asked, const std::vector<std::string>& names) {
  return NotFound(StrCat("Model not found. The model `", asked, "` does not exist. Served here: ",
                         names.empty() ? "none" : Join(DistinctNames(names), ", "), "."),
                  "model");
}

Status CheckModel(const std::string& asked, const ServedModel& model) {
  if (asked.empty() || FindsModel(model.names, asked)) return {};
  return ModelNotFound(asked, model.names);
}

HttpResponse StreamHead(const Reply& reply) {
  HttpResponse head;
  head.content_type = "text/event-stream; charset=utf-8";
  head.headers = {{"Cache-Control", "no-cache"}, {"X-Accel-Buffering", "no"}};
  reply.AddHeaders(head);
  return head;
}

// The number of the last event that a client has: a browser's header, or `?last_event_id=7`. 0:
// none.
Result<uint64_t> LastEventId(const HttpRequest& request) {
  std::string text = "0";
  if (const std::string* header = request.Header("last-event-id")) text = *header;
  for (const std::string& member : Split(request.query, '&')) {
    constexpr std::string_view kName = "last_event_id=";
    if (member.starts_with(kName)) text = member.substr(kName.size());
  }
  const auto number = ParseNumber<uint64_t>(text);
  if (!number) return FieldFault("last_event_id", StrCat("must be a number, not ", Shown(text)));
  return *number;
}

// The id of an answer: the header X-Request-Id wins over the body's request_id.
std::string AnswerId(std::string_view prefix, const RequestOptions& options,
                     const HttpRequest& request, const Reply& reply) {
  const bool own = request.Header("x-request-id") == nullptr && !options.request_id.empty();
  return StrCat(prefix, own ? options.request_id : reply.request_id());
}

// 0: none.
int64_t ShorterTimeout(int64_t a, int64_t b) { return a == 0 || b == 0 ? a + b : std::min(a, b); }

}  // namespace

class Service::Impl {
 public:
  explicit Impl(ServiceOptions options)
      : options_(std::move(options)),
        metrics_(options_.metrics != nullptr ? options_.metrics : std::make_shared<Metrics>()) {}

  ~Impl() {
    // No wake of the engine's loop thread may hold the last reference to a session, and through it
    // to the engine.
    if (ready_ != nullptr) ready_->model->engine->Shutdown(0);
  }

  void Handle(HttpRequest request, std::shared_ptr<ResponseWriter> writer);
  void OnRefused(int status) { metrics_->CountRequest("none", "other", status, std::nullopt); }

  void SetProgress(double fraction) { progress_ = std::clamp(fraction, 0.0, 1.0); }
  void SetReady(std::shared_ptr<ServedModel> model, const std::function<void()>& announce) {
    ERNE_CHECK(!model->names.empty()) << "a served model needs a name";
    auto ready = std::make_shared<ReadyModel>();
    ready->facts = FindModelFacts(*model);
    ready->before = model->engine->stats();
    if (model->observer != nullptr) model->observer->Begin();
    ready->model = std::move(model);
    const std::lock_guard lock(mutex_);
    monitor_ = std::make_unique<Monitor>(ready->model, options_.monitor);
    ready_ = std::move(ready);
    if (announce) announce();
  }
  void SetDraining() {
    draining_ = true;
    streams_.Drain();
  }

 private:
  struct Route {
    std::string_view path;
    std::string_view method;
    void (Impl::*handle)(const HttpRequest& request, const Reply& reply);
  };
  static const Route kRoutes[];
  static const Route kPrefixRoutes[];
  static const Route* FindRoute(std::string_view path);
  static std::string PatternOf(std::string_view path);
  static std::string NothingAt(const std::string& path);

  std::shared_ptr<ReadyModel> ready() const {
    const std::lock_guard lock(mutex_);
    return ready_;
  }

  std::shared_ptr<ResponseWriter> Measured(const HttpRequest& request, const std::string& id,
                                           std::shared_ptr<ResponseWriter> writer) const;
  void Dispatch(const HttpRequest& request, const Reply& reply);
  void Preflight(const HttpRequest& request, const Reply& reply);
  void Health(const HttpRequest& request, const Reply& reply);
  void Live(const HttpRequest& request, const Reply& reply);
  void MetricsText(const HttpRequest& request, const Reply& reply);
  void Version(const HttpRequest& request, const Reply& reply);
  void OpenApi(const HttpRequest& request, const Reply& reply);
  void ListModels(const HttpRequest& request, const Reply& reply);
  void ShowModel(const HttpRequest& request, const Reply& reply);
  void ResumeStream(const HttpRequest& request, const Reply& reply);
  void ChatCompletions(const HttpRequest& request, const Reply& reply);
  void Completions(const HttpRequest& request, const Reply& reply);
  void TokenizeText(const HttpRequest& request, const Reply& reply);
  void DetokenizeTokens(const HttpRequest& request, const Reply& reply);

  using Starter = Status (Impl::*)(const std::shared_ptr<ReadyModel>& ready_model,
                                   const HttpRequest& request, const Reply& reply);
  void Answer(Starter start, const HttpRequest& request, const Reply& reply);
  Status StartChat(const std::shared_ptr<ReadyModel>& ready_model, const HttpRequest& request,
                   const Reply& reply);
  Status StartCompletions(const std::shared_ptr<ReadyModel>& ready_model,
                          const HttpRequest& request, const Reply& reply);
  Status StartAnswers(AnswerPlan plan, std::unique_ptr<const AnswerFormat> format,
                      const std::shared_ptr<ReadyModel>& model, const Reply& reply);
  Result<Json> TokenAnswer(const HttpRequest& request, Endpoint endpoint);
  Result<std::shared_ptr<ReadyModel>> ModelForCompletions() const;
  void LogUnknownFields(const std::vector<std::string>& names);

  const ServiceOptions options_;
  const std::shared_ptr<Metrics> metrics_;
  std::atomic<double> progress_{0};
  std::atomic<bool> draining_{false};
  mutable std::mutex mutex_;
  std::shared_ptr<ReadyModel> ready_;  // guarded by mutex_
  std::unique_ptr<Monitor> monitor_;   // of ready_'s model; guarded by mutex_
  std::mutex logged_mutex_;
  std::set<std::string> logged_fields_;  // guarded by logged_mutex_
  StreamKeeper streams_;
};

const Service::Impl::Route Service::Impl::kRoutes[] = {
    {"/health", "GET", &Impl::Health},  // GET includes HEAD: http leaves the body out
    {"/health/live", "GET", &Impl::Live},
    {"/health/ready", "GET", &Impl::Health},
    {"/ping", "GET", &Impl::Health},  // as SageMaker and its kind ask
    {"/metrics", "GET", &Impl::MetricsText},
    {"/version", "GET", &Impl::Version},
    {"/openapi.json", "GET", &Impl::OpenApi},
    {"/v1/models", "GET", &Impl::ListModels},
    {"/v1/chat/completions", "POST", &Impl::ChatCompletions},
    {"/v1/completions", "POST", &Impl::Completions},
    {"/tokenize", "POST", &Impl::TokenizeText},
    {"/detokenize", "POST", &Impl::DetokenizeTokens},
};

// Of these the path is a beginning, and the pattern ends with what follows.
const Service::Impl::Route Service::Impl::kPrefixRoutes[] = {
    {kModelPrefix, "GET", &Impl::ShowModel},
    {kStreamPrefix, "GET", &Impl::ResumeStream},
};

const Service::Impl::Route* Service::Impl::FindRoute(std::string_view path) {
  for (const Route& route : kPrefixRoutes) {
    if (path.starts_with(route.path)) return &route;
  }
  for (const Route& route : kRoutes) {
    if (path == route.path) return &route;
  }
  return nullptr;
}

// The path as a metric tells it: one of a few, whatever clients ask for.
std::string Service::Impl::PatternOf(std::string_view path) {
  if (IsStaticPath(path)) return std::string(path);
  const Route* route = FindRoute(path);
  if (route == nullptr) return "none";
  return StrCat(route->path, route->path.ends_with('/') ? "{id}" : "");
}

// A base URL without /v1, or with two, is the usual mistake.
std::string Service::Impl::NothingAt(const std::string& path) {
  std::string meant = "/v1" + path;
  if (path.starts_with("/v1/v1/")) meant = path.substr(3);
  const std::string nothing = StrCat("there is nothing at ", path);
  if (FindRoute(meant) == nullptr) return nothing;
  return StrCat(nothing, "; did you mean ", meant, "? The base URL of clients ends with one /v1");
}

void Service::Impl::Handle(HttpRequest request, std::shared_ptr<ResponseWriter> writer) {
  const std::string* given = request.Header("x-request-id");
  const bool usable = given != nullptr && IsUsableId(*given);
  std::string id = usable ? *given : RandomId();
  if (request.path.size() > 1 && request.path.back() == '/') request.path.pop_back();
  writer = Measured(request, id, std::move(writer));
  const Reply reply(std::move(writer), std::move(id));
  if (request.method == "OPTIONS") return Preflight(request, reply);
  if (!IsStaticPath(request.path) && !IsHealthPath(request.path) &&
      !IsAuthorized(request, options_.api_keys)) {
    HttpResponse response = ErrorResponse(
        401, "a valid API key is needed: send the header `Authorization: Bearer KEY`");
    response.headers.emplace_back("WWW-Authenticate", "Bearer");
    return reply.Send(std::move(response));
  }
  Dispatch(request, reply);
}

// The writer, and with it the request's metrics and its line in the access log. What is asked for
// all the time fills no log: probes, scrapes, and the page's files.
std::shared_ptr<ResponseWriter> Service::Impl::Measured(
    const HttpRequest& request, const std::string& id,
    std::shared_ptr<ResponseWriter> writer) const {
  std::string line;
  const bool quiet =
      IsStaticPath(request.path) || IsHealthPath(request.path) || request.path == "/metrics";
  if (!quiet && LogEnabled(LogLevel::kDebug)) {
    line = StrCat(request.client, " ", request.method, " ", request.path, " id=", id);
  }
  return std::make_shared<MeasuredWriter>(
      std::move(writer),
      [metrics = metrics_, handler = PatternOf(request.path), method = KnownMethod(request.method),
       line = std::move(line)](int status, double seconds) {
        metrics->CountRequest(handler, method, status, seconds);
        if (line.empty()) return;
        ERNE_LOG(kDebug, "access")
            << line << " status=" << status << " ms=" << FormatFixed(seconds * 1000, 1);
      });
}

void Service::Impl::Dispatch(const HttpRequest& request, const Reply& reply) {
  const bool reads = request.method == "GET" || request.method == "HEAD";
  const bool is_static = IsStaticPath(request.path);
  if (is_static && reads) return reply.Send(*StaticFile(request.path, request));

  const Route* route = FindRoute(request.path);
  if (route == nullptr && !is_static) {
    return reply.Send(ErrorResponse(404, NothingAt(request.path)));
  }
  const std::string_view method = is_static ? "GET" : route->method;
  if (is_static || !(request.method == method || (reads && method == "GET"))) {
    HttpResponse response =
        ErrorResponse(405, StrCat(request.path, " takes ", method, ", not ", request.method));
    response.headers.emplace_back("Allow",
                                  method == "GET" ? "GET, HEAD, OPTIONS" : "POST, OPTIONS");
    return reply.Send(std::move(response));
  }
  (this->*route->handle)(request, reply);
}

// A browser asks before it sends a request of another origin. `*` does not cover Authorization, so
// the headers that it wants to send are allowed by name.
void Service::Impl::Preflight(const HttpRequest& request, const Reply& reply) {
  HttpResponse response;
  response.status = 204;
  response.headers.emplace_back("Access-Control-Allow-Methods", "GET, HEAD, POST, OPTIONS");
  const std::string* wanted = request.Header("access-control-request-headers");
  response.headers.emplace_back("Access-Control-Allow-Headers",
                                wanted != nullptr ? *wanted : "Authorization, Content-Type");
  response.headers.emplace_back("Access-Control-Max-Age", "600");  // seconds
  response.headers.emplace_back("Allow", "GET, HEAD, POST, OPTIONS");
  reply.Send(std::move(response));
}

// 200: send requests here. It takes a microsecond whatever the load.
void Service::Impl::Health(const HttpRequest&, const Reply& reply) {
  const auto model = ready();
  if (draining_) return reply.SendJson(503, Json::Of({{"status", "draining"}}));
  if (model == nullptr) {
    return reply.SendJson(503, Json::Of({{"status", "loading"}, {"progress", progress_.load()}}));
  }
  const EngineStats stats = model->model->engine->stats();
  const std::optional<EngineFault> fault =
      FindFault(stats, SteadyMilliseconds(), options_.monitor.stall_ms);
  Json body = Json::Of({{"status", fault ? NameOf(fault->kind) : "ok"},
                        {"running", stats.running},
                        {"waiting", stats.waiting},
                        {"kv_blocks_used", stats.kv_blocks_used},
                        {"kv_blocks_total", stats.kv_blocks_total}});
  if (fault && fault->kind == EngineFault::Kind::kStalled) {
    body.Set("stalled_seconds", fault->seconds);
  } else if (fault) {
    body.Set("failed_steps", fault->failed_steps);
  }
  reply.SendJson(fault ? 503 : 200, body);
}

// 200: do not restart it. 503 where nothing else will help: readiness keeps requests away, so an
// engine whose steps fail is not asked again, and one that has hung for long does not come back.
void Service::Impl::Live(const HttpRequest&, const Reply& reply) {
  const auto model = ready();
  const auto fault = model == nullptr
                         ? std::nullopt
                         : FindFault(model->model->engine->stats(), SteadyMilliseconds(),
                                     kHopelessStalls * options_.monitor.stall_ms);
  reply.SendJson(fault ? 503 : 200, Json::Of({{"status", fault ? NameOf(fault->kind) : "live"}}));
}

void Service::Impl::MetricsText(const HttpRequest&, const Reply& reply) {
  const auto model = ready();
  std::vector<ModelState> states;
  std::optional<EngineStats> stats;
  if (model != nullptr && model->model->observer != nullptr) {
    stats = model->model->engine->stats();
    states.push_back({model->model->observer->metrics().model(), *stats, model->before});
  }
  HttpResponse response;
  response.content_type = Metrics::kContentType;
  response.body = metrics_->Text(states);
  reply.Send(std::move(response));
}

void Service::Impl::Version(const HttpRequest&, const Reply& reply) {
  reply.SendJson(200, Json::Of({{"version", ERNE_VERSION}}));
}

void Service::Impl::OpenApi(const HttpRequest&, const Reply& reply) {
  reply.SendJson(200, OpenApiDocument());
}

// While loading the list is empty: it holds what answers now.
void Service::Impl::ListModels(const HttpRequest&, const Reply& reply) {
  Json cards = Json::MakeArray();
  if (const auto model = ready()) {
    for (const std::string& name : DistinctNames(model->model->names)) {
      cards.Push(ModelCard(*model->model, name));
    }
  }
  reply.SendJson(200, Json::Of({{"object", "list"}, {"data", std::move(cards)}}));
}

void Service::Impl::ShowModel(const HttpRequest& request, const Reply& reply) {
  const std::string name = request.path.substr(kModelPrefix.size());
  const auto model = ready();
  if (model == nullptr) return reply.SendError(ModelForCompletions().status());
  if (!FindsModel(model->model->names, name)) {
    return reply.SendError(ModelNotFound(name, model->model->names));
  }
  reply.SendJson(200, ModelCard(*model->model, name));
}

void Service::Impl::ResumeStream(const HttpRequest& request, const Reply& reply) {
  // It would take the stream from whoever listens, and show nothing.
  if (request.is_head) return reply.Send(ErrorResponse(405, "a stream is read with GET"));
  const Result<uint64_t> last_event = LastEventId(request);
  if (!last_event.ok()) return reply.SendError(last_event.status());
  streams_.Resume({.owner = KeyNumber(request, options_.api_keys),
                   .id = request.path.substr(kStreamPrefix.size())},
                  *last_event, reply.writer(), StreamHead(reply));
}

void Service::Impl::ChatCompletions(const HttpRequest& request, const Reply& reply) {
  Answer(&Impl::StartChat, request, reply);
}

void Service::Impl::Completions(const HttpRequest& request, const Reply& reply) {
  Answer(&Impl::StartCompletions, request, reply);
}

void Service::Impl::Answer(Starter start, const HttpRequest& request, const Reply& reply) {
  const Result<std::shared_ptr<ReadyModel>> model = ModelForCompletions();
  if (!model.ok()) return reply.SendError(model.status());
  Status status = CheckRoom(*(*model)->model);
  if (status.ok()) status = (this->*start)(*model, request, reply);
  if (status.ok()) return;
  const std::shared_ptr<ModelObserver>& observer = (*model)->model->observer;
  const bool full = status.code() == StatusCode::kResourceExhausted && observer != nullptr;
  reply.Send(ErrorResponse(status, full ? observer->retry_estimate().OnRefused() : 1));
}

void Service::Impl::TokenizeText(const HttpRequest& request, const Reply& reply) {
  const Result<Json> answer = TokenAnswer(request, Endpoint::kTokenize);
  answer.ok() ? reply.SendJson(200, *answer) : reply.SendError(answer.status());
}

void Service::Impl::DetokenizeTokens(const HttpRequest& request, const Reply& reply) {
  const Result<Json> answer = TokenAnswer(request, Endpoint::kDetokenize);
  answer.ok() ? reply.SendJson(200, *answer) : reply.SendError(answer.status());
}

Result<std::shared_ptr<ReadyModel>> Service::Impl::ModelForCompletions() const {
  if (draining_) return Unavailable("the server is shutting down");
  auto model = ready();
  if (model != nullptr) return model;
  const std::string names = options_.loading_names.empty()
                                ? "the model"
                                : Join(DistinctNames(options_.loading_names), ", ");
  return Unavailable(
      StrCat(names, " is loading (", static_cast<int>(progress_ * 100), " %): try again soon"));
}

Status Service::Impl::StartChat(const std::shared_ptr<ReadyModel>& ready_model,
                                const HttpRequest& request, const Reply& reply) {
  const ServedModel& model = *ready_model->model;
  const ModelFacts& facts = ready_model->facts;

  std::vector<std::string> unknown;
  ERNE_ASSIGN_OR_RETURN(ChatRequest chat, ParseChatRequest(request.body, unknown));
  LogUnknownFields(unknown);
  const RequestOptions& options = chat.options;
  ERNE_RETURN_IF_ERROR(CheckModel(options.model, model));

  ERNE_ASSIGN_OR_RETURN(GenerationRequest generation, MakeChatGeneration(chat, model, facts));
  std::optional<AnswerParserOptions> parser = ParserOf(chat, generation, model);
  AnswerPlan plan{.options = options,
                  .id = AnswerId("chatcmpl-", options, request, reply),
                  .owner = KeyNumber(request, options_.api_keys),
                  .is_chat = true,
                  .prompts = {{std::move(generation), EchoOf(chat)}},
                  .parser = std::move(parser),
                  .hides_reasoning = !chat.include_reasoning,
                  .one_call = !chat.parallel_tool_calls};
  auto format = std::make_unique<ChatFormat>(plan.id, UnixSeconds(), model.names.front(),
                                             LogprobsFor(options, model));
  return StartAnswers(std::move(plan), std::move(format), ready_model, reply);
}

Status Service::Impl::StartCompletions(const std::shared_ptr<ReadyModel>& ready_model,
                                       const HttpRequest& request, const Reply& reply) {
  const ServedModel& model = *ready_model->model;
  const ModelFacts& facts = ready_model->facts;

  std::vector<std::string> unknown;
  ERNE_ASSIGN_OR_RETURN(CompletionRequest completion,
                        ParseCompletionRequest(request.body, unknown));
  LogUnknownFields(unknown);
  const RequestOptions& options = completion.options;
  ERNE_RETURN_IF_ERROR(CheckModel(options.model, model));

  AnswerPlan plan{.options = options,
                  .id = AnswerId("cmpl-", options, request, reply),
                  .owner = KeyNumber(request, options_.api_keys),
                  .prompts = {}};
  ERNE_ASSIGN_OR_RETURN(GenerationRequest shared, MakeGeneration(options, model, facts));
  if (completion.echo) {
    shared.prompt_logprobs = std::max(shared.prompt_logprobs, options.logprobs);
  }
  for (size_t i = 0; i < completion.prompts.size(); ++i) {
    const PromptLimit limit = {.completion = std::max<int64_t>(1, options.max_tokens.value_or(1)),
                               .prompt_field = completion.PromptField(i),
                               .completion_field = options.max_tokens_field};
    AnswerPlan::Prompt prompt{.generation = shared};
    ERNE_ASSIGN_OR_RETURN(std::vector<int32_t> tokens,
                          EncodeCompletionPrompt(completion, i, limit, model, facts));
    const size_t whole = tokens.size();
    ERNE_RETURN_IF_ERROR(SetPrompt(std::move(tokens), options, CompletionRequest::kDefaultMaxTokens,
                                   limit, model, prompt.generation));
    if (completion.echo) {
      const std::vector<int32_t>& left = prompt.generation.prompt;
      prompt.echo = std::make_shared<Echo>(
          MakeEcho(completion, i, left, /*truncated=*/left.size() < whole, model));
    }
    plan.prompts.push_back(std::move(prompt));
  }
  auto format = std::make_unique<CompletionFormat>(plan.id, UnixSeconds(), model.names.front(),
                                                   LogprobsFor(options, model));
  return StartAnswers(std::move(plan), std::move(format), ready_model, reply);
}

Status Service::Impl::StartAnswers(AnswerPlan plan, std::unique_ptr<const AnswerFormat> format,
                                   const std::shared_ptr<ReadyModel>& ready_model,
                                   const Reply& reply) {
  const ServedModel& model = *ready_model->model;
  const int64_t drawn = plan.options.best_of;
  const auto answers = static_cast<int64_t>(plan.prompts.size()) * drawn;
  if (answers > model.engine->max_requests()) {  // trying again would not help
    return InvalidArgument(StrCat("the request asks for ", answers,
                                  " answers, and this server takes ", model.engine->max_requests(),
                                  " at a time (--max-num-seqs and --max-num-queued-reqs)"),
                           "n");
  }
  plan.options.include_usage |= options_.force_include_usage;
  std::shared_ptr<ResponseWriter> writer = reply.writer();
  if (plan.options.resumable_seconds > 0) {
    ERNE_ASSIGN_OR_RETURN(
        writer, streams_.Open({.owner = plan.owner, .id = plan.id},
                              std::chrono::seconds(plan.options.resumable_seconds), writer));
  }
  const auto session =
      AnswerSession::Create(std::move(writer), std::move(format), *model.tokenizer, ready_model,
                            SessionOptions(plan, ready_model->facts, model));
  int64_t index = 0;
  for (AnswerPlan::Prompt& prompt : plan.prompts) {
    GenerationRequest& generation = prompt.generation;
    // Each prompt draws as it would alone; equal prompts without a seed have answers of their own.
    if (!plan.options.seed) generation.sampling.seed = RandomBits();
    generation.timeout_ms = ShorterTimeout(generation.timeout_ms, options_.request_timeout_ms);
    for (int64_t i = 0; i < drawn; ++i) {
      generation.id = answers == 1 ? plan.id : StrCat(plan.id, "-", index);
      // The session cancels the earlier ones when it goes without having been started.
      ERNE_RETURN_IF_ERROR(model.engine->Submit(generation, session->stream(index++)));
      ++generation.sampling.seed;
      if (plan.is_chat) generation.prompt_logprobs = -1;  // the first choice tells
    }
  }
  if (model.observer != nullptr) {
    for (size_t i = 0; i < plan.prompts.size(); ++i) {
      model.observer->metrics().OnAccepted(plan.options.choices);
    }
  }
  HttpResponse head;
  if (plan.options.stream) {
    head = StreamHead(reply);
  } else {
    reply.AddHeaders(head);
  }
  session->Start(std::move(head));
  return {};
}

Result<Json> Service::Impl::TokenAnswer(const HttpRequest& request, Endpoint endpoint) {
  ERNE_ASSIGN_OR_RETURN(const std::shared_ptr<ReadyModel> ready_model, ModelForCompletions());
  const ServedModel& model = *ready_model->model;
  std::vector<std::string> unknown;
  ERNE_ASSIGN_OR_RETURN(const Json body, ParseBody(request.body, endpoint, unknown));
  LogUnknownFields(unknown);
  ERNE_RETURN_IF_ERROR(CheckModel(TextMember(body, "model"), model));
  if (endpoint == Endpoint::kDetokenize) return Detokenize(body, model);
  return Tokenize(body, model, ready_model->facts);
}

void Service::Impl::LogUnknownFields(const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    {
      const std::lock_guard lock(logged_mutex_);
      if (logged_fields_.size() >= kMaxLoggedFields) return;
      if (!logged_fields_.insert(name.substr(0, 100)).second) continue;
    }
    ERNE_LOG(kWarning, "api") << "request field " << Shown(Json(name))
                              << " is not known and is ignored";
  }
}

Service::Service(ServiceOptions options) : impl_(std::make_unique<Impl>(std::move(options))) {}
Service::~Service() = default;

void Service::Handle(HttpRequest request, std::shared_ptr<ResponseWriter> writer) {
  impl_->Handle(std::move(request), std::move(writer));
}
void Service::OnRefused(int status) { impl_->OnRefused(status); }
void Service::SetProgress(double fraction) { impl_->SetProgress(fraction); }
void Service::SetReady(std::shared_ptr<ServedModel> model, const std::function<void()>& announce) {
  impl_->SetReady(std::move(model), announce);
}
void Service::SetDraining() { impl_->SetDraining(); }

}  // namespace erne
