#include "cli/inspect.h"

#include <memory>
#include <utility>

#include "base/status.h"
#include "cli/command.h"
#include "cli/flags.h"
#include "cli/kv_cache_dtype.h"
#include "cli/load_served_model.h"
#include "cli/make_executor.h"
#include "cli/model_report.h"
#include "cli/serve_options.h"
#include "model/model.h"

namespace erne {
namespace {

Result<ModelReport> Inspect(ServeOptions options, bool with_tensors) {
  std::string note;
  ERNE_ASSIGN_OR_RETURN(options.executor, ExecutorForDevice(options.device, &note));
  ERNE_ASSIGN_OR_RETURN(const std::shared_ptr<const FileSet> files, OpenModelFiles(options));
  ModelReport report;
  report.name = NamesOf(*files, options).front();
  report.path = files->path();
  ERNE_ASSIGN_OR_RETURN(report.model, LoadModel(files, {.unpack = false}));
  ERNE_RETURN_IF_ERROR(CheckQuantization(*files, options.precision));
  const Precision precision = ToPrecision(options.precision);
  ERNE_ASSIGN_OR_RETURN(
      const KvDType kv_dtype,
      ResolveKvCacheDType(options.kv_cache_dtype, report.model, precision.activation));
  ERNE_ASSIGN_OR_RETURN(report.executor,
                        DescribeExecutor(options.executor, report.model, kv_dtype, precision));
  report.notes = IdlePrecisionFlags(options.precision, report.model, report.executor);
  report.available_bytes = AvailableMemoryOf(options.executor);
  report.utilization = options.memory_utilization;
  report.plan = PlanMemory(report.model, options);
  report.with_tensors = with_tensors;
  // That the memory does not suffice is part of the report; a flag that asks for the impossible is
  // not.
  const StatusCode code = report.plan.status().code();
  if (!report.plan.ok() && code != StatusCode::kResourceExhausted) return report.plan.status();
  return report;
}

}  // namespace

int RunInspect(const std::vector<std::string>& arguments) {
  std::vector<std::string> model;
  ServeOptions options;
  bool json = false;
  bool tensors = false;
  FlagTable flags(
      "erne inspect [MODEL] [flags]",
      {"Tells what a model is made of, how it is stored, and how much memory erne serve "
       "would take for it on this machine. Reads headers alone. Without MODEL it looks "
       "at the embedded erne-mini.",
       "说明模型的结构、存储精度，以及 erne serve 在本机运行它需要的内存。只读取文件头。"
       "不给 MODEL 时查看内置的 erne-mini。"});
  flags.Positional(&model, 1);
  flags.Add("tensors", &tensors,
            {"Lists every tensor with type, shape and size", "列出每个张量的类型、形状和大小"});
  flags.Add("json", &json, {"Prints one JSON object", "输出一个 JSON 对象"});
  AddMemoryFlags(flags, options);
  AddPrecisionFlags(flags, &options.precision);
  const Language language = UserLanguage();
  if (const std::optional<int> end = ParseOrEnd("inspect", flags, arguments)) return *end;
  if (const auto dtype = ParseKvCacheDType(options.kv_cache_dtype); !dtype.ok()) {
    return Fail("inspect", dtype.status(), 2);
  }
  if (!model.empty()) options.model = model[0];
  const Result<ModelReport> report = Inspect(options, tensors);
  if (!report.ok()) return Fail("inspect", report.status(), 1);
  const std::string text = json ? ReportJson(*report).Dump() + "\n" : ReportText(*report, language);
  return PrintAndEnd("inspect", text, 0);
}

}  // namespace erne
