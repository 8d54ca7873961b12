#include "cli/make_executor.h"

#include <algorithm>
#include <utility>

#include "base/log.h"
#include "base/machine.h"
#include "base/strings.h"
#include "executor/cpu/cpu_executor.h"
#include "executor/reference/reference_executor.h"

namespace erne {
namespace {

// A few more threads than CPUs are good for tests. Thousands wait for each other in every loop.
constexpr int kThreadsPerCpu = 4;

}  // namespace

const std::vector<std::string>& ExecutorNames() {
  static const std::vector<std::string> names = {"reference", "cpu", "cuda"};
  return names;
}

Flag& AddThreadsFlag(FlagTable& flags, int64_t* target) {
  return flags
      .Add("threads", target, "N",
           {"Threads of the CPU executor; 0: every CPU that erne may use",
            "CPU 后端的线程数；0 表示使用所有可用的 CPU"})
      .Range(0, 4096);
}

Result<std::unique_ptr<Executor>> MakeExecutor(const std::string& name,
                                               std::shared_ptr<const Model> model,
                                               const ExecutorLimits& limits, int threads,
                                               const LoadProgress& progress) {
  if (name == "reference") return MakeReferenceExecutor(std::move(model), limits, progress);
  if (name == "cpu") {
    const int most = kThreadsPerCpu * UsableCpus();
    if (threads > most) {
      ERNE_LOG(kWarning, "threads") << threads << " threads on " << most / kThreadsPerCpu
                                    << " CPUs only take turns; " << most << " are used";
    }
    CpuExecutorOptions options;
    options.threads = std::min(threads, most);
    return MakeCpuExecutor(std::move(model), limits, options, progress);
  }
  if (name == "cuda") {
    return Unimplemented("this build has no CUDA executor; --executor cpu runs everywhere",
                         "--executor");
  }
  return InvalidArgument(
      StrCat("no executor is called '", name, "', there are ", Join(ExecutorNames(), ", ")),
      "--executor");
}

Result<ExecutorInfo> DescribeDefaultExecutor(const Model& model, KvDType kv_dtype, int threads) {
  CpuExecutorOptions options;
  options.threads = threads;
  return DescribeCpuExecutor(model, kv_dtype, options);
}

}  // namespace erne
