#include "cli/bench_session.h"

#include <algorithm>
#include <cstdio>
#include <utility>

#include "base/machine.h"
#include "base/strings.h"
#include "bench/process_memory.h"
#include "cli/rounded_model.h"
#include "executor/cpu/cpu_executor.h"
#include "executor/reference/reference_executor.h"
#include "kv/block_pool.h"

namespace erne {
namespace {

// The reference executor takes about half a second for a token of a model of 0.4 B.
constexpr int64_t kMaxVerify = 1024;

bench::StepRows OneToken(double depth) {
  bench::StepRows step;
  step.rows = step.logit_rows = 1;
  step.attended = step.kv_read = depth;
  return step;
}

void Print(const std::string& line) {
  std::printf("%s\n", line.c_str());
  std::fflush(stdout);
}

}  // namespace

void AddBenchFlags(FlagTable& flags, BenchOptions& options) {
  AddBenchModelFlags(flags, options.model);
  flags
      .Add("turns", &options.turns, "N",
           {"Each case is timed so often, in turns; the medians count",
            "每种情况轮流计时的次数；以中位数为准"})
      .Range(1, 1000);
  flags
      .Add("verify", &options.verify, "N",
           {"Tokens that are compared with the reference executor first",
            "计时之前先与参考后端比较的 token 数"})
      .Range(1, kMaxVerify);
  flags.Add("json", &options.json, "FILE",
            {"Write the results to this file too", "把结果同时写入该 JSON 文件"});
}

Result<std::vector<int64_t>> ParseNumbers(const std::string& flag,
                                          const std::vector<std::string>& texts, int64_t low,
                                          int64_t high) {
  std::vector<int64_t> numbers;
  for (const std::string& text : texts) {
    for (const std::string& part : Split(text, ',')) {
      const auto number = ParseNumber<int64_t>(part);
      if (!number || *number < low || *number > high) {
        return InvalidArgument(
            StrCat(flag, ": '", part, "' is no whole number from ", low, " to ", high), flag);
      }
      numbers.push_back(*number);
    }
  }
  return numbers;
}

Result<std::unique_ptr<BenchSession>> BenchSession::Start(std::string command,
                                                          const FlagTable& flags,
                                                          const BenchOptions& options,
                                                          const OpenModel& open,
                                                          ExecutorLimits limits) {
  std::unique_ptr<BenchSession> session(new BenchSession());
  session->command_ = std::move(command);
  session->turns_ = options.turns;
  session->seed_ = options.model.seed;
  session->threads_ = static_cast<int>(options.model.threads.threads);
  if (!options.json.empty()) {
    ERNE_ASSIGN_OR_RETURN(session->output_, OutputFile::Create("--json", options.json));
  }
  ERNE_ASSIGN_OR_RETURN(BenchModel made, MakeBenchModel(flags, options.model, open));
  const ModelSpec& spec = made.model->spec;
  const int64_t verify = std::min(options.verify, spec.max_positions);
  if (limits.max_context > spec.max_positions) {
    return InvalidArgument(StrCat("a context of ", limits.max_context, " tokens is asked for, and ",
                                  made.name, " was made for ", spec.max_positions, "; erne ",
                                  session->command_,
                                  " --help lists the flags that make it shorter"));
  }
  limits.kv_dtype = made.kv_dtype;
  limits.max_context = std::max(limits.max_context, verify);
  limits.num_blocks = std::max(limits.num_blocks, BlocksForTokens(verify));
  limits.max_rows = std::max(limits.max_rows, (verify + 1) / 2);
  limits.max_logit_rows = std::max(limits.max_logit_rows, (verify + 1) / 2);
  session->model_name_ = made.name;
  session->precision_ = made.model->precision;
  ERNE_ASSIGN_OR_RETURN(session->executor_, MakeCpuExecutor(made.model, limits, made.executor));
  session->executor_->AdoptThread();
  session->files_ = made.files;
  if (made.files != nullptr) session->loading_peak_ = bench::PeakResident();
  session->info_ = session->executor_->info();
  const ExecutorInfo& info = session->info_;
  Print(StrCat(made.name, " (", session->precision_, ") on ", info.name, ": weights ",
               info.weight_type, ", activations ", info.activation_type, ", keys and values ",
               info.kv_type));
  std::shared_ptr<const Model> weights =
      RoundedModel(made.model, made.executor.precision, made.executor.threads);
  session->work_ = std::make_unique<bench::ModelWork>(*weights, made.kv_dtype);
  session->arithmetic_ = bench::ArithmeticRoofOf(*weights);
  ERNE_RETURN_IF_ERROR(session->Verify(made, weights, verify));
  made.model.reset();
  weights.reset();
  ReturnFreeMemory();
  return session;
}

Status BenchSession::Verify(const BenchModel& made, const std::shared_ptr<const Model>& weights,
                            int64_t tokens) {
  ExecutorLimits limits;
  limits.max_rows = limits.max_logit_rows = (tokens + 1) / 2;
  limits.max_sequences = 1;
  limits.max_context = tokens;
  limits.num_blocks = BlocksForTokens(tokens);
  limits.kv_dtype = made.kv_dtype;
  const ModelSpec& spec = made.model->spec;
  const std::vector<int32_t> ids =
      bench::RandomTokens(tokens, spec.vocab_size, static_cast<uint64_t>(seed_));
  const bool routers_tip = spec.has_moe() && info_.activation_type != "f32";
  if (routers_tip) {
    ERNE_RETURN_IF_ERROR(VerifyFirstExperts(made, weights, limits, ids));
  }
  ERNE_ASSIGN_OR_RETURN(const std::unique_ptr<Executor> reference,
                        MakeReferenceExecutor(weights, limits, {}));
  allowed_error_ = bench::ErrorBound(info_, made.kv_dtype, spec);
  ERNE_ASSIGN_OR_RETURN(agreement_, bench::Compare(*reference, *executor_, ids, routers_tip));
  Print(StrCat("verified: ", bench::Describe(agreement_, allowed_error_)));
  return {};
}

// With rounded activations routers tip at some of many layers, and then nothing strict can be said
// of the whole model. So its first layers are verified by themselves: all kernels, and one layer of
// experts, behind which nothing is left for a tipped router to disturb.
Status BenchSession::VerifyFirstExperts(const BenchModel& made,
                                        const std::shared_ptr<const Model>& weights,
                                        const ExecutorLimits& limits,
                                        std::span<const int32_t> tokens) {
  const auto part = bench::UpToFirstExperts(made.model);
  ERNE_ASSIGN_OR_RETURN(const std::unique_ptr<Executor> executor,
                        MakeCpuExecutor(part, limits, made.executor));
  ERNE_ASSIGN_OR_RETURN(const std::unique_ptr<Executor> reference,
                        MakeReferenceExecutor(bench::UpToFirstExperts(weights), limits, {}));
  allowed_first_error_ = bench::ErrorBound(info_, made.kv_dtype, part->spec);
  ERNE_ASSIGN_OR_RETURN(first_experts_, bench::Compare(*reference, *executor, tokens));
  Print(StrCat("verified up to the first layer of experts: ",
               bench::Describe(*first_experts_, allowed_first_error_)));
  return {};
}

Status BenchSession::Time(std::vector<bench::Case> cases, const std::function<More()>& more) {
  const bool reset = bench::ResetPeakResident();
  for (bench::Case& timed : cases) ERNE_RETURN_IF_ERROR(timed.run().status());
  running_peak_ = reset ? bench::PeakResident() : 0;
  ERNE_ASSIGN_OR_RETURN(meter_, bench::RoofMeter::Make(threads_));
  ERNE_RETURN_IF_ERROR(bench::TimeInTurns(cases, static_cast<int>(turns_), *meter_));
  roof_ = meter_->Median();
  const bench::StepRows first = OneToken(1);
  Print(StrCat("roof: ", bench::Describe(roof_, *meter_)));
  Print(StrCat("a token: reads ", FormatFixed(work_->Bytes(first) / 1e6, 1), " MB and ",
               FormatFixed(work_->kv_bytes() / 1e3, 1),
               " KB for each position before it, computes ",
               FormatFixed(work_->Operations(first) / 1e9, 3), " GFLOP"));
  if (running_peak_ > 0) {
    Print(StrCat("memory: ", FormatBytes(running_peak_), " at most while running",
                 loading_peak_ > 0 ? StrCat(", ", FormatBytes(loading_peak_),
                                            " while loading (pages of files "
                                            "among them)")
                                   : std::string()));
  }
  Print(StrCat("medians of ", turns_, " turns:\n"));
  Print(bench::Table(cases, roof_, arithmetic_));
  Json report = Report(cases);
  if (first_experts_) {
    report.Set("verified_first_experts", bench::ToJson(*first_experts_, allowed_first_error_));
  }
  if (more) {
    More added = more();
    Print(added.text);
    report.Set(added.name, std::move(added.json));
  }
  return output_ == nullptr ? Status() : output_->Write(report.Dump() + "\n");
}

Json BenchSession::Report(const std::vector<bench::Case>& cases) const {
  const ExecutorInfo& info = info_;
  const bench::StepRows first = OneToken(1);
  return Json::Of(
      {{"erne", ERNE_VERSION},
       {"command", command_},
       {"model", Json::Of({{"name", model_name_}, {"precision", precision_}, {"seed", seed_}})},
       {"executor", Json::Of({{"name", info.name},
                              {"weights", info.weight_type},
                              {"activations", info.activation_type},
                              {"keys_and_values", info.kv_type},
                              {"weight_bytes", static_cast<int64_t>(info.weight_bytes)},
                              {"kv_bytes", static_cast<int64_t>(info.kv_bytes)},
                              {"workspace_bytes", static_cast<int64_t>(info.workspace_bytes)}})},
       {"verified", bench::ToJson(agreement_, allowed_error_)},
       {"roof", bench::ToJson(roof_, *meter_)},
       {"token", Json::Of({{"bytes", work_->Bytes(first)},
                           {"kv_bytes_per_position", work_->kv_bytes()},
                           {"operations", work_->Operations(first)}})},
       {"peak_memory", Json::Of({{"running_bytes", static_cast<int64_t>(running_peak_)},
                                 {"loading_bytes", static_cast<int64_t>(loading_peak_)}})},
       {"turns", turns_},
       {"results", bench::ToJson(cases, roof_, arithmetic_)}});
}

}  // namespace erne
