#include "cli/bench_model.h"

#include <utility>

#include "base/strings.h"
#include "bench/shapes.h"
#include "cli/kv_cache_dtype.h"
#include "cli/make_executor.h"

namespace erne {
namespace {

struct FormName {
  const char* name;
  bench::WeightForm form;
  Quantization quantization = Quantization::kNone;  // while loading
};
constexpr FormName kForms[] = {{"f32", bench::WeightForm::kF32},
                               {"f16", bench::WeightForm::kF16},
                               {"bf16", bench::WeightForm::kBF16},
                               {"int8", bench::WeightForm::kBF16, Quantization::kInt8},
                               {"int4", bench::WeightForm::kBF16, Quantization::kInt4},
                               {"awq", bench::WeightForm::kAwq}};

std::vector<std::string> FormNames() {
  std::vector<std::string> names;
  for (const FormName& form : kForms) names.emplace_back(form.name);
  return names;
}

// Not ok: a flag of random weights beside a model that has its own.
Status CheckNoRandomFlags(const FlagTable& flags) {
  for (const char* flag : {"shape", "dtype"}) {
    if (flags.Given(flag)) {
      return InvalidArgument(
          StrCat("--", flag, " is for random weights, and a model is named that has its own"),
          StrCat("--", flag));
    }
  }
  return {};
}

Status LoadFiles(const std::string& name, const PrecisionFlags& precision, const OpenModel& open,
                 BenchModel& made) {
  ERNE_ASSIGN_OR_RETURN(const std::shared_ptr<const FileSet> files, open(name));
  ERNE_RETURN_IF_ERROR(CheckQuantization(*files, precision));
  ERNE_ASSIGN_OR_RETURN(Model model, LoadModel(files));
  made.name = files->path();
  made.files = files;
  made.model = std::make_shared<const Model>(std::move(model));
  return {};
}

Status DrawWeights(const FlagTable& flags, const BenchModelOptions& options, BenchModel& made) {
  const std::string shape = options.shape.empty() ? bench::ShapeNames()[0] : options.shape;
  ERNE_ASSIGN_OR_RETURN(const ModelSpec spec, bench::SpecOfShape(shape));
  FormName form = kForms[0];
  for (const FormName& known : kForms) {
    if (options.dtype == known.name) form = known;
  }
  if (form.quantization != Quantization::kNone) {
    if (flags.Given("quantization")) {
      return InvalidArgument(
          StrCat("--dtype ", form.name, " rounds the weights already; --dtype bf16 leaves that to ",
                 "--quantization"),
          "--quantization");
    }
    made.executor.precision.quantization = form.quantization;
  }
  made.name = StrCat(shape, ", random weights");
  ERNE_ASSIGN_OR_RETURN(made.model,
                        bench::MakeRandomModel(spec, form.form, static_cast<uint64_t>(options.seed),
                                               made.executor.threads));
  return {};
}

}  // namespace

void AddBenchModelFlags(FlagTable& flags, BenchModelOptions& options) {
  flags.Positional(&options.model, 1);
  flags
      .Add("shape", &options.shape, "NAME[:LAYERS]",
           {StrCat("Random weights of this shape, or of its first layers, when no model is named: ",
                   Join(bench::ShapeNames(), ", ")),
            StrCat("不指定模型时，使用这种结构（或其前若干层）的随机权重：",
                   Join(bench::ShapeNames(), "、"))})
      .DefaultText(bench::ShapeNames()[0]);
  flags
      .Add(
          "dtype", &options.dtype, "TYPE",
          {"Type of random weights; int8, int4: bf16 that is rounded while loading; awq: 4 bits in "
           "groups of 128 with an f16 head, as downloaded",
           "随机权重的类型；int8、int4：加载时由 bf16 量化；awq：每 128 个一组的 4 位权重，"
           "输出层为 f16，与常见的下载模型相同"})
      .Choices(FormNames());
  flags.Add("seed", &options.seed, "N", {"Of random weights and tokens", "随机权重与 token 的种子"})
      .Range(0, 1e15);
  AddThreadFlags(flags, &options.threads);
  flags.Add("isa", &options.isa, "NAME",
            {"Instruction set of the CPU executor: scalar, avx2, avx512, ...; the best of this CPU "
             "unless it is named",
             "CPU 后端的指令集：scalar、avx2、avx512 等；不指定则使用本机最好的"});
  AddKvCacheDTypeFlag(flags, &options.kv_cache_dtype);
  AddPrecisionFlags(flags, &options.precision);
}

Result<BenchModel> MakeBenchModel(const FlagTable& flags, const BenchModelOptions& options,
                                  const OpenModel& open) {
  BenchModel made;
  made.executor.threads = static_cast<int>(options.threads.threads);
  made.executor.pin_threads = options.threads.pin;
  made.executor.isa = options.isa;
  made.executor.precision = ToPrecision(options.precision);
  if (options.model.empty()) {
    ERNE_RETURN_IF_ERROR(DrawWeights(flags, options, made));
  } else {
    ERNE_RETURN_IF_ERROR(CheckNoRandomFlags(flags));
    ERNE_RETURN_IF_ERROR(LoadFiles(options.model[0], options.precision, open, made));
  }
  ERNE_ASSIGN_OR_RETURN(made.kv_dtype, ResolveKvCacheDType(options.kv_cache_dtype, *made.model,
                                                           made.executor.precision.activation));
  return made;
}

}  // namespace erne
