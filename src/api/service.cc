#include "api/service.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <mutex>
#include <optional>
#include <set>
#include <utility>

#include "api/auth.h"
#include "api/chat_generation.h"
#include "api/chat_request.h"
#include "api/chat_session.h"
#include "api/errors.h"
#include "api/request_id.h"
#include "api/schema.h"
#include "api/static_files.h"
#include "base/log.h"
#include "base/strings.h"

namespace erne {
namespace {

constexpr std::string_view kModelPrefix = "/v1/models/";
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
    response.headers.emplace_back("Access-Control-Expose-Headers", "X-Request-Id, Retry-After");
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
};

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

}  // namespace

class Service::Impl {
 public:
  explicit Impl(ServiceOptions options) : options_(std::move(options)) {}

  ~Impl() {
    // No wake of the engine's loop thread may hold the last reference to a session, and through it
    // to the engine.
    if (ready_ != nullptr) ready_->model->engine->Shutdown(0);
  }

  void Handle(HttpRequest request, std::shared_ptr<ResponseWriter> writer);

  void SetProgress(double fraction) { progress_ = std::clamp(fraction, 0.0, 1.0); }
  void SetReady(std::shared_ptr<ServedModel> model) {
    ERNE_CHECK(!model->names.empty()) << "a served model needs a name";
    auto ready = std::make_shared<ReadyModel>();
    ready->facts = FindModelFacts(*model);
    ready->model = std::move(model);
    const std::lock_guard lock(mutex_);
    ready_ = std::move(ready);
  }
  void SetDraining() { draining_ = true; }

 private:
  struct Route {
    std::string_view path;
    std::string_view method;
    void (Impl::*handle)(const HttpRequest& request, const Reply& reply);
  };
  static const Route kRoutes[];

  std::shared_ptr<ReadyModel> ready() const {
    const std::lock_guard lock(mutex_);
    return ready_;
  }

  void Dispatch(const HttpRequest& request, const Reply& reply);
  void Preflight(const HttpRequest& request, const Reply& reply);
  void Health(const HttpRequest& request, const Reply& reply);
  void Version(const HttpRequest& request, const Reply& reply);
  void ListModels(const HttpRequest& request, const Reply& reply);
  void ShowModel(const HttpRequest& request, const Reply& reply);
  void ChatCompletions(const HttpRequest& request, const Reply& reply);
  Status StartChat(const HttpRequest& request, const Reply& reply);
  Result<std::shared_ptr<ReadyModel>> ModelForCompletions() const;
  void LogUnknownFields(const std::vector<std::string>& names);

  const ServiceOptions options_;
  std::atomic<double> progress_{0};
  std::atomic<bool> draining_{false};
  mutable std::mutex mutex_;
  std::shared_ptr<ReadyModel> ready_;    // guarded by mutex_
  std::set<std::string> logged_fields_;  // guarded by mutex_
};

const Service::Impl::Route Service::Impl::kRoutes[] = {
    {"/health", "GET", &Impl::Health},  // GET includes HEAD: http leaves the body out
    {"/version", "GET", &Impl::Version},
    {"/v1/models", "GET", &Impl::ListModels},
    {"/v1/chat/completions", "POST", &Impl::ChatCompletions},
};

void Service::Impl::Handle(HttpRequest request, std::shared_ptr<ResponseWriter> writer) {
  const std::string* given = request.Header("x-request-id");
  const bool usable = given != nullptr && IsUsableId(*given);
  const Reply reply(std::move(writer), usable ? *given : RandomId());
  if (request.path.size() > 1 && request.path.back() == '/') request.path.pop_back();
  if (request.method == "OPTIONS") return Preflight(request, reply);
  if (!IsStaticPath(request.path) && request.path != "/health" &&
      !IsAuthorized(request, options_.api_keys)) {
    HttpResponse response = ErrorResponse(
        401, "a valid API key is needed: send the header `Authorization: Bearer KEY`");
    response.headers.emplace_back("WWW-Authenticate", "Bearer");
    return reply.Send(std::move(response));
  }
  Dispatch(request, reply);
}

void Service::Impl::Dispatch(const HttpRequest& request, const Reply& reply) {
  const bool reads = request.method == "GET" || request.method == "HEAD";
  const bool is_static = IsStaticPath(request.path);
  if (is_static && reads) return reply.Send(*StaticFile(request.path, request));

  const Route model_route = {kModelPrefix, "GET", &Impl::ShowModel};
  const Route* route = nullptr;
  for (const Route& candidate : kRoutes) {
    if (candidate.path == request.path) route = &candidate;
  }
  if (request.path.starts_with(kModelPrefix)) route = &model_route;
  if (route == nullptr && !is_static) {
    return reply.Send(ErrorResponse(404, StrCat("there is nothing at ", request.path)));
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

void Service::Impl::Health(const HttpRequest&, const Reply& reply) {
  const auto model = ready();
  if (draining_) return reply.SendJson(503, Json::Of({{"status", "draining"}}));
  if (model == nullptr) {
    return reply.SendJson(503, Json::Of({{"status", "loading"}, {"progress", progress_.load()}}));
  }
  const EngineStats stats = model->model->engine->stats();
  reply.SendJson(200, Json::Of({{"status", "ok"},
                                {"running", stats.running},
                                {"waiting", stats.waiting},
                                {"kv_blocks_used", stats.kv_blocks_used},
                                {"kv_blocks_total", stats.kv_blocks_total}}));
}

void Service::Impl::Version(const HttpRequest&, const Reply& reply) {
  reply.SendJson(200, Json::Of({{"version", ERNE_VERSION}}));
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

void Service::Impl::ChatCompletions(const HttpRequest& request, const Reply& reply) {
  const Status status = StartChat(request, reply);
  if (!status.ok()) reply.SendError(status);
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

Status Service::Impl::StartChat(const HttpRequest& request, const Reply& reply) {
  ERNE_ASSIGN_OR_RETURN(const std::shared_ptr<ReadyModel> ready_model, ModelForCompletions());
  const ServedModel& model = *ready_model->model;

  std::vector<std::string> unknown;
  ERNE_ASSIGN_OR_RETURN(const ChatRequest chat, ParseChatRequest(request.body, unknown));
  LogUnknownFields(unknown);
  if (!chat.model.empty() && !FindsModel(model.names, chat.model)) {
    return ModelNotFound(chat.model, model.names);
  }
  ERNE_ASSIGN_OR_RETURN(GenerationRequest generation,
                        MakeGeneration(chat, model, ready_model->facts, RandomBits()));

  const std::vector<int32_t>& ends = ready_model->facts.end_tokens;
  const ChatSessionOptions options = {
      .choices = chat.choices,
      .prompt_tokens = static_cast<int64_t>(generation.prompt.size()),
      .stop = chat.stop,
      .include_stop = chat.include_stop,
      .primary_end_token = ends.empty() ? -1 : ends.front(),
      .skip_special_tokens = chat.skip_special_tokens,
      .stream = chat.stream,
      .include_usage = chat.include_usage,
      .continuous_usage = chat.continuous_usage};
  const bool own_id = request.Header("x-request-id") == nullptr && !chat.request_id.empty();
  ChatResponse response("chatcmpl-" + (own_id ? chat.request_id : reply.request_id()),
                        UnixSeconds(), model.names.front());
  const auto session = ChatSession::Create(reply.writer(), std::move(response), *model.tokenizer,
                                           ready_model, options);
  for (int64_t i = 0; i < chat.choices; ++i) {
    // The session cancels the earlier ones when it goes without having been started.
    ERNE_RETURN_IF_ERROR(model.engine->Submit(generation, session->stream(i)));
    ++generation.sampling.seed;
  }
  HttpResponse head;
  if (chat.stream) {
    head.content_type = "text/event-stream; charset=utf-8";
    head.headers = {{"Cache-Control", "no-cache"}, {"X-Accel-Buffering", "no"}};
  }
  reply.AddHeaders(head);
  session->Start(std::move(head));
  return {};
}

void Service::Impl::LogUnknownFields(const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    {
      const std::lock_guard lock(mutex_);
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
void Service::SetProgress(double fraction) { impl_->SetProgress(fraction); }
void Service::SetReady(std::shared_ptr<ServedModel> model) { impl_->SetReady(std::move(model)); }
void Service::SetDraining() { impl_->SetDraining(); }

}  // namespace erne
