#include "cli/make_executor.h"

#include <algorithm>
#include <utility>

#include "base/json.h"
#include "base/log.h"
#include "base/machine.h"
#include "base/strings.h"
#include "executor/cpu/cpu_executor.h"
#include "executor/cuda/cuda_executor.h"
#include "executor/reference/reference_executor.h"

namespace erne {
namespace {

// A few more threads than CPUs are good for tests. Thousands wait for each other in every loop.
constexpr int kThreadsPerCpu = 4;

Status CheckCudaPrecision(const Precision& precision) {
  if (precision.quantization != Quantization::kNone || precision.head != Quantization::kNone) {
    return Unimplemented(
        "the CUDA executor takes weights as they are stored and rounds none while loading; leave "
        "--quantization int8|int4 and --head-dtype out, or compute with --device cpu",
        "--device");
  }
  if (precision.activation != ActivationDType::kAuto) {
    return Unimplemented(
        "the types of the CUDA executor's activations follow from the weights; leave "
        "--activation-dtype out, or compute with --device cpu",
        "--device");
  }
  return {};
}

// The format that config.json says the weights have: "awq", "gptq", ..., "none".
std::string StoredFormat(const FileSet& files) {
  const Result<std::string_view> text = files.Text("config.json");
  if (!text.ok()) return "none";
  const Result<Json> config = Json::Parse(*text);
  if (!config.ok()) return "none";
  const Json* quantization = config->Find("quantization_config");
  const Json* method = quantization == nullptr ? nullptr : quantization->Find("quant_method");
  return method != nullptr && method->is_string() ? ToLowerAscii(method->AsString()) : "none";
}

}  // namespace

const std::vector<std::string>& ExecutorNames() {
  static const std::vector<std::string> names = {"reference", "cpu", "cuda"};
  return names;
}

void AddThreadFlags(FlagTable& flags, ThreadFlags* target) {
  flags
      .Add("threads", &target->threads, "N",
           {"Threads of the CPU executor; 0: every CPU that erne may use",
            "CPU 后端的线程数；0 表示使用所有可用的 CPU"})
      .Range(0, 4096);
  flags.Add(
      "pin-threads", &target->pin,
      {"Binds each of them to a CPU of its own, of those that erne may use (taskset chooses): "
       "for machines that do nothing else",
       "把每个线程绑定到一个可用的 CPU（可用 taskset 选择）：适合专用的机器"});
}

void AddPrecisionFlags(FlagTable& flags, PrecisionFlags* target) {
  flags
      .Add("activation-dtype", &target->activation_dtype, "TYPE",
           {"Type of activations in matrix products: bf16 for bf16 weights, int8 for int8 and int4 "
            "weights; auto: these where the CPU is made for them, else f32",
            "矩阵乘法中激活值的类型：bf16 用于 bf16 权重，int8 用于 int8 与 int4 权重；auto：CPU "
            "支持时使用，否则为 f32"})
      .Choices({"auto", "f32", "bf16", "int8"});
  flags
      .Add("quantization", &target->quantization, "FORMAT",
           {"int8, int4: round float weights to integers while loading, to half and to less than a "
            "third of the memory of bf16. awq, gptq, none: what the checkpoint must hold",
            "int8、int4：加载时把浮点权重量化为整数，内存分别为 bf16 "
            "的一半和不到三分之一。awq、gptq、"
            "none：检查点应有的格式，不符则拒绝启动"})
      .Alias("-q")
      .Choices({"awq", "gptq", "none", "int8", "int4"});
  flags
      .Add("head-dtype", &target->head_dtype, "TYPE",
           {"The same for the output layer (and a tied embedding); auto: as --quantization says",
            "同上，仅用于输出层（及与之共享的词嵌入）；auto：与 --quantization 相同"})
      .Choices({"auto", "int8", "int4"});
}

Status CheckQuantization(const FileSet& files, const PrecisionFlags& flags) {
  const std::string& wanted = flags.quantization;
  if (wanted.empty()) return {};
  const std::string stored = StoredFormat(files);
  const bool rounds = ParseQuantization(wanted) != Quantization::kNone;
  if (stored == (rounds ? "none" : wanted)) return {};
  return InvalidArgument(
      StrCat("--quantization ", wanted, ": the weights in ", files.path(), " are ",
             stored == "none" ? "not quantised" : StrCat("in the format ", stored),
             "; leave the flag out to take them as they are"),
      "--quantization");
}

Precision ToPrecision(const PrecisionFlags& flags) {
  Precision precision;
  precision.activation = ParseActivationDType(flags.activation_dtype).value();
  precision.quantization = ParseQuantization(flags.quantization);
  precision.head = ParseQuantization(flags.head_dtype);
  return precision;
}

Result<std::unique_ptr<Executor>> MakeExecutor(const std::string& name,
                                               std::shared_ptr<const Model> model,
                                               const ExecutorLimits& limits,
                                               const ExecutorSettings& settings,
                                               const LoadProgress& progress) {
  if (name == "reference") {
    const Precision& precision = settings.precision;
    if (precision.quantization != Quantization::kNone || precision.head != Quantization::kNone ||
        precision.activation == ActivationDType::kBF16 ||
        precision.activation == ActivationDType::kInt8) {
      return InvalidArgument("the reference executor rounds neither weights nor activations",
                             "--executor");
    }
    return MakeReferenceExecutor(std::move(model), limits, progress);
  }
  if (name == "cpu") {
    const int most = kThreadsPerCpu * UsableCpus();
    if (settings.threads > most) {
      ERNE_LOG(kWarning, "threads") << settings.threads << " threads on " << most / kThreadsPerCpu
                                    << " CPUs only take turns; " << most << " are used";
    }
    CpuExecutorOptions options;
    options.threads = std::min(settings.threads, most);
    options.pin_threads = settings.pin_threads;
    options.precision = settings.precision;
    return MakeCpuExecutor(std::move(model), limits, options, progress);
  }
  if (name == "cuda") {
    ERNE_RETURN_IF_ERROR(CheckCudaPrecision(settings.precision));
    return MakeCudaExecutor(std::move(model), limits, progress);
  }
  return InvalidArgument(
      StrCat("no executor is called '", name, "', there are ", Join(ExecutorNames(), ", ")),
      "--executor");
}

Result<std::string> ExecutorForDevice(const std::string& device, std::string* note) {
  note->clear();
  if (device == "cpu") return std::string("cpu");
  const Result<CudaDevice> found = FindCudaDevice();
  if (found.ok()) return std::string("cuda");
  if (device == "cuda") {
    return Status(found.status().code(), StrCat("--device cuda: ", found.status().message()),
                  "--device");
  }
  if (found.status().code() == StatusCode::kUnavailable) {
    *note = StrCat("the CPU computes: ", found.status().message());
  }
  return std::string("cpu");
}

uint64_t AvailableMemoryOf(const std::string& name) {
  if (name != "cuda") return AvailableMemory();
  const Result<CudaDevice> device = FindCudaDevice();
  return device.ok() ? device->free_bytes : 0;
}

Status AddExecutorNeeds(const std::string& name, const Model& model, MemoryNeeds& needs) {
  if (name != "cuda") return {};
  ERNE_ASSIGN_OR_RETURN(needs.weight_bytes, CudaWeightBytes(model));
  needs.block_bytes = CudaBlockBytes(model.spec, needs.kv_dtype);
  needs.workspace_bytes = [spec = model.spec,
                           sequences = needs.max_num_seqs](const MemoryPlan& plan) {
    ExecutorLimits limits;
    limits.max_rows = plan.max_rows;
    limits.max_logit_rows = plan.max_logit_rows;
    limits.max_sequences = sequences;
    limits.max_context = plan.max_context;
    limits.num_blocks = plan.num_blocks;
    limits.kv_dtype = plan.kv_dtype;
    return CudaWorkspaceBytes(spec, limits);
  };
  return {};
}

Result<ExecutorInfo> DescribeExecutor(const std::string& name, const Model& model, KvDType kv_dtype,
                                      const Precision& precision) {
  if (name == "cuda") {
    ERNE_RETURN_IF_ERROR(CheckCudaPrecision(precision));
    return DescribeCudaExecutor(model, kv_dtype);
  }
  CpuExecutorOptions options;
  options.precision = precision;
  return DescribeCpuExecutor(model, kv_dtype, options);
}

std::vector<std::string> IdlePrecisionFlags(const PrecisionFlags& flags, const Model& model,
                                            const ExecutorInfo& info) {
  std::vector<std::string> idle;
  const std::string& type = flags.activation_dtype;
  if ((type == "bf16" || type == "int8") && info.activation_type.find(type) == std::string::npos) {
    idle.push_back(StrCat(
        "--activation-dtype ", type, " changes nothing: activations of that type are for ",
        type == "bf16" ? "bf16" : "int8 and int4", " weights, and these are ", info.weight_type));
  }
  const LinearWeights& head = model.weights.head;
  if (flags.head_dtype != "auto" && head.present() &&
      !std::holds_alternative<TensorView>(head.matrix)) {
    idle.push_back(StrCat("--head-dtype ", flags.head_dtype,
                          " changes nothing: the output layer is stored in integers already"));
  }
  return idle;
}

}  // namespace erne
