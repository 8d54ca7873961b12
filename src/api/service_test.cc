#include "api/service.h"

#include <atomic>
#include <chrono>
#include <fstream>
#include <semaphore>
#include <sstream>
#include <thread>

#include <gtest/gtest.h>

#include "api/model_observer.h"
#include "api/test_model.h"
#include "api/test_writer.h"
#include "base/strings.h"
#include "text/test_support.h"

namespace erne {
namespace {

using Tok = TestTokenizer;

constexpr std::string_view kText = "一只海雕飞过了大海。";

// After the prompt comes kText in a circle, so that any place of it may come first.
int32_t Endless(int64_t position) {
  return static_cast<uint8_t>(kText[static_cast<size_t>(position) % kText.size()]);
}
// A few letters, then the end.
int32_t Ending(int64_t position) {
  return position % 8 == 7 ? Tok::kEnd : 'a' + static_cast<int32_t>(position % 8);
}

HttpRequest Request(const std::string& method, const std::string& path, HttpHeaders headers = {},
                    std::string body = "") {
  return {method, path, /*query=*/"", std::move(headers), std::move(body)};
}

class ServiceTest : public testing::Test {
 protected:
  void Ready(ScriptedExecutor::Script script, int64_t max_context = 1024,
             std::function<Status()> gate = nullptr, EngineOptions options = {}) {
    model_ = MakeTestModel(std::move(script), max_context, std::move(gate), options);
    service_->SetReady(model_);
  }
  std::shared_ptr<TestWriter> Start(HttpRequest request) {
    auto writer = std::make_shared<TestWriter>();
    service_->Handle(std::move(request), writer);
    return writer;
  }
  std::shared_ptr<TestWriter> Ask(const std::string& method, const std::string& path,
                                  HttpHeaders headers = {}) {
    auto writer = Start(Request(method, path, std::move(headers)));
    EXPECT_TRUE(writer->complete) << method << " " << path;
    return writer;
  }
  std::shared_ptr<TestWriter> StartChat(const std::string& members, HttpHeaders headers = {}) {
    return StartChatWith(R"([{"role":"user","content":"hi"}])", members, std::move(headers));
  }
  std::shared_ptr<TestWriter> StartChatWith(const std::string& messages,
                                            const std::string& members = "",
                                            HttpHeaders headers = {}) {
    std::string body =
        StrCat(R"({"messages":)", messages, members.empty() ? "" : ",", members, "}");
    return Start(Request("POST", "/v1/chat/completions", std::move(headers), std::move(body)));
  }
  std::shared_ptr<TestWriter> Chat(const std::string& members, HttpHeaders headers = {}) {
    auto writer = StartChat(members, std::move(headers));
    writer->RunToEnd();
    return writer;
  }
  std::shared_ptr<TestWriter> Post(const std::string& path, std::string body) {
    auto writer = Start(Request("POST", path, {}, std::move(body)));
    writer->RunUntil([&] { return writer->complete; });
    return writer;
  }
  std::shared_ptr<TestWriter> Complete(const std::string& members) {
    return Post("/v1/completions", StrCat("{", members, "}"));
  }
  static std::vector<std::string> TextsOf(const TestWriter& writer) {
    std::vector<std::string> texts;
    const Json body = writer.BodyJson();
    EXPECT_NE(body.Find("choices"), nullptr) << writer.body;
    if (body.Find("choices") == nullptr) return texts;
    for (const Json& choice : body.Find("choices")->AsArray()) {
      EXPECT_EQ(choice.Find("index")->AsInt(), static_cast<int64_t>(texts.size()));
      texts.push_back(choice.Find("text")->AsString());
    }
    return texts;
  }
  static Json Error(const TestWriter& writer) {
    const Json body = writer.BodyJson();
    EXPECT_NE(body.Find("error"), nullptr) << writer.body;
    return body.Find("error") != nullptr ? *body.Find("error") : Json::MakeObject();
  }
  static std::string Content(const TestWriter& writer) {
    return writer.BodyJson()
        .Find("choices")
        ->AsArray()[0]
        .Find("message")
        ->Find("content")
        ->AsString();
  }
  // Steps of the engine are not the test's: waits for what they bring about.
  template <typename Condition>
  static void WaitUntil(Condition condition) {
    while (!condition()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }

  std::unique_ptr<Service> service_ =
      std::make_unique<Service>(ServiceOptions{.loading_names = {"Test-Model"}});
  std::shared_ptr<ServedModel> model_;
};

// The prompt of Chat: <|begin_of_sentence|>, "User: hi\n" and "Assistant: ".
constexpr int64_t kPromptTokens = 1 + 9 + 11;

TEST_F(ServiceTest, BeforeTheModelIsLoaded) {
  service_->SetProgress(0.42);
  auto health = Ask("GET", "/health");
  EXPECT_EQ(health->head.status, 503);
  EXPECT_EQ(health->body, R"({"status":"loading","progress":0.42})");
  auto chat = StartChat("");
  EXPECT_EQ(chat->head.status, 503);
  EXPECT_EQ(chat->Header("Retry-After"), "1");
  EXPECT_EQ(Error(*chat).Find("code")->AsInt(), 503);
  EXPECT_NE(Error(*chat).Find("message")->AsString().find("Test-Model is loading (42 %)"),
            std::string::npos);
  EXPECT_EQ(Ask("GET", "/v1/models")->body, R"({"object":"list","data":[]})");
  EXPECT_EQ(Ask("GET", "/v1/models/test-model")->head.status, 503);
  EXPECT_EQ(Ask("GET", "/")->head.status, 200);
}

TEST_F(ServiceTest, ReadyAndDraining) {
  Ready(Endless);
  auto health = Ask("GET", "/health");
  EXPECT_EQ(health->head.status, 200);
  EXPECT_EQ(health->BodyJson().Find("status")->AsString(), "ok");
  EXPECT_EQ(health->BodyJson().Find("kv_blocks_used")->AsInt(), 0);
  service_->SetDraining();
  EXPECT_EQ(Ask("GET", "/health")->head.status, 503);
  EXPECT_EQ(StartChat("")->head.status, 503);
}

TEST_F(ServiceTest, Models) {
  Ready(Endless);
  const Json list = Ask("GET", "/v1/models")->BodyJson();
  const Json& card = list.Find("data")->AsArray()[0];
  EXPECT_EQ(card.Find("id")->AsString(), "Test-Model");
  EXPECT_EQ(card.Find("owned_by")->AsString(), "erne");
  EXPECT_EQ(card.Find("root")->AsString(), "/models/Test-Model");
  EXPECT_EQ(card.Find("max_model_len")->AsInt(), 1024);
  EXPECT_EQ(card.Find("created")->AsInt(), 1700000000);
  EXPECT_EQ(card.Find("permission")->AsArray().size(), 1u);
  EXPECT_EQ(Ask("GET", "/v1/models/test-model")->BodyJson().Find("id")->AsString(), "test-model");
  auto unknown = Ask("GET", "/v1/models/gpt-9");
  EXPECT_EQ(unknown->head.status, 404);
  EXPECT_EQ(Error(*unknown).Find("param")->AsString(), "model");
}

TEST_F(ServiceTest, ModelNames) {
  Ready(Ending);
  for (const char* name :
       {"Test-Model", "test-model", "TEST-MODEL", "/models/Test-Model", "models/test-model", ""}) {
    EXPECT_EQ(Chat(StrCat(R"("model":")", name, "\""))->head.status, 200) << name;
  }
  EXPECT_EQ(Chat(R"("model":null)")->head.status, 200);
  EXPECT_EQ(Chat(R"("model":"test-model")")->BodyJson().Find("model")->AsString(), "Test-Model");
  auto unknown = StartChat(R"("model":"gpt-9","stream":true)");
  EXPECT_EQ(unknown->head.status, 404);
  EXPECT_EQ(
      unknown->body,
      R"({"error":{"message":"Model not found. The model `gpt-9` does not exist. Served here: Test-Model, /models/Test-Model.",)"
      R"("type":"NotFoundError","param":"model","code":404}})");
}

TEST_F(ServiceTest, RoutesAndMethods) {
  Ready(Endless);
  auto nowhere = Ask("GET", "/nowhere");
  EXPECT_EQ(nowhere->head.status, 404);
  EXPECT_EQ(Error(*nowhere).Find("type")->AsString(), "NotFoundError");
  auto wrong = Ask("GET", "/v1/chat/completions");
  EXPECT_EQ(wrong->head.status, 405);
  EXPECT_EQ(wrong->Header("Allow"), "POST, OPTIONS");
  EXPECT_EQ(Ask("POST", "/health")->head.status, 405);
  EXPECT_EQ(Ask("DELETE", "/")->Header("Allow"), "GET, HEAD, OPTIONS");
  EXPECT_EQ(Ask("HEAD", "/health")->head.status, 200);
  EXPECT_EQ(Ask("GET", "/v1/models/")->head.status, 200);
  EXPECT_EQ(Ask("GET", "/version")->body, StrCat(R"({"version":")", ERNE_VERSION, "\"}"));
}

TEST_F(ServiceTest, OtherOriginsMayAsk) {
  Ready(Endless);
  auto preflight = Ask("OPTIONS", "/v1/chat/completions",
                       {{"access-control-request-headers", "authorization,x-a"}});
  EXPECT_EQ(preflight->head.status, 204);
  EXPECT_EQ(preflight->Header("Access-Control-Allow-Origin"), "*");
  EXPECT_EQ(preflight->Header("Access-Control-Allow-Headers"), "authorization,x-a");
  EXPECT_NE(preflight->Header("Access-Control-Allow-Methods").find("POST"), std::string::npos);
  EXPECT_EQ(Ask("GET", "/nowhere")->Header("Access-Control-Allow-Origin"), "*");
}

TEST_F(ServiceTest, ApiKeys) {
  service_ = std::make_unique<Service>(ServiceOptions{.api_keys = {"secret", "second"}});
  Ready(Ending);
  for (const char* path : {"/health", "/health/live", "/health/ready", "/", "/page.js"})
    EXPECT_EQ(Ask("GET", path)->head.status, 200) << path;
  EXPECT_EQ(Ask("OPTIONS", "/v1/models")->head.status, 204);
  EXPECT_EQ(Ask("GET", "/metrics")->head.status, 401);
  auto refused = Ask("GET", "/v1/models");
  EXPECT_EQ(refused->head.status, 401);
  EXPECT_EQ(refused->Header("WWW-Authenticate"), "Bearer");
  EXPECT_EQ(Error(*refused).Find("type")->AsString(), "AuthenticationError");
  EXPECT_EQ(StartChat("")->head.status, 401);
  for (const char* bad : {"", "Bearer", "Bearer ", "Bearer secre", "Bearer secrets",
                          "Bearer Secret", "Basic secret", "secret", "Bearer secretsecret"}) {
    EXPECT_EQ(Ask("GET", "/v1/models", {{"authorization", bad}})->head.status, 401) << bad;
  }
  for (const char* good : {"Bearer secret", "bearer second", "Bearer  secret "}) {
    EXPECT_EQ(Ask("GET", "/v1/models", {{"authorization", good}})->head.status, 200) << good;
  }
}

TEST_F(ServiceTest, RequestIds) {
  Ready(Ending);
  auto own = Chat("");
  const std::string id = own->Header("X-Request-Id");
  EXPECT_EQ(id.size(), 32u);
  EXPECT_EQ(id.find_first_not_of("0123456789abcdef"), std::string::npos);
  EXPECT_EQ(own->BodyJson().Find("id")->AsString(), "chatcmpl-" + id);
  auto given = Chat(R"("request_id":"body")", {{"x-request-id", "trace-7"}});
  EXPECT_EQ(given->Header("X-Request-Id"), "trace-7");
  EXPECT_EQ(given->BodyJson().Find("id")->AsString(), "chatcmpl-trace-7");
  EXPECT_EQ(Chat(R"("request_id":"body")")->BodyJson().Find("id")->AsString(), "chatcmpl-body");
  EXPECT_EQ(Chat("", {{"x-request-id", "a b"}})->Header("X-Request-Id").size(), 32u);
}

TEST_F(ServiceTest, ChatWholeAndStreamed) {
  Ready(Ending);
  // The last token of the prompt is at position 20: 20 % 8 = 4.
  auto whole = Chat("");
  EXPECT_EQ(whole->head.status, 200);
  EXPECT_EQ(Content(*whole), "efg");
  EXPECT_EQ(
      whole->BodyJson().Find("usage")->Dump(),
      R"({"prompt_tokens":21,"total_tokens":25,"completion_tokens":4,"prompt_tokens_details":{"cached_tokens":0}})");
  auto stream = Chat(R"("stream":true,"stream_options":{"include_usage":true})");
  EXPECT_EQ(stream->head.content_type, "text/event-stream; charset=utf-8");
  EXPECT_EQ(stream->Header("Cache-Control"), "no-cache");
  EXPECT_EQ(stream->Header("X-Accel-Buffering"), "no");
  std::string text;
  for (const std::string& frame : stream->Frames()) {
    if (frame == "[DONE]") continue;
    const Json event = Json::Parse(frame).value();
    for (const Json& choice : event.Find("choices")->AsArray()) {
      text += choice.Find("delta")->Find("content")->AsString();
    }
  }
  EXPECT_EQ(text, "efg");
  EXPECT_EQ(stream->Frames().back(), "[DONE]");
}

TEST_F(ServiceTest, LimitsAndTheRestOfTheContext) {
  Ready(Endless, 64);
  auto limited = Chat(R"("max_tokens":6)");
  EXPECT_EQ(limited->BodyJson().Find("usage")->Find("completion_tokens")->AsInt(), 6);
  auto rest = Chat("");
  EXPECT_EQ(rest->BodyJson().Find("usage")->Find("total_tokens")->AsInt(), 64);
  EXPECT_NE(rest->body.find(R"("finish_reason":"length")"), std::string::npos);
}

TEST_F(ServiceTest, ContextOverflow) {
  Ready(Endless, 64);
  auto too_much = StartChat(R"("max_completion_tokens":60)");
  EXPECT_EQ(too_much->head.status, 400);
  EXPECT_EQ(Error(*too_much).Find("message")->AsString(),
            "This model's maximum context length is 64 tokens. However, you requested 81 tokens "
            "(21 in the messages, 60 in "
            "the completion). Please reduce the length of the messages or completion.");
  EXPECT_EQ(Error(*too_much).Find("param")->AsString(), "max_completion_tokens");
  EXPECT_EQ(StartChat(R"("max_tokens":9223372036854775807)")->head.status, 400);
  const auto prompt = [&](size_t size) {
    return StartChatWith(
        StrCat(R"([{"role":"user","content":")", std::string(size, 'x'), R"("}])"));
  };
  auto full = prompt(64 - kPromptTokens + 2);
  EXPECT_EQ(full->head.status, 400) << "no room for one token of an answer";
  EXPECT_EQ(Error(*full).Find("param")->AsString(), "messages");
  auto last = prompt(64 - kPromptTokens + 1);
  last->RunToEnd();
  EXPECT_EQ(last->BodyJson().Find("usage")->Find("completion_tokens")->AsInt(), 1);
  auto megabyte = prompt(1'000'000);
  EXPECT_NE(Error(*megabyte).Find("message")->AsString().find("(1000019 in the messages"),
            std::string::npos);
  auto measured = prompt(8'000'000);
  EXPECT_NE(Error(*measured).Find("message")->AsString().find("requested at least"),
            std::string::npos);
}

TEST_F(ServiceTest, BadRequestsAnswerWithTheField) {
  Ready(Endless);
  auto bad = StartChat(R"("temperature":-1)");
  EXPECT_EQ(bad->head.status, 400);
  EXPECT_EQ(Error(*bad).Find("param")->AsString(), "temperature");
  EXPECT_EQ(StartChat(R"("stop_token_ids":[260])")->head.status, 400);
  auto role = StartChatWith(R"([{"role":"tool","content":"x"}])");
  EXPECT_EQ(role->head.status, 400);
  EXPECT_NE(Error(*role).Find("message")->AsString().find("no role tool"), std::string::npos);
  EXPECT_EQ(Error(*role).Find("param")->AsString(), "messages");
}

TEST_F(ServiceTest, TypedControlTokensAreText) {
  Ready(Ending);
  auto typed = StartChatWith(R"([{"role":"user","content":"</s>"}])");
  typed->RunToEnd();
  EXPECT_EQ(typed->BodyJson().Find("usage")->Find("prompt_tokens")->AsInt(), kPromptTokens + 2);
}

TEST_F(ServiceTest, EndTokens) {
  Ready([](int64_t position) { return position == 22 ? Tok::kSentence : 'a'; });
  auto ended = Chat(R"("max_tokens":10)");
  EXPECT_EQ(Content(*ended), "aa") << "the token that ends an ERNIE turn ends the answer";
  EXPECT_NE(ended->body.find(StrCat(R"("stop_reason":)", Tok::kSentence)), std::string::npos);
  auto ignored = Chat(R"("max_tokens":10,"ignore_eos":true)");
  EXPECT_EQ(Content(*ignored), "aaaaaaaaa");
  auto own = Chat(R"("max_tokens":10,"ignore_eos":true,"stop_token_ids":[97])");
  EXPECT_EQ(Content(*own), "");
}

TEST_F(ServiceTest, MoreAnswersThanTheServerEverTakesAreNoMatterOfTrying) {
  EngineOptions options;
  options.max_num_seqs = 2;
  options.max_num_queued_reqs = 3;
  Ready(Ending, 1024, nullptr, options);
  EXPECT_EQ(Chat(R"("max_tokens":4,"n":5)")->head.status, 200);
  const auto refused = Chat(R"("max_tokens":4,"n":6)");
  EXPECT_EQ(refused->head.status, 400);
  EXPECT_EQ(Error(*refused).Find("param")->AsString(), "n");
  EXPECT_NE(refused->body.find("6 answers, and this server takes 5"), std::string::npos);
}

TEST_F(ServiceTest, AFullServerRefusesBeforeItReads) {
  std::counting_semaphore<> may_step(0);
  Ready(Endless, 1024,
        [&] {
          may_step.acquire();
          return Status();
        },
        {.max_num_seqs = 1, .max_num_queued_reqs = 0});
  const auto running = StartChat("");
  const auto unread = Start(Request("POST", "/v1/completions", {}, "no JSON at all"));
  EXPECT_EQ(unread->head.status, 429) << unread->body;
  EXPECT_EQ(Error(*unread).Find("type")->AsString(), "RateLimitError");
  EXPECT_EQ(Error(*unread).Find("code")->AsInt(), 429);
  EXPECT_NE(Error(*unread).Find("message")->AsString().find("--max-num-queued-reqs"),
            std::string::npos);
  EXPECT_EQ(Ask("GET", "/health")->head.status, 200) << "busy is not ill";
  may_step.release(5000);
  running->RunToEnd();
}

TEST_F(ServiceTest, RetryAfterGrowsWithThoseWhoWait) {
  std::counting_semaphore<> may_step(0);
  model_ = MakeTestModel(Endless, 1024,
                         [&] {
                           may_step.acquire();
                           return Status();
                         },
                         {.max_num_seqs = 1, .max_num_queued_reqs = 0});
  Metrics metrics;
  model_->observer =
      std::make_shared<ModelObserver>(metrics.AddModel({.name = "m"}), LogLevel::kDebug);
  service_->SetReady(model_);
  for (int i = 0; i < 100; ++i) {  // one in two seconds
    model_->observer->OnEnd({.arrived = 1.0 + 2 * i, .ended = 3.0 + 2 * i});
  }
  const auto running = StartChat("");
  for (const char* seconds : {"2", "4", "6"}) {
    const auto refused = StartChat("");
    EXPECT_EQ(refused->head.status, 429);
    EXPECT_EQ(refused->Header("Retry-After"), seconds);
  }
  may_step.release(5000);
  running->RunToEnd();
}

TEST_F(ServiceTest, ADrainingServerSaysSo) {
  Ready(Endless, 1024);
  service_->SetDraining();
  for (const char* path : {"/health", "/health/ready"}) {
    const auto health = Ask("GET", path);
    EXPECT_EQ(health->head.status, 503);
    EXPECT_EQ(health->body, R"({"status":"draining"})");
  }
  EXPECT_EQ(Ask("GET", "/health/live")->head.status, 200);
  const auto refused = StartChat("");
  EXPECT_EQ(refused->head.status, 503);
  EXPECT_EQ(refused->Header("Retry-After"), "1");
  EXPECT_EQ(Error(*refused).Find("type")->AsString(), "ServiceUnavailableError");
}

TEST_F(ServiceTest, ABaseUrlWithoutV1IsExplained) {
  Ready(Endless);
  const auto message = [&](const char* method, const char* path) {
    const auto answer = Ask(method, path);
    EXPECT_EQ(answer->head.status, 404) << path;
    return Error(*answer).Find("message")->AsString();
  };
  EXPECT_EQ(
      message("POST", "/chat/completions"),
      "there is nothing at /chat/completions; did you mean /v1/chat/completions? The base URL "
      "of clients ends with one /v1");
  EXPECT_NE(message("POST", "/v1/v1/completions").find("did you mean /v1/completions?"),
            std::string::npos);
  EXPECT_NE(message("GET", "/models/").find("did you mean /v1/models?"), std::string::npos);
  EXPECT_EQ(message("GET", "/nowhere"), "there is nothing at /nowhere");
}

TEST_F(ServiceTest, MetricsCountWhatWasAnswered) {
  const auto metrics = std::make_shared<Metrics>();
  model_ = MakeTestModel(Ending);
  model_->observer =
      std::make_shared<ModelObserver>(metrics->AddModel({.name = "Test-Model"}), LogLevel::kDebug);
  service_ = std::make_unique<Service>(ServiceOptions{.metrics = metrics});
  const auto counts = [&](const std::string& line) {
    const auto answer = Ask("GET", "/metrics");
    EXPECT_EQ(answer->head.content_type, "text/plain; version=0.0.4; charset=utf-8");
    EXPECT_NE(answer->body.find(line + "\n"), std::string::npos) << line << " is not in\n"
                                                                 << answer->body;
  };
  Ask("GET", "/metrics");
  counts(R"(http_requests_total{handler="/metrics",method="GET",status="2xx"} 1)");
  StartChat("");
  service_->SetReady(model_);
  Chat(R"("n":2)");
  Chat(R"("stream":true)");
  StartChat(R"("stream":true,"ignore_eos":true)")->Disconnect();
  Ask("GET", "/v1/models/test-model");
  Ask("GET", "/v1/models/other");
  Ask("BREW", "/a/b/c");
  Ask("GET", "/page.js");
  service_->OnRefused(431);
  const std::string chat =
      R"(http_requests_total{handler="/v1/chat/completions",method="POST",status=)";
  counts(chat + R"("2xx"} 2)");
  counts(chat + R"("4xx"} 1)");
  counts(chat + R"("5xx"} 1)");
  counts(R"(http_request_duration_seconds_count{handler="/v1/chat/completions",method="POST"} 4)");
  counts(R"(http_requests_total{handler="/v1/models/{id}",method="GET",status="2xx"} 1)");
  counts(R"(http_requests_total{handler="/v1/models/{id}",method="GET",status="4xx"} 1)");
  counts(R"(http_requests_total{handler="none",method="other",status="4xx"} 2)");
  counts(R"(http_requests_total{handler="/page.js",method="GET",status="2xx"} 1)");
  counts(R"(vllm:request_params_n_sum{engine="0",model_name="Test-Model"} 4)");
  counts(R"(vllm:request_params_n_count{engine="0",model_name="Test-Model"} 3)");
}

TEST_F(ServiceTest, NobodyIsToldToWaitOnceReadinessIsAnnounced) {
  model_ = MakeTestModel(Ending);
  std::shared_ptr<TestWriter> heard;
  std::thread listener;
  service_->SetReady(
      model_, [&] { listener = std::thread([&] { heard = Start(Request("GET", "/health")); }); });
  listener.join();
  EXPECT_EQ(heard->head.status, 200) << heard->body;
}

TEST_F(ServiceTest, HealthTellsThatTheEngineHangs) {
  service_ = std::make_unique<Service>(ServiceOptions{.monitor = {.stall_ms = 1}});
  std::binary_semaphore gate(0);
  Ready(Ending, 1024, [&] {
    gate.acquire();
    gate.release();
    return Status();
  });
  EXPECT_EQ(Ask("GET", "/health")->head.status, 200) << "idle for long is no fault";
  auto writer = StartChat(R"("max_tokens":4)");
  WaitUntil([&] { return Ask("GET", "/health")->head.status == 503; });
  const Json stalled = Ask("GET", "/health")->BodyJson();
  EXPECT_EQ(stalled.Find("status")->AsString(), "stalled");
  EXPECT_GT(stalled.Find("stalled_seconds")->AsDouble(), 0);
  EXPECT_EQ(Ask("GET", "/health/ready")->head.status, 503);
  WaitUntil([&] { return Ask("GET", "/health/live")->head.status == 503; });  // ten times as long
  gate.release();
  writer->RunToEnd();
  WaitUntil([&] { return Ask("GET", "/health")->head.status == 200; });
}

TEST_F(ServiceTest, HealthTellsThatStepsFail) {
  std::atomic<bool> broken = true;
  Ready(Ending, 1024, [&] { return broken ? Internal("the device is gone") : Status(); });
  for (int i = 0; i < 3; ++i) EXPECT_EQ(Chat(R"("max_tokens":4)")->head.status, 500);
  const auto sick = Ask("GET", "/health");
  EXPECT_EQ(sick->head.status, 503);
  EXPECT_EQ(sick->BodyJson().Find("status")->AsString(), "failing");
  EXPECT_EQ(sick->BodyJson().Find("failed_steps")->AsInt(), 3);
  broken = false;
  EXPECT_EQ(Chat(R"("max_tokens":4)")->head.status, 200);
  EXPECT_EQ(Ask("GET", "/health")->head.status, 200);
}

TEST_F(ServiceTest, ModelDefaultsYieldToTheRequest) {
  // 'a' is certain at any temperature of a request, and lost in the noise at the model's.
  model_ = MakeTestModel([](int64_t) { return 'a'; });
  model_->defaults.temperature = 1e6F;
  service_->SetReady(model_);
  EXPECT_EQ(Content(*Chat(R"("max_tokens":20,"temperature":0)")), std::string(20, 'a'));
  EXPECT_NE(Content(*Chat(R"("max_tokens":20,"seed":1,"ignore_eos":true)")), std::string(20, 'a'));
}

TEST_F(ServiceTest, SeveralAnswers) {
  Ready([](int64_t position) { return position >= 40 ? Tok::kEnd : 'a'; });
  model_->defaults.temperature = 100.0F;
  auto three = Chat(R"("n":3,"max_tokens":8,"seed":5,"ignore_eos":true)");
  const Json body = three->BodyJson();
  const Json::Array& choices = body.Find("choices")->AsArray();
  ASSERT_EQ(choices.size(), 3u);
  EXPECT_EQ(body.Find("usage")->Find("completion_tokens")->AsInt(), 24);
  auto second = Chat(R"("max_tokens":8,"seed":6,"ignore_eos":true)");
  EXPECT_EQ(choices[1].Find("message")->Find("content")->AsString(), Content(*second))
      << "choice i has seed + i";
}

TEST_F(ServiceTest, ADisconnectFreesTheEngine) {
  Ready(Endless, 4096);
  for (const char* stream : {"true", "false"}) {
    auto writer = StartChat(StrCat(R"("n":2,"ignore_eos":true,"stream":)", stream));
    WaitUntil([&] { return model_->engine->stats().kv_blocks_used > 0; });
    writer->Disconnect();
    WaitUntil([&] { return model_->engine->stats().kv_blocks_used == 0; });
    EXPECT_LT(model_->engine->stats().generated_tokens, 2 * 4000);
  }
}

TEST_F(ServiceTest, ADisconnectCancelsWithinOneStep) {
  std::counting_semaphore<> may_step(0);
  std::atomic<int> steps{0};
  Ready(Endless, 1024, [&] {
    may_step.acquire();
    ++steps;
    return Status();
  });
  auto writer = StartChat(R"("stream":true)");
  may_step.release(2);
  WaitUntil([&] { return steps == 2; });
  writer->Disconnect();
  may_step.release(1);  // the step that may be in flight
  WaitUntil([&] { return model_->engine->stats().kv_blocks_used == 0; });
  EXPECT_LE(steps, 3);
  may_step.release(100);
}

TEST_F(ServiceTest, AFullQueueIsA429AndCancelsTheChoicesThatFitted) {
  std::counting_semaphore<> may_step(0);
  Ready(Endless, 1024,
        [&] {
          may_step.acquire();
          return Status();
        },
        {.max_num_seqs = 1, .max_num_queued_reqs = 1});
  auto running = StartChat("");
  auto writer = StartChat(R"("n":2)");
  EXPECT_EQ(writer->head.status, 429);
  EXPECT_EQ(writer->Header("Retry-After"), "1");
  may_step.release(5000);
  WaitUntil([&] {
    return model_->engine->stats().kv_blocks_used == 0 && model_->engine->stats().waiting == 0;
  });
  running->RunUntil([&] { return running->complete; });
}

TEST_F(ServiceTest, AFaultOfTheEngineIsAnError) {
  Ready(Endless, 1024, [] { return Internal("the device is gone"); });
  EXPECT_EQ(Chat("")->head.status, 500);
  auto stream = Chat(R"("stream":true)");
  EXPECT_NE(stream->Frames()[0].find("the device is gone"), std::string::npos);
  EXPECT_EQ(stream->Frames().back(), "[DONE]");
}

TEST_F(ServiceTest, EndingTheServiceEndsItsRequests) {
  Ready(Endless, 1 << 20);
  model_.reset();
  auto writer = StartChat(R"("stream":true,"ignore_eos":true)");
  writer->RunUntil([&] { return !writer->writes.empty(); });
  service_.reset();
  writer->RunToEnd();
  EXPECT_NE(writer->body.find("shutting down"), std::string::npos);
}

using Texts = std::vector<std::string>;

TEST_F(ServiceTest, CompletionsOfEveryForm) {
  Ready(Ending);  // the token after position p is the letter p % 8, 7 ends
  auto one = Complete(R"("model":"test-model","prompt":"ab")");
  EXPECT_EQ(TextsOf(*one), Texts{"bcdefg"});
  EXPECT_EQ(one->BodyJson().Find("object")->AsString(), "text_completion");
  EXPECT_TRUE(one->BodyJson().Find("id")->AsString().starts_with("cmpl-"));
  EXPECT_EQ(
      one->BodyJson().Find("usage")->Dump(),
      R"({"prompt_tokens":2,"total_tokens":9,"completion_tokens":7,"prompt_tokens_details":{"cached_tokens":0}})");
  auto list = Complete(R"("prompt":["ab",[97,97,97]],"n":2,"max_tokens":2)");
  EXPECT_EQ(TextsOf(*list), (Texts{"bc", "bc", "cd", "cd"}));
  EXPECT_EQ(
      list->BodyJson().Find("usage")->Dump(),
      R"({"prompt_tokens":5,"total_tokens":13,"completion_tokens":8,"prompt_tokens_details":{"cached_tokens":0}})");
  EXPECT_EQ(TextsOf(*Complete(R"("prompt":[[97,258],"a</s>"],"max_tokens":1)")), (Texts{"b", "b"}))
      << "a control token in a prompt is one";
  EXPECT_EQ(TextsOf(*Complete(R"("prompt":["ab",[97,258]],"max_tokens":1,"echo":true)")),
            (Texts{"abb", "ab"}));
}

TEST_F(ServiceTest, CompletionsHaveSixteenTokensOrWhatIsLeft) {
  Ready(Endless, 32);
  const auto count = [&](const std::string& members) {
    return Complete(members)->BodyJson().Find("usage")->Find("completion_tokens")->AsInt();
  };
  EXPECT_EQ(count(R"("prompt":"ab")"), 16);
  EXPECT_EQ(count(StrCat(R"("prompt":")", std::string(30, 'x'), '"')), 2);
  auto over = Complete(R"("prompt":["a","abc"],"max_tokens":30)");
  EXPECT_EQ(over->head.status, 400);
  EXPECT_EQ(Error(*over).Find("message")->AsString(),
            "This model's maximum context length is 32 tokens. However, you requested 33 tokens (3 "
            "in the messages, 30 in the completion). Please reduce the length of the messages or "
            "completion.");
  EXPECT_EQ(Error(*over).Find("param")->AsString(), "max_tokens");
  auto full = Complete(StrCat(R"("prompt":["a",")", std::string(32, 'x'), "\"]"));
  EXPECT_EQ(Error(*full).Find("param")->AsString(), "prompt[1]");
  auto outside = Complete(R"("prompt":[97,260])");
  EXPECT_EQ(outside->head.status, 400);
  EXPECT_EQ(Error(*outside).Find("param")->AsString(), "prompt");
  EXPECT_EQ(Error(*Complete(R"("prompt":"")")).Find("param")->AsString(), "prompt");
  EXPECT_EQ(Complete(R"("prompt":"a","model":"gpt-9")")->head.status, 404);
}

TEST_F(ServiceTest, PromptsOfAListDrawAsTheyWouldAlone) {
  Ready([](int64_t) { return 'a'; });
  model_->defaults.temperature = 100.0F;
  const std::string members = R"("max_tokens":12,"seed":5,"ignore_eos":true)";
  const Texts alone = TextsOf(*Complete(R"("prompt":"xy","n":2,)" + members));
  const Texts list = TextsOf(*Complete(R"("prompt":["xy","xy"],"n":2,)" + members));
  EXPECT_EQ(list, (Texts{alone[0], alone[1], alone[0], alone[1]}));
  EXPECT_NE(alone[0], alone[1]);
  const Texts unseeded =
      TextsOf(*Complete(R"("prompt":["xy","xy"],"max_tokens":12,"ignore_eos":true)"));
  EXPECT_NE(unseeded[0], unseeded[1]) << "without a seed each draws anew";
}

TEST_F(ServiceTest, LoopsEndOpenEndedAnswersAlone) {
  Ready([](int64_t) { return 'a'; }, 4096);
  auto open = Chat("");
  EXPECT_EQ(Content(*open), std::string(1024, 'a'));
  EXPECT_NE(open->body.find(R"("finish_reason":"stop","stop_reason":"repetition")"),
            std::string::npos);
  EXPECT_EQ(Content(*Chat(R"("max_tokens":2000)")), std::string(2000, 'a'));
  const std::string asked =
      R"("max_tokens":90,"repetition_detection":{"max_pattern_size":2,"min_count":5})";
  EXPECT_EQ(Content(*Chat(asked)), "aaaaa");
  auto never = Chat(R"("repetition_detection":{"max_pattern_size":0})");
  EXPECT_EQ(Content(*never).size(), static_cast<size_t>(4096 - kPromptTokens));
}

TEST_F(ServiceTest, ARequestThatBansEveryTokenIsToldSo) {
  Ready(Endless);
  auto banned = Chat(R"("allowed_token_ids":[97],"bad_words":["a"],"max_tokens":3)");
  EXPECT_EQ(banned->head.status, 400);
  EXPECT_NE(Error(*banned).Find("message")->AsString().find("every token is banned"),
            std::string::npos);
}

TEST_F(ServiceTest, Tokenize) {
  Ready(Endless);
  EXPECT_EQ(Post("/tokenize", R"({"prompt":"hi</s>"})")->body,
            R"({"count":3,"max_model_len":1024,"tokens":[104,105,256],"token_strs":null})");
  model_->prompt_prefix = {Tok::kBegin};
  EXPECT_EQ(
      Post("/tokenize", R"({"model":"test-model","prompt":"hi","return_token_strs":true})")->body,
      R"({"count":3,"max_model_len":1024,"tokens":[258,104,105],"token_strs":["<|begin_of_sentence|>","h","i"]})");
  const auto count = [&](const std::string& body) {
    return Post("/tokenize", body)->BodyJson().Find("count")->AsInt();
  };
  EXPECT_EQ(count(R"({"prompt":"hi","add_special_tokens":false})"), 2);
  const std::string messages = R"({"messages":[{"role":"user","content":"hi"}])";
  EXPECT_EQ(count(messages + "}"), kPromptTokens);
  EXPECT_EQ(count(messages + R"(,"add_generation_prompt":false})"), kPromptTokens - 11);
  for (const char* bad : {"{}", R"({"prompt":"a","messages":[]})", R"({"prompt":[1]})",
                          R"({"messages":"a"})", R"({"prompt":"a","return_token_strs":1})", "["}) {
    EXPECT_EQ(Post("/tokenize", bad)->head.status, 400) << bad;
  }
  EXPECT_EQ(Post("/tokenize", R"({"prompt":"a","model":"gpt-9"})")->head.status, 404);
}

TEST_F(ServiceTest, Detokenize) {
  Ready(Endless);
  EXPECT_EQ(Post("/detokenize", R"({"tokens":[104,105,256,259]})")->body,
            R"({"prompt":"hi</s>你好"})");
  EXPECT_EQ(Post("/detokenize", R"({"tokens":[]})")->body, R"({"prompt":""})");
  EXPECT_EQ(Post("/detokenize", R"({"tokens":[228]})")->BodyJson().Find("prompt")->AsString(),
            "\uFFFD");
  auto outside = Post("/detokenize", R"({"tokens":[1,260]})");
  EXPECT_EQ(outside->head.status, 400);
  EXPECT_EQ(Error(*outside).Find("param")->AsString(), "tokens[1]");
  EXPECT_EQ(Error(*Post("/detokenize", "{}")).Find("param")->AsString(), "tokens");
}

TEST_F(ServiceTest, StaticFilesAreThoseOfTheSourceTree) {
  for (const char* name : {"index.html", "page.js", "page.css", "favicon.svg"}) {
    auto file = Ask("GET", StrCat("/", name));
    std::ifstream source(SourceFolder(StrCat("web/", name)), std::ios::binary);
    std::ostringstream bytes;
    bytes << source.rdbuf();
    EXPECT_EQ(file->body, bytes.str()) << name;
    EXPECT_FALSE(file->body.empty()) << name;
    const std::string etag = file->Header("ETag");
    EXPECT_EQ(Ask("GET", StrCat("/", name), {{"if-none-match", etag}})->head.status, 304);
    EXPECT_EQ(Ask("GET", StrCat("/", name), {{"if-none-match", "\"0\""}})->head.status, 200);
  }
  auto page = Ask("GET", "/");
  EXPECT_EQ(page->body, Ask("GET", "/index.html")->body);
  EXPECT_EQ(page->head.content_type, "text/html; charset=utf-8");
  const std::string policy = page->Header("Content-Security-Policy");
  EXPECT_NE(policy.find("default-src 'none'"), std::string::npos);
  EXPECT_EQ(policy.find("unsafe"), std::string::npos);
  EXPECT_EQ(Ask("GET", "/../CMakeLists.txt")->head.status, 404);
}

}  // namespace
}  // namespace erne
