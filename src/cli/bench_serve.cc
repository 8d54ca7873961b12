#include "cli/bench_serve.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "base/strings.h"
#include "bench/sequences.h"
#include "cli/bench_server.h"
#include "cli/bench_session.h"
#include "cli/command.h"
#include "load/run.h"

namespace erne {
namespace {

constexpr int64_t kMaxTokens = int64_t{1} << 20;
constexpr int64_t kMaxClients = 4096;
// Tokens of a prompt beyond those that were asked for: prompts are made of words, whose number of
// tokens is an estimate.
constexpr int64_t kSpareTokens = 256;

struct ServeBenchOptions {
  BenchOptions common;
  std::vector<std::string> concurrency = {"1", "4", "8", "12"};
  int64_t requests = 3;  // of each client
  int64_t prompt = 128;
  int64_t tokens = 128;
  int64_t rows = 512;
  double temperature = 0;
  double top_p = 1;
};

// A number of clients, and what they saw in all turns.
struct Level {
  int64_t clients = 0;
  std::vector<float> first_ms = {};
  std::vector<float> gap_ms = {};
};

load::LoadOptions LoadFor(const ServeBenchOptions& options, int64_t clients, uint16_t port) {
  load::LoadOptions load;
  load.port = std::to_string(port);
  load.concurrency = {clients};
  load.requests = clients * options.requests;
  load.prompt_tokens = {options.prompt, options.prompt};
  load.max_tokens = {options.tokens, options.tokens};
  load.temperature = options.temperature;
  load.extra.Set("top_p", options.top_p);
  load.seed = static_cast<uint64_t>(options.common.model.seed);
  return load;
}

// One closed loop; the seconds of it. An answer that is not what was asked for is an error.
Result<double> RunOnce(const load::LoadOptions& options, const load::Target& target, Level& level) {
  std::vector<load::RunReport> reports = load::RunLoad(options, target);
  load::RunReport& report = reports.at(0);
  if (report.failures() > 0) {
    return Internal(StrCat(report.failures(), " faults under the load of ", level.clients,
                           " clients; the first kind: ", report.faults.begin()->first));
  }
  load::Group& group = report.groups.at(0);
  if (group.answered != options.requests) {
    return Internal(StrCat(group.answered, " of ", options.requests, " requests were answered"));
  }
  level.first_ms.insert(level.first_ms.end(), group.first_ms.begin(), group.first_ms.end());
  level.gap_ms.insert(level.gap_ms.end(), group.gap_ms.begin(), group.gap_ms.end());
  return report.wall_s;
}

// What the loop needs at least: each prompt computed once, and the weights read once for every step
// in which all clients get a token.
bench::Case CaseOf(const ServeBenchOptions& options, const bench::ModelWork& work,
                   int64_t clients) {
  const auto rows = static_cast<double>(clients);
  const auto requests = static_cast<double>(options.requests);  // of each client
  const auto prompt = static_cast<double>(options.prompt);
  bench::Case made;
  made.name = StrCat(clients, clients == 1 ? " client" : " clients");
  made.tokens = requests * rows * static_cast<double>(options.tokens);
  bench::StepRows read;
  read.rows = prompt;
  read.logit_rows = 0;  // its logits are those of the first token below
  read.attended = prompt * (prompt + 1) / 2;
  made.operations = requests * rows * work.Operations(read);
  for (int64_t i = 0; i < options.tokens; ++i) {
    bench::StepRows step;
    step.logit_rows = rows;
    step.rows = i == 0 ? 0 : rows;
    step.attended = step.kv_read = step.rows * (prompt + static_cast<double>(i));
    made.bytes += requests * work.Bytes(step);
    made.operations += requests * work.Operations(step);
  }
  return made;
}

std::string Milliseconds(double value) { return FormatFixed(value, value < 10 ? 2 : 0); }

BenchSession::More Describe(std::vector<Level>& levels) {
  BenchSession::More more;
  more.name = "clients";
  more.json = Json::MakeArray();
  more.text =
      "| clients | first token p50, p95, ms | gap p50, p95, p99, ms |\n| --- | --- | --- |\n";
  for (Level& level : levels) {
    const auto first = [&](double percent) { return load::Percentile(level.first_ms, percent); };
    const auto gap = [&](double percent) { return load::Percentile(level.gap_ms, percent); };
    more.text += StrCat("| ", level.clients, " | ", Milliseconds(first(50)), ", ",
                        Milliseconds(first(95)), " | ", Milliseconds(gap(50)), ", ",
                        Milliseconds(gap(95)), ", ", Milliseconds(gap(99)), " |\n");
    more.json.Push(Json::Of({{"clients", level.clients},
                             {"first_token_p50_ms", first(50)},
                             {"first_token_p95_ms", first(95)},
                             {"gap_p50_ms", gap(50)},
                             {"gap_p95_ms", gap(95)},
                             {"gap_p99_ms", gap(99)}}));
  }
  return more;
}

ExecutorLimits LimitsFor(const ServeBenchOptions& options, int64_t most) {
  ExecutorLimits limits;
  limits.max_context = options.prompt + options.tokens + kSpareTokens;
  limits.max_rows = std::max(most, options.rows);
  limits.max_logit_rows = limits.max_sequences = most;
  limits.num_blocks = bench::Sequences::Blocks(most, limits.max_context);
  return limits;
}

Status MeasureServe(const FlagTable& flags, const ServeBenchOptions& options,
                    const OpenModel& open) {
  ERNE_ASSIGN_OR_RETURN(const std::vector<int64_t> clients,
                        ParseNumbers("--concurrency", options.concurrency, 1, kMaxClients));
  const int64_t most = *std::max_element(clients.begin(), clients.end());
  ERNE_ASSIGN_OR_RETURN(
      const std::unique_ptr<BenchSession> session,
      BenchSession::Start("bench serve", flags, options.common, open, LimitsFor(options, most)));
  EngineOptions engine;
  engine.max_num_seqs = most;
  engine.max_num_batched_tokens = std::max(most, options.rows);
  ERNE_ASSIGN_OR_RETURN(const std::unique_ptr<BenchServer> server,
                        BenchServer::Start(session->TakeExecutor(), session->files(), engine));
  ERNE_ASSIGN_OR_RETURN(const load::Target target,
                        load::FindTarget(LoadFor(options, 1, server->port())));
  std::vector<Level> levels;
  levels.reserve(clients.size());  // the cases keep references
  std::vector<bench::Case> cases;
  cases.reserve(clients.size());
  for (const int64_t count : clients) {
    levels.push_back({.clients = count});
    cases.push_back(CaseOf(options, session->work(), count));
    cases.back().run = [&target, &level = levels.back(),
                        load = LoadFor(options, count, server->port())] {
      return RunOnce(load, target, level);
    };
  }
  return session->Time(std::move(cases), [&levels] { return Describe(levels); });
}

}  // namespace

int RunBenchServe(const std::vector<std::string>& arguments, const OpenModel& open) {
  constexpr const char* kCommand = "bench serve";
  ServeBenchOptions options;
  options.common.turns = 2;
  FlagTable flags(
      "erne bench serve [MODEL] [flags]",
      {"Serves the model on a port of its own and puts load on it: clients that stream, each "
       "asking "
       "again when it has its answer. Every answer is checked. Prints tokens a second of all "
       "together beside the roof, and how long first tokens and the next ones take. Without a "
       "model "
       "random weights are served, and tokens are numbers.",
       "在独立端口上运行服务器并施加负载：每个客户端以流式接收回答，收完后立即再次提问，"
       "所有回答都会检查。输出总的每秒 token 数及其上限，以及首个 token 和后续 token 的延迟。"
       "不指定模型时使用随机权重，token 以数字表示。"});
  flags.Add("concurrency", &options.concurrency, "N...", {"Clients at a time", "同时的客户端数"});
  flags.Add("requests", &options.requests, "N", {"Requests of each client", "每个客户端的请求数"})
      .Range(1, 1e6);
  flags.Add("prompt", &options.prompt, "N", {"Tokens of a prompt", "提示的 token 数"})
      .Range(1, kMaxTokens);
  flags.Add("tokens", &options.tokens, "N", {"Tokens of an answer", "回答的 token 数"})
      .Range(1, kMaxTokens);
  flags.Add("temperature", &options.temperature, "T", {"Of every request", "采样温度"})
      .Range(0, 100);
  flags.Add("top-p", &options.top_p, "P", {"Of every request", "核采样的 top_p"}).Range(1e-6, 1);
  flags
      .Add("max-num-batched-tokens", &options.rows, "N",
           {"Rows of a step, as of erne serve", "每步的行数，与 erne serve 相同"})
      .Range(1, kMaxTokens);
  AddBenchFlags(flags, options.common);
  if (const std::optional<int> end = ParseOrEnd(kCommand, flags, arguments)) return *end;
  const Status status = MeasureServe(flags, options, open);
  if (status.ok()) return 0;
  return Fail(kCommand, status, status.param().empty() ? 1 : 2);
}

}  // namespace erne
