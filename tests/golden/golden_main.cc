// erne_golden: judges an executor by the committed expected values of model folders. A plain
// program without test framework, so that it runs on any machine that the core builds on.
//
//   erne_golden --executor cpu tests/data/reference-models/* models/erne-mini
//
// A folder has expected.json (see expected.h) or expected_greedy.json. Exit code: 0 all passed, 1
// something failed, 2 wrong command line, 77 the CPU lacks what --isa asks for, or there is no GPU
// for --executor cuda (CTest reports that as skipped).
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/file_set.h"
#include "base/strings.h"
#include "checks.h"
#include "cli/flags.h"
#include "cli/kv_cache_dtype.h"
#include "cli/make_executor.h"
#include "executor/cuda/cuda_executor.h"
#include "expected.h"
#include "kv/block_pool.h"
#include "model/model.h"
#include "runner.h"

namespace erne::golden {
namespace {

constexpr int kSkipped = 77;
// cut-beside runs five sequences at once.
constexpr int64_t kSequences = 5;

struct Options {
  std::vector<std::string> folders;
  std::string executor = "reference";
  int64_t threads = 0;
  std::string isa;
  std::string kv_dtype = "f32";
  PrecisionFlags precision{.activation_dtype = "f32", .quantization = "", .head_dtype = "auto"};
  std::string perturb = "none";
};

const std::vector<std::pair<std::string, Perturbation>> kPerturbations = {
    {"none", Perturbation::kNone},
    {"logits", Perturbation::kLogits},
    {"greedy", Perturbation::kGreedy},
    {"experts", Perturbation::kExperts},
    {"batch", Perturbation::kBatch}};

std::string BaseName(const std::string& path) {
  const size_t end = path.find_last_not_of('/');
  const size_t slash = path.find_last_of('/', end);
  return path.substr(slash + 1, end - slash);
}

ExecutorLimits LimitsFor(int64_t longest, KvDType kv_dtype) {
  ExecutorLimits limits;
  limits.max_rows = limits.max_logit_rows = kSequences * longest;
  limits.max_sequences = kSequences;
  limits.max_context = longest;
  limits.num_blocks = kSequences * BlocksForTokens(longest);
  limits.kv_dtype = kv_dtype;
  return limits;
}

Result<std::unique_ptr<Executor>> MakePerturbed(const Options& options,
                                                std::shared_ptr<const Model> model, int64_t longest,
                                                int threads) {
  ERNE_ASSIGN_OR_RETURN(const KvDType kv_dtype,
                        ResolveKvCacheDType(options.kv_dtype, *model, ActivationDType::kF32));
  ERNE_ASSIGN_OR_RETURN(
      std::unique_ptr<Executor> executor,
      MakeExecutor(options.executor, std::move(model), LimitsFor(longest, kv_dtype),
                   {.threads = threads, .precision = ToPrecision(options.precision)}));
  for (const auto& [name, perturbation] : kPerturbations) {
    if (name == options.perturb) return Perturb(std::move(executor), perturbation);
  }
  return executor;
}

// What `executor` is compared with where it rounds keys and values or activations; null where it
// does not. The CUDA executor rounds as the weights are stored; the reference never does.
Result<std::unique_ptr<Executor>> MakeExact(const Options& options, const Executor& executor,
                                            std::shared_ptr<const Model> model) {
  const bool is_cuda = options.executor == "cuda";
  const bool is_exact = is_cuda ? executor.info().activation_type == "f32"
                                : options.precision.activation_dtype == "f32";
  if (executor.limits().kv_dtype == KvDType::kF32 && is_exact) return std::unique_ptr<Executor>();
  ExecutorLimits limits = executor.limits();
  limits.kv_dtype = KvDType::kF32;
  ExecutorSettings settings;
  settings.threads = static_cast<int>(options.threads);
  settings.precision.activation = ActivationDType::kF32;
  return MakeExecutor(is_cuda ? "reference" : options.executor, std::move(model), limits, settings);
}

Status CheckReferenceModel(const Options& options, const FileSet& files, Model model,
                           Report& report) {
  ERNE_ASSIGN_OR_RETURN(const Expected expected, ReadExpected(files));
  // This model was cast with model.to(bfloat16) before its float32 run, buffers and all.
  model.spec.attention.rope.bf16_frequencies = expected.dtype == "torch.bfloat16";
  const auto shared = std::make_shared<const Model>(std::move(model));
  const auto longest = static_cast<int64_t>(expected.prompt.size() + expected.greedy.size());
  const int threads = static_cast<int>(options.threads);
  ERNE_ASSIGN_OR_RETURN(const std::unique_ptr<Executor> executor,
                        MakePerturbed(options, shared, longest, threads));
  ERNE_ASSIGN_OR_RETURN(const std::unique_ptr<Executor> exact,
                        MakeExact(options, *executor, shared));
  CheckExpected(*executor, exact.get(), *shared, expected, report);
  if (!expected.routers.empty()) CheckRoutingRule(*shared, expected, report);
  CheckCuts(*executor, expected.prompt, report);
  if (options.executor == "cpu") {
    // Three threads share no work evenly.
    ERNE_ASSIGN_OR_RETURN(const std::unique_ptr<Executor> one,
                          MakePerturbed(options, shared, longest, 1));
    ERNE_ASSIGN_OR_RETURN(const std::unique_ptr<Executor> three,
                          MakePerturbed(options, shared, longest, 3));
    CheckSame(*one, *three, expected.prompt, "threads", report);
  }
  return {};
}

Status CheckGreedyModel(const Options& options, const FileSet& files, Model model, Report& report) {
  ERNE_ASSIGN_OR_RETURN(const std::vector<ExpectedGreedy> cases, ReadExpectedGreedy(files));
  size_t longest = 0;
  for (const ExpectedGreedy& item : cases) {
    longest = std::max(longest, item.prompt.size() + item.ids.size());
  }
  const auto shared = std::make_shared<const Model>(std::move(model));
  ERNE_ASSIGN_OR_RETURN(const std::unique_ptr<Executor> executor,
                        MakePerturbed(options, shared, static_cast<int64_t>(longest),
                                      static_cast<int>(options.threads)));
  ERNE_ASSIGN_OR_RETURN(const std::unique_ptr<Executor> exact,
                        MakeExact(options, *executor, shared));
  for (size_t i = 0; i < cases.size(); ++i) {
    CheckGreedyCase(*executor, exact.get(), cases[i], StrCat("greedy-", i), report);
  }
  CheckCuts(*executor, cases[0].prompt, report);
  return {};
}

Status CheckFolder(const Options& options, const std::string& folder, Report& report) {
  ERNE_ASSIGN_OR_RETURN(const std::shared_ptr<const FileSet> files, OpenFolder(folder));
  ERNE_ASSIGN_OR_RETURN(Model model, LoadModel(files, {.unpack = options.executor != "cpu"}));
  if (files->Has("expected.json")) {
    return CheckReferenceModel(options, *files, std::move(model), report);
  }
  if (files->Has("expected_greedy.json")) {
    return CheckGreedyModel(options, *files, std::move(model), report);
  }
  return NotFound(StrCat(folder, " has neither expected.json nor expected_greedy.json"));
}

int Run(const Options& options) {
  if (options.executor == "cuda") {
    if (const auto device = FindCudaDevice(); !device.ok()) {
      std::printf("SKIP cuda: %s\n", device.status().message().c_str());
      return kSkipped;
    }
  }
  int checks = 0;
  int failures = 0;
  for (const std::string& folder : options.folders) {
    Report report(BaseName(folder));
    const Status status = CheckFolder(options, folder, report);
    if (status.code() == StatusCode::kInvalidArgument && !options.isa.empty() &&
        options.isa != "scalar" && report.checks() == 0) {
      std::printf("SKIP %s: %s\n", options.isa.c_str(), status.message().c_str());
      return kSkipped;
    }
    if (!status.ok()) report.Line(false, "run", status.message());
    checks += report.checks();
    failures += report.failures();
  }
  std::printf("%d checks, %d failed\n", checks, failures);
  return failures == 0 && checks > 0 ? 0 : 1;
}

int Main(const std::vector<std::string>& arguments) {
  Options options;
  std::vector<std::string> perturbations;
  for (const auto& [name, perturbation] : kPerturbations) perturbations.push_back(name);
  FlagTable flags("erne_golden [flags] FOLDER...",
                  {"Judges an executor by the expected values in model folders.",
                   "用模型目录中的期望值检验计算后端。"});
  flags.Positional(&options.folders, 1000);
  flags.Add("executor", &options.executor, "NAME", {"Executor to judge", "要检验的计算后端"})
      .Choices(ExecutorNames());
  flags.Add("threads", &options.threads, "N", {"Its threads; 0: all", "线程数；0 表示全部"})
      .Range(0, 4096);
  flags.Add("isa", &options.isa, "NAME", {"Instruction set of the CPU executor", "CPU 指令集"})
      .Choices({"scalar", "avx2", "avx512", "avx512_vnni", "avx512_bf16", "amx"});
  flags
      .Add("activation-dtype", &options.precision.activation_dtype, "TYPE",
           {"Type of activations in products", "矩阵乘法中激活值的类型"})
      .Choices({"f32", "bf16", "int8"});
  flags
      .Add("kv-dtype", &options.kv_dtype, "TYPE",
           {"Type of the keys and values in its cache", "KV 缓存的数据类型"})
      .Choices({"f32", "bf16", "f16", "int8"});
  flags
      .Add("perturb", &options.perturb, "KIND",
           {"Break the results, to see the checks fail", "故意改动结果，以确认检验会失败"})
      .Choices(perturbations);
  const Status status = flags.Parse(arguments);
  if (flags.help_requested()) {
    std::fputs(flags.Help(UserLanguage()).c_str(), stdout);
    return 0;
  }
  if (!status.ok() || options.folders.empty()) {
    std::fprintf(stderr, "erne_golden: %s\n",
                 status.ok() ? "name model folders" : status.message().c_str());
    return 2;
  }
  if (options.executor == "cuda" && !flags.Given("activation-dtype")) {
    options.precision.activation_dtype = "auto";
  }
  if (!options.isa.empty()) ::setenv("ERNE_CPU_ISA", options.isa.c_str(), 1);
  return Run(options);
}

}  // namespace
}  // namespace erne::golden

int main(int argc, char** argv) { return erne::golden::Main({argv + 1, argv + argc}); }
