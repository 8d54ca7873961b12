#include "cli/bench_latency.h"

#include <algorithm>
#include <memory>
#include <optional>

#include "bench/sequences.h"
#include "cli/bench_session.h"
#include "cli/command.h"

namespace erne {
namespace {

// Beyond these a typing error is likelier than a wish.
constexpr int64_t kMaxTokens = int64_t{1} << 20;
constexpr int64_t kMaxSequences = 4096;

struct LatencyOptions {
  BenchOptions common;
  std::vector<std::string> prefill = {"512"};
  std::vector<std::string> depth = {"0", "2048"};
  int64_t tokens = 128;
  int64_t rows = 512;
};

struct ThroughputOptions {
  BenchOptions common;
  std::vector<std::string> sequences = {"1", "4", "8", "16"};
  int64_t prompt = 128;
  int64_t tokens = 128;
  int64_t rows = 512;
};

void AddTokensFlag(FlagTable& flags, int64_t* target) {
  flags
      .Add("tokens", target, "N",
           {"Tokens that are decoded, one after the other", "逐个解码的 token 数"})
      .Range(1, kMaxTokens);
}

void AddRowsFlag(FlagTable& flags, int64_t* target) {
  flags
      .Add("max-num-batched-tokens", target, "N",
           {"Rows of a step: longer prompts are computed in parts",
            "每步的行数；更长的提示分段计算"})
      .Range(1, kMaxTokens);
}

// Limits for `sequences` of `context` tokens.
ExecutorLimits LimitsFor(int64_t sequences, int64_t context, int64_t rows) {
  ExecutorLimits limits;
  limits.max_rows = std::max(sequences, std::min(rows, context));
  limits.max_logit_rows = sequences;
  limits.max_sequences = sequences;
  limits.max_context = context;
  limits.num_blocks = bench::Sequences::Blocks(sequences, context);
  return limits;
}

int64_t Largest(const std::vector<int64_t>& values) {
  return *std::max_element(values.begin(), values.end());
}

Status MeasureLatency(const FlagTable& flags, const LatencyOptions& options,
                      const OpenModel& open) {
  ERNE_ASSIGN_OR_RETURN(const std::vector<int64_t> prefill,
                        ParseNumbers("--prefill", options.prefill, 1, kMaxTokens));
  ERNE_ASSIGN_OR_RETURN(const std::vector<int64_t> depths,
                        ParseNumbers("--depth", options.depth, 0, kMaxTokens));
  const int64_t context = std::max(Largest(prefill), Largest(depths) + options.tokens);
  ERNE_ASSIGN_OR_RETURN(const std::unique_ptr<BenchSession> session,
                        BenchSession::Start("bench latency", flags, options.common, open,
                                            LimitsFor(1, context, options.rows)));
  bench::Sequences sequences(session->executor(), 1, context,
                             static_cast<uint64_t>(session->seed()));
  // The keys and values that the deepest one looks back on.
  ERNE_RETURN_IF_ERROR(sequences.Prefill(1, Largest(depths)));
  std::vector<bench::Case> cases;
  cases.reserve(prefill.size() + depths.size());
  for (const int64_t length : prefill) {
    cases.push_back(sequences.PrefillCase(session->work(), 1, length));
  }
  for (const int64_t depth : depths) {
    cases.push_back(sequences.DecodeCase(session->work(), 1, depth, options.tokens));
  }
  return session->Time(std::move(cases));
}

Status MeasureThroughput(const FlagTable& flags, const ThroughputOptions& options,
                         const OpenModel& open) {
  ERNE_ASSIGN_OR_RETURN(const std::vector<int64_t> counts,
                        ParseNumbers("--sequences", options.sequences, 1, kMaxSequences));
  const int64_t most = Largest(counts);
  const int64_t context = options.prompt + options.tokens;
  ERNE_ASSIGN_OR_RETURN(const std::unique_ptr<BenchSession> session,
                        BenchSession::Start("bench throughput", flags, options.common, open,
                                            LimitsFor(most, context, options.rows)));
  bench::Sequences sequences(session->executor(), most, context,
                             static_cast<uint64_t>(session->seed()));
  std::vector<bench::Case> cases;
  cases.reserve(2 * counts.size());
  for (const int64_t count : counts) {
    cases.push_back(sequences.PrefillCase(session->work(), count, options.prompt));
    cases.push_back(sequences.DecodeCase(session->work(), count, options.prompt, options.tokens));
  }
  return session->Time(std::move(cases));
}

}  // namespace

int RunBenchLatency(const std::vector<std::string>& arguments, const BenchDoors& doors) {
  constexpr const char* kCommand = "bench latency";
  LatencyOptions options;
  FlagTable flags(
      "erne bench latency [MODEL] [flags]",
      {"Times one sequence: the prompt at given lengths, and decoding at given depths. "
       "Verifies against the reference executor first; prints each speed beside the "
       "roof of the machine, measured in the same turns.",
       "测量单个序列的速度：给定长度的提示，以及给定深度处的解码。先与参考后端核对结果，"
       "再计时，并在每个速度旁给出同时测得的机器上限。"});
  flags.Add("prefill", &options.prefill, "N...", {"Lengths of prompts", "提示的长度"});
  flags.Add("depth", &options.depth, "N...",
            {"Tokens before those that are decoded", "解码开始前已有的 token 数"});
  AddTokensFlag(flags, &options.tokens);
  AddRowsFlag(flags, &options.rows);
  AddBenchFlags(flags, options.common);
  if (const std::optional<int> end = ParseOrEnd(kCommand, flags, arguments)) return *end;
  const Status status = MeasureLatency(flags, options, doors.open);
  if (status.ok()) return 0;
  return Fail(kCommand, status, status.param().empty() ? 1 : 2);
}

int RunBenchThroughput(const std::vector<std::string>& arguments, const BenchDoors& doors) {
  constexpr const char* kCommand = "bench throughput";
  ThroughputOptions options;
  FlagTable flags(
      "erne bench throughput [MODEL] [flags]",
      {"Times several sequences side by side, without a server: their prompts one after the other, "
       "then a token of each in every step. Verifies against the reference executor first.",
       "测量多个序列同时运行的速度（不经过服务器）：先依次计算各自的提示，然后每步为每个序列"
       "解码一个 token。先与参考后端核对结果，再计时。"});
  flags.Add("sequences", &options.sequences, "N...",
            {"How many sequences run side by side", "同时运行的序列数"});
  flags.Add("prompt", &options.prompt, "N", {"Tokens of each prompt", "每个提示的 token 数"})
      .Range(1, kMaxTokens);
  AddTokensFlag(flags, &options.tokens);
  AddRowsFlag(flags, &options.rows);
  AddBenchFlags(flags, options.common);
  if (const std::optional<int> end = ParseOrEnd(kCommand, flags, arguments)) return *end;
  const Status status = MeasureThroughput(flags, options, doors.open);
  if (status.ok()) return 0;
  return Fail(kCommand, status, status.param().empty() ? 1 : 2);
}

}  // namespace erne
