#include "load/run.h"

#include <algorithm>
#include <chrono>
#include <functional>
#include <utility>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "base/strings.h"
#include "load/answer_check.h"
#include "load/health_watch.h"
#include "load/http_connection.h"

namespace erne::load {
namespace {

namespace asio = boost::asio;
using asio::awaitable;
using asio::ip::tcp;
using boost::system::error_code;
using std::chrono::milliseconds;

constexpr milliseconds kRetryAfter{1000};  // after a refusal
constexpr int64_t kSteadySeconds = 20;
constexpr int64_t kLongAnswerTokens = 16;
constexpr int kWarmQuestions = 3;  // for each prefix
constexpr int64_t kQuestionTokens = 24;
// A client that takes 2.5 KB/s: about eight chunks a second.
constexpr Pace kSlowPace = {.read_bytes = 256, .pause = milliseconds(100), .receive_buffer = 4096};

// Requests that are alike.
struct Kind {
  size_t group = 0;  // in the report
  Range prompt_tokens;
  Range max_tokens;
  Pace pace = {};
  std::string prefix = {};  // that the prompt begins with
};

struct Request {
  std::string bytes;
  Expectation expected;
};

Request ChatRequest(const LoadOptions& options, const std::string& model, const std::string& prompt,
                    int64_t max_tokens) {
  Json message = Json::Of({{"role", "user"}, {"content", prompt}});
  Json body = Json::Of({{"model", model},
                        {"messages", Json(Json::Array{std::move(message)})},
                        {"max_tokens", max_tokens},
                        {"temperature", options.temperature}});
  if (options.stream) {
    body.Set("stream", true);
    body.Set("stream_options", Json::Of({{"include_usage", true}}));
  }
  if (options.fixed_length) body.Set("ignore_eos", true);
  if (options.logprobs) body.Set("logprobs", true);
  for (const auto& [name, value] : options.extra.AsObject()) body.Set(name, value);
  return {.bytes = HttpText(options, "POST", "/v1/chat/completions", body.Dump()),
          .expected = {.stream = options.stream,
                       .max_tokens = max_tokens,
                       .fixed_length = options.fixed_length,
                       .logprobs = options.logprobs}};
}

Result<tcp::endpoint> Resolve(const LoadOptions& options) {
  asio::io_context io;
  tcp::resolver resolver(io);
  error_code error;
  const auto found = resolver.resolve(options.host, options.port, error);
  if (error) return Unavailable(StrCat(options.host, ": ", error.message()));
  return found.begin()->endpoint();
}

}  // namespace

class Run {
 public:
  // `first_prompt`: number of the first prompt, so that runs after each other have others.
  Run(const LoadOptions& options, const Target& target, const tcp::endpoint& to,
      int64_t first_prompt)
      : options_(options), target_(target), to_(to), next_prompt_(first_prompt) {}

  RunReport Execute(int64_t concurrency, bool with_long_prompts);
  int64_t next_prompt() const { return next_prompt_; }

 private:
  using Clients = std::vector<std::unique_ptr<HttpConnection>>;

  awaitable<void> Main(bool with_long_prompts);
  awaitable<void> Foreground();
  awaitable<void> Waves();
  awaitable<void> Prefixes();
  awaitable<void> Worker(const Kind& kind, ConnectionSet& set, bool unlimited);
  awaitable<void> OneClient(const Kind& kind);
  awaitable<void> LongPrompts(const Kind& kind);
  awaitable<void> Turn(std::unique_ptr<HttpConnection>& connection, const Kind& kind,
                       ConnectionSet& set);
  awaitable<void> Ask(HttpConnection& connection, const Kind& kind);
  awaitable<void> WatchTime();
  awaitable<void> OpenIdle(Clients& idle);
  awaitable<void> AskIdle(Clients& idle);
  awaitable<void> Settle();
  awaitable<Result<std::string>> Health(std::unique_ptr<HttpConnection>& connection);
  awaitable<void> Pause(milliseconds time);  // less when the run ends
  awaitable<void> Finished(const int64_t& tasks);

  Kind MakeKind(std::string name, Range prompt_tokens, Range max_tokens);
  Request MakeRequest(const Kind& kind);
  void Count(Group& group, const Result<HttpReply>& reply, AnswerCheck& check);
  void Fail(Group& group, const std::string& fault);
  void Spawn(awaitable<void> task, int64_t& tasks);
  void Stop();
  int64_t RequestsOr(int64_t fallback) const {
    return options_.requests > 0 ? options_.requests : fallback;
  }

  const LoadOptions& options_;
  const Target& target_;
  const tcp::endpoint to_;
  asio::io_context io_{1};
  asio::steady_timer changed_{io_};  // cancelled when a task ends
  ConnectionSet foreground_;
  ConnectionSet background_;
  ConnectionSet side_;  // idle ones, and the last look at /health
  RunReport report_;
  int64_t concurrency_ = 1;
  int64_t next_prompt_;
  int64_t turns_ = 0;  // requests that the closed loop may still begin
  int64_t foreground_tasks_ = 0;
  int64_t background_tasks_ = 0;
  int64_t texts_ = 0;     // pieces of text so far, in all
  bool leaving_ = false;  // clients are going away now
  bool stopped_ = false;
};

RunReport Run::Execute(int64_t concurrency, bool with_long_prompts) {
  concurrency_ = concurrency;
  report_.mode = ModeName(options_.mode);
  report_.concurrency = concurrency;
  asio::co_spawn(io_, Main(with_long_prompts), [](const std::exception_ptr& error) {
    if (error) std::rethrow_exception(error);
  });
  io_.run();
  return std::move(report_);
}

awaitable<void> Run::Main(bool with_long_prompts) {
  const Kind slow = MakeKind("slow", options_.prompt_tokens, options_.max_tokens);
  const Kind long_prompts =
      MakeKind("long", {options_.long_prompt_tokens, options_.long_prompt_tokens},
               {kLongAnswerTokens, kLongAnswerTokens});
  Kind slow_paced = slow;
  slow_paced.pace = kSlowPace;
  if (options_.pid > 0) report_.before = ReadProcess(options_.pid);
  Clients idle;
  co_await OpenIdle(idle);

  const Clock::time_point begin = Clock::now();
  HealthWatch health(options_, to_);
  Spawn(WatchTime(), background_tasks_);
  for (int64_t i = 0; i < options_.slow; ++i) {
    Spawn(Worker(slow_paced, background_, /*unlimited=*/true), background_tasks_);
  }
  if (with_long_prompts) Spawn(LongPrompts(long_prompts), background_tasks_);
  co_await Foreground();
  report_.wall_s = Milliseconds(Clock::now() - begin) / 1000;
  Stop();
  health.Stop();
  report_.health_ms = std::move(health.times_ms());
  report_.health_not_ok = health.not_ok();
  co_await Finished(background_tasks_);

  co_await AskIdle(idle);
  idle.clear();
  co_await Settle();
  if (options_.pid > 0) report_.after = ReadProcess(options_.pid);
  std::erase_if(report_.groups, [](const Group& group) { return group.requests() == 0; });
}

awaitable<void> Run::Foreground() {
  if (options_.mode == Mode::kVanish) co_return co_await Waves();
  if (options_.mode == Mode::kPrefix) co_return co_await Prefixes();
  const Kind kind = MakeKind("requests", options_.prompt_tokens, options_.max_tokens);
  if (options_.mode == Mode::kFlood) {
    for (int64_t i = RequestsOr(1000); i > 0; --i) Spawn(OneClient(kind), foreground_tasks_);
  } else {
    const bool unlimited = options_.mode == Mode::kSteady || options_.seconds > 0;
    turns_ = RequestsOr(std::max<int64_t>(8, 3 * concurrency_));
    for (int64_t i = 0; i < concurrency_; ++i) {
      Spawn(Worker(kind, foreground_, unlimited), foreground_tasks_);
    }
  }
  co_await Finished(foreground_tasks_);
}

// A client of the closed loop: one request after the other over one connection.
awaitable<void> Run::Worker(const Kind& kind, ConnectionSet& set, bool unlimited) {
  std::unique_ptr<HttpConnection> connection;
  const auto refused = [&] {
    const Group& group = report_.groups[kind.group];
    return group.refused_429 + group.refused_503 + group.failed;
  };
  while (!stopped_ && (unlimited || turns_-- > 0)) {
    const int64_t before = refused();
    co_await Turn(connection, kind, set);
    if (refused() != before && !stopped_) co_await Pause(kRetryAfter);
  }
}

awaitable<void> Run::OneClient(const Kind& kind) {
  std::unique_ptr<HttpConnection> connection;
  co_await Turn(connection, kind, foreground_);
}

awaitable<void> Run::LongPrompts(const Kind& kind) {
  while (true) {
    co_await Pause(milliseconds(options_.long_every_ms));
    if (stopped_) co_return;
    Spawn(OneClient(kind), background_tasks_);
  }
}

// So many clients at a time that go away together: some in the middle of their answers, some still
// in the queue, some between.
awaitable<void> Run::Waves() {
  const Kind kind = MakeKind("vanish", options_.prompt_tokens, options_.max_tokens);
  int64_t to_come = RequestsOr(2000);
  while (to_come > 0 && !stopped_) {
    const int64_t count = std::min(to_come, options_.wave);
    to_come -= count;
    const int64_t before = texts_;
    for (int64_t i = 0; i < count; ++i) Spawn(OneClient(kind), foreground_tasks_);
    while (texts_ == before && foreground_tasks_ > 0 && !stopped_) co_await Pause(milliseconds(5));
    co_await Pause(milliseconds(options_.wave_ms));
    leaving_ = true;
    foreground_.CloseAll();
    co_await Finished(foreground_tasks_);
    leaving_ = false;
  }
}

// One request at a time, so that what is measured is the prompt.
awaitable<void> Run::Prefixes() {
  const Range question = {kQuestionTokens, kQuestionTokens};
  Kind cold = MakeKind("cold", question, options_.max_tokens);
  Kind warm = MakeKind("warm", question, options_.max_tokens);
  // No prefix may have been seen before, by an earlier run either.
  Random random(options_.seed + static_cast<uint64_t>(Clock::now().time_since_epoch().count()));
  std::unique_ptr<HttpConnection> connection;
  for (int64_t i = RequestsOr(8); i > 0 && !stopped_; --i) {
    cold.prefix = RandomWords(random, target_.length.WordsFor(options_.prefix_tokens)) + "\n\n";
    warm.prefix = cold.prefix;
    co_await Turn(connection, cold, foreground_);
    for (int again = 0; again < kWarmQuestions && !stopped_; ++again) {
      co_await Turn(connection, warm, foreground_);
    }
  }
}

awaitable<void> Run::Turn(std::unique_ptr<HttpConnection>& connection, const Kind& kind,
                          ConnectionSet& set) {
  if (connection == nullptr || !connection->reusable()) {
    connection = std::make_unique<HttpConnection>(io_, set, kind.pace);
    const Status opened = co_await connection->Open(to_);
    if (!opened.ok()) {
      Group& group = report_.groups[kind.group];
      if (opened.code() == StatusCode::kCancelled) {
        ++(leaving_ ? group.left : group.cut);
      } else {
        Fail(group, opened.message());
      }
      co_return;
    }
  }
  co_await Ask(*connection, kind);
}

awaitable<void> Run::Ask(HttpConnection& connection, const Kind& kind) {
  const Request request = MakeRequest(kind);
  AnswerCheck check(request.expected);
  std::string refusal;
  std::vector<float> gaps;
  const Clock::time_point begin = Clock::now();
  Clock::time_point first;
  Clock::time_point last;
  const HttpConnection::BodySink sink = [&](const HttpReply& reply, std::string_view bytes) {
    if (reply.status != 200) {
      refusal += bytes;
      return true;
    }
    const int64_t pieces = check.Add(bytes);
    if (pieces == 0) return check.fault().empty();
    texts_ += pieces;
    const Clock::time_point now = Clock::now();
    if (first == Clock::time_point()) {
      first = now;
    } else {
      gaps.push_back(static_cast<float>(Milliseconds(now - last)));
    }
    gaps.insert(gaps.end(), static_cast<size_t>(pieces - 1), 0.0F);
    last = now;
    return check.fault().empty();
  };
  const Result<HttpReply> reply = co_await connection.Ask(request.bytes, sink);
  if (reply.ok() && reply->status == 200) check.End();
  if (reply.ok() && reply->status != 200) {
    check.Refusal(reply->status, refusal, reply->has_retry_after);
  }
  Group& group = report_.groups[kind.group];
  const int64_t failed = group.failed;
  Count(group, reply, check);
  if (group.failed != failed) co_return;  // its times count for nothing
  group.gap_ms.insert(group.gap_ms.end(), gaps.begin(), gaps.end());
  if (first != Clock::time_point()) {
    group.first_ms.push_back(static_cast<float>(Milliseconds(first - begin)));
  }
  if (reply.ok() && reply->status == 200) {
    group.whole_ms.push_back(static_cast<float>(Milliseconds(Clock::now() - begin)));
  }
}

void Run::Count(Group& group, const Result<HttpReply>& reply, AnswerCheck& check) {
  group.broken_characters += check.broken_characters();
  if (!check.fault().empty()) return Fail(group, check.fault());
  group.pieces += check.pieces();
  if (!reply.ok()) {
    if (reply.status().code() != StatusCode::kCancelled) {
      return Fail(group, reply.status().message());
    }
    ++(leaving_ ? group.left : group.cut);
    group.tokens += check.pieces();
    return;
  }
  if (reply->status == 429) {
    ++group.refused_429;
  } else if (reply->status == 503) {
    ++group.refused_503;
  } else {
    ++group.answered;
    group.prompt_tokens += check.prompt_tokens();
    group.cached_tokens += check.cached_tokens();
    group.tokens += check.completion_tokens();
  }
}

void Run::Fail(Group& group, const std::string& fault) {
  ++group.failed;
  ++report_.faults[fault];
}

Kind Run::MakeKind(std::string name, Range prompt_tokens, Range max_tokens) {
  report_.groups.push_back({.name = std::move(name)});
  return {
      .group = report_.groups.size() - 1, .prompt_tokens = prompt_tokens, .max_tokens = max_tokens};
}

// Prompt and lengths depend on the seed and the prompt's number alone.
Request Run::MakeRequest(const Kind& kind) {
  Random random((options_.seed << 32) + static_cast<uint64_t>(next_prompt_++));
  const int64_t prompt_tokens = random.Between(kind.prompt_tokens.low, kind.prompt_tokens.high);
  const int64_t max_tokens = random.Between(kind.max_tokens.low, kind.max_tokens.high);
  const std::string words = RandomWords(random, target_.length.WordsFor(prompt_tokens));
  return ChatRequest(options_, target_.model, kind.prefix + words, max_tokens);
}

awaitable<Result<std::string>> Run::Health(std::unique_ptr<HttpConnection>& connection) {
  return AskHealth(io_, side_, options_, to_, connection);
}

// Ends the run when its time is up, and clients that hang.
awaitable<void> Run::WatchTime() {
  int64_t seconds = options_.seconds;
  if (seconds == 0 && options_.mode == Mode::kSteady) seconds = kSteadySeconds;
  const Clock::time_point begin = Clock::now();
  while (!stopped_) {
    co_await Pause(milliseconds(50));
    for (ConnectionSet* set : {&foreground_, &background_, &side_}) {
      set->CloseHung(std::chrono::seconds(options_.timeout_s));
    }
    if (seconds > 0 && Clock::now() - begin >= std::chrono::seconds(seconds)) Stop();
  }
}

awaitable<void> Run::OpenIdle(Clients& idle) {
  idle.resize(static_cast<size_t>(options_.idle));
  for (auto& connection : idle) {
    const Result<std::string> body = co_await Health(connection);
    if (body.ok()) ++report_.idle_open;
  }
  if (report_.idle_open < options_.idle) {
    ++report_.faults[StrCat("only ", report_.idle_open, " idle connections could be opened")];
  }
}

awaitable<void> Run::AskIdle(Clients& idle) {
  for (auto& connection : idle) {
    if (!connection->reusable()) continue;
    const Result<std::string> body = co_await Health(connection);
    if (body.ok()) ++report_.idle_alive;
  }
}

// Until nothing of the run is left in the server.
awaitable<void> Run::Settle() {
  stopped_ = false;  // pauses are whole ones
  std::unique_ptr<HttpConnection> connection;
  const Clock::time_point begin = Clock::now();
  while (true) {
    const Result<std::string> body = co_await Health(connection);
    report_.settle_ms = Milliseconds(Clock::now() - begin);
    const bool late = report_.settle_ms > static_cast<double>(options_.settle_s) * 1000;
    report_.end = body.ok() ? ParseHealth(*body) : std::nullopt;
    if (body.ok() && (!report_.end || report_.end->idle())) co_return;
    if (late) {
      ++report_.faults[body.ok() ? StrCat("after the run the server still has ", *body)
                                 : body.status().message()];
      co_return;
    }
    co_await Pause(milliseconds(10));
  }
}

awaitable<void> Run::Pause(milliseconds time) {
  constexpr milliseconds kSlice{50};
  const Clock::time_point end = Clock::now() + time;
  asio::steady_timer timer(io_);
  error_code ignored;
  while (!stopped_ && Clock::now() < end) {
    timer.expires_at(std::min(end, Clock::now() + kSlice));
    co_await timer.async_wait(asio::redirect_error(asio::use_awaitable, ignored));
  }
}

awaitable<void> Run::Finished(const int64_t& tasks) {
  error_code ignored;
  while (tasks > 0) {
    changed_.expires_at(asio::steady_timer::time_point::max());
    co_await changed_.async_wait(asio::redirect_error(asio::use_awaitable, ignored));
  }
}

void Run::Spawn(awaitable<void> task, int64_t& tasks) {
  ++tasks;
  asio::co_spawn(io_, std::move(task), [this, &tasks](const std::exception_ptr& error) {
    if (error) std::rethrow_exception(error);
    if (--tasks == 0) changed_.cancel();
  });
}

void Run::Stop() {
  stopped_ = true;
  foreground_.CloseAll();
  background_.CloseAll();
}

namespace {

// GET or POST over a connection of its own; the body of a 200 as JSON.
Result<Json> AskOnce(const tcp::endpoint& to, const std::string& request) {
  asio::io_context io(1);
  ConnectionSet set;
  Result<Json> answer = Internal("nothing came");
  asio::co_spawn(
      io,
      [&]() -> awaitable<void> {
        HttpConnection connection(io, set, Pace{});
        const Status opened = co_await connection.Open(to);
        if (!opened.ok()) {
          answer = opened;
          co_return;
        }
        std::string body;
        const HttpConnection::BodySink sink = [&](const HttpReply&, std::string_view bytes) {
          body += bytes;
          return true;
        };
        const Result<HttpReply> reply = co_await connection.Ask(request, sink);
        if (!reply.ok()) {
          answer = reply.status();
        } else if (reply->status != 200) {
          answer = Unavailable(StrCat("HTTP ", reply->status, ": ", body));
        } else {
          answer = Json::Parse(body);
        }
      },
      [](const std::exception_ptr& error) {
        if (error) std::rethrow_exception(error);
      });
  io.run();
  return answer;
}

Result<std::string> FirstModel(const LoadOptions& options, const tcp::endpoint& to) {
  ERNE_ASSIGN_OR_RETURN(const Json list, AskOnce(to, HttpText(options, "GET", "/v1/models")));
  const Json* data = list.Find("data");
  if (data == nullptr || !data->is_array() || data->AsArray().empty()) {
    return Unavailable("/v1/models lists none");
  }
  return StringMember(data->AsArray()[0], "id", "");
}

}  // namespace

Result<Target> FindTarget(const LoadOptions& options) {
  ERNE_ASSIGN_OR_RETURN(const tcp::endpoint to, Resolve(options));
  Target target{.model = options.model, .length = {}};
  if (target.model.empty()) {
    ERNE_ASSIGN_OR_RETURN(target.model, FirstModel(options, to));
  }
  constexpr int64_t kWords[] = {20, 80};
  double tokens[2] = {};
  LoadOptions plain = options;
  plain.stream = false;
  plain.extra = Json::MakeObject();
  Random random(options.seed);
  for (int i = 0; i < 2; ++i) {
    const std::string prompt = RandomWords(random, kWords[i]);
    ERNE_ASSIGN_OR_RETURN(const Json answer,
                          AskOnce(to, ChatRequest(plain, target.model, prompt, 1).bytes));
    const Json* usage = answer.Find("usage");
    if (usage == nullptr) return Unavailable("an answer without usage");
    ERNE_ASSIGN_OR_RETURN(const int64_t count, IntMember(*usage, "prompt_tokens", 0));
    tokens[i] = static_cast<double>(count);
  }
  if (tokens[1] <= tokens[0]) return Unavailable("usage.prompt_tokens does not count the prompt");
  target.length.tokens_per_word =
      (tokens[1] - tokens[0]) / static_cast<double>(kWords[1] - kWords[0]);
  target.length.other_tokens =
      tokens[0] - target.length.tokens_per_word * static_cast<double>(kWords[0]);
  return target;
}

std::vector<RunReport> RunLoad(const LoadOptions& options, const Target& target) {
  const tcp::endpoint to = Resolve(options).value();  // FindTarget has seen that it resolves
  std::vector<RunReport> reports;
  int64_t first_prompt = 0;
  const auto execute = [&](int64_t concurrency, bool with_long_prompts) {
    Run run(options, target, to, first_prompt);
    reports.push_back(run.Execute(concurrency, with_long_prompts));
    first_prompt = run.next_prompt();
  };
  const bool levels = options.mode == Mode::kClosed || options.mode == Mode::kSteady;
  if (!levels) {
    const int64_t together = options.mode == Mode::kVanish  ? options.wave
                             : options.mode == Mode::kFlood ? options.requests
                                                            : 1;
    execute(together, false);
    return reports;
  }
  for (const int64_t concurrency : options.concurrency) {
    execute(concurrency, false);
    if (options.mode == Mode::kSteady && options.long_every_ms > 0) execute(concurrency, true);
  }
  return reports;
}

}  // namespace erne::load
