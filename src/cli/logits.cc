#include "cli/logits.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <map>
#include <memory>
#include <span>
#include <utility>

#include "base/file_set.h"
#include "base/status.h"
#include "base/strings.h"
#include "cli/command.h"
#include "cli/flags.h"
#include "cli/kv_cache_dtype.h"
#include "cli/make_executor.h"
#include "cli/read_input.h"
#include "cli/token_ids.h"
#include "executor/executor.h"
#include "kv/block_pool.h"
#include "model/model.h"
#include "sampling/sampler.h"

namespace erne {
namespace {

// Rows in one batch: the result of a row does not depend on it, the memory of the workspace does.
constexpr int64_t kMaxRows = 128;
// An --ids-file larger than this is no list of token ids of one prompt.
constexpr size_t kMaxIdsBytes = size_t{16} << 20;

struct LogitsOptions {
  std::vector<std::string> model;
  std::string ids;
  std::string ids_file;
  int64_t greedy = 0;
  std::string executor = "cpu";
  ThreadFlags threads;
  std::string kv_cache_dtype = "f32";
  PrecisionFlags precision{.activation_dtype = "f32", .quantization = "", .head_dtype = "auto"};
};

struct LogitsResult {
  int64_t vocab = 0;
  std::vector<float> logits;        // [prompt, vocab]
  std::vector<int32_t> greedy_ids;  // [at most options.greedy]
  int64_t top_k = 0;
  std::map<int64_t, std::vector<int32_t>> experts;  // layer -> [prompt, top_k]
};

// Keeps the experts of the rows that were just run.
void AppendExperts(const RoutingTrace& trace, LogitsResult& result) {
  for (const RoutingTrace::Layer& layer : trace.layers) {
    std::vector<int32_t>& ids = result.experts[layer.layer];
    ids.insert(ids.end(), layer.ids.begin(), layer.ids.end());
  }
}

Result<LogitsResult> Compute(Executor& executor, const std::vector<int32_t>& prompt,
                             int64_t max_greedy) {
  LogitsResult result;
  result.vocab = executor.spec().vocab_size;
  result.top_k = executor.spec().moe.routing.top_k;
  const auto prompt_size = static_cast<int64_t>(prompt.size());
  BlockPool pool(executor.limits().num_blocks);
  std::vector<BlockId> blocks(static_cast<size_t>(BlocksForTokens(prompt_size + max_greedy)));
  for (BlockId& block : blocks) block = pool.Take();

  RoutingTrace trace;
  executor.SetRoutingTrace(&trace);
  result.logits.reserve(prompt.size() * static_cast<size_t>(result.vocab));
  for (int64_t start = 0; start < prompt_size; start += kMaxRows) {
    const auto count = static_cast<size_t>(std::min(kMaxRows, prompt_size - start));
    const std::span<const int32_t> tokens(prompt.data() + start, count);
    ERNE_ASSIGN_OR_RETURN(const std::span<const float> rows,
                          executor.Run({{start, tokens, blocks, SequenceRows::Logits::kAll}}));
    result.logits.insert(result.logits.end(), rows.begin(), rows.end());
    AppendExperts(trace, result);
  }
  executor.SetRoutingTrace(nullptr);

  std::span<const float> last(result.logits.end() - result.vocab, result.logits.end());
  for (int64_t i = 0; i < max_greedy; ++i) {
    const int32_t token = ArgMax(last);
    if (token >= result.vocab) {
      return Internal(StrCat("no logit of position ", prompt_size + i - 1,
                             " is a number: the weights or their products are broken"));
    }
    result.greedy_ids.push_back(token);
    if (i + 1 == max_greedy) break;
    ERNE_ASSIGN_OR_RETURN(
        last, executor.Run({{prompt_size + i, {&token, 1}, blocks, SequenceRows::Logits::kLast}}));
  }
  return result;
}

Result<LogitsResult> RunModel(const LogitsOptions& options) {
  ERNE_ASSIGN_OR_RETURN(const std::shared_ptr<const FileSet> files, OpenFolder(options.model[0]));
  ERNE_RETURN_IF_ERROR(CheckQuantization(*files, options.precision));
  ERNE_ASSIGN_OR_RETURN(Model loaded, LoadModel(files));
  const auto model = std::make_shared<const Model>(std::move(loaded));
  const std::string flag = options.ids_file.empty() ? "--ids" : "--ids-file";
  std::string text = options.ids;
  if (!options.ids_file.empty()) {
    ERNE_ASSIGN_OR_RETURN(text, ReadInput(flag, options.ids_file, kMaxIdsBytes));
  }
  ERNE_ASSIGN_OR_RETURN(const std::vector<int32_t> prompt,
                        ParseTokenIds(flag, text, model->spec.vocab_size));
  const auto prompt_size = static_cast<int64_t>(prompt.size());
  const int64_t context = model->spec.max_positions;
  if (prompt_size > context) {
    return InvalidArgument(
        StrCat(flag, ": ", prompt_size, " token ids, the model's context is ", context), flag);
  }
  const int64_t greedy = std::min(options.greedy, context - prompt_size);
  ExecutorLimits limits;
  limits.max_rows = std::min(prompt_size, kMaxRows);
  limits.max_logit_rows = limits.max_rows;
  limits.max_sequences = 1;
  limits.max_context = prompt_size + greedy;
  limits.num_blocks = BlocksForTokens(limits.max_context);
  ERNE_ASSIGN_OR_RETURN(limits.kv_dtype,
                        ResolveKvCacheDType(options.kv_cache_dtype, *model,
                                            ToPrecision(options.precision).activation));
  ERNE_ASSIGN_OR_RETURN(const std::unique_ptr<Executor> executor,
                        MakeExecutor(options.executor, model, limits,
                                     {static_cast<int>(options.threads.threads),
                                      options.threads.pin, ToPrecision(options.precision)}));
  return Compute(*executor, prompt, greedy);
}

void AppendNumber(int32_t value, std::string& out) { out += std::to_string(value); }

// The shortest digits that read back as this value, as double and so as float32 too.
void AppendNumber(float value, std::string& out) {
  if (!std::isfinite(value)) {
    out += "null";
    return;
  }
  char digits[32];
  const auto end = std::to_chars(digits, digits + sizeof(digits), static_cast<double>(value)).ptr;
  out.append(digits, end);
}

template <typename T>
void AppendArray(std::span<const T> values, std::string& out) {
  out += '[';
  for (size_t i = 0; i < values.size(); ++i) {
    if (i > 0) out += ',';
    AppendNumber(values[i], out);
  }
  out += ']';
}

// [[...], ...], rows of `width`, written out row by row: the whole text of a long prompt is large.
template <typename T>
void PrintRows(const std::vector<T>& values, int64_t width, std::FILE* file) {
  std::string text = "[";
  for (size_t begin = 0; begin < values.size(); begin += static_cast<size_t>(width)) {
    if (begin > 0) text += ",\n";
    AppendArray(std::span<const T>(values).subspan(begin, static_cast<size_t>(width)), text);
    std::fwrite(text.data(), 1, text.size(), file);
    text.clear();
  }
  std::fputs((text + "]").c_str(), file);
}

// False when `file` took not all of it.
bool Print(const LogitsResult& result, std::FILE* file) {
  std::fputs("{\"logits\":", file);
  PrintRows(result.logits, result.vocab, file);
  std::fprintf(file, ",\n\"greedy_ids\":%s,\n\"experts\":{",
               FormatTokenIds(result.greedy_ids).c_str());
  const char* separator = "";
  for (const auto& [layer, experts] : result.experts) {
    std::fprintf(file, "%s\"%lld\":", separator, static_cast<long long>(layer));
    PrintRows(experts, result.top_k, file);
    separator = ",\n";
  }
  std::fputs("}}\n", file);
  return std::fflush(file) == 0 && std::ferror(file) == 0;
}

}  // namespace

int RunLogits(const std::vector<std::string>& arguments) {
  LogitsOptions options;
  FlagTable flags("erne logits MODEL --ids 5,6,7 [flags]",
                  {"Prints the model's logits for token ids, as one JSON object: logits of every "
                   "position, greedy_ids, and the experts chosen in each MoE layer. Needs no "
                   "tokenizer.",
                   "以一个 JSON 对象打印模型对给定 token id 的 logits：每个位置的 logits、"
                   "greedy_ids，以及每个 MoE 层选中的专家。不需要分词器。"});
  flags.Positional(&options.model, 1);
  flags.Add("ids", &options.ids, "IDS",
            {"Token ids of the prompt, separated by commas", "提示的 token id，用逗号分隔"});
  flags.Add("ids-file", &options.ids_file, "FILE",
            {"File with the token ids instead, separated by commas or white space",
             "改从文件读取 token id，用逗号或空白分隔"});
  flags
      .Add("greedy", &options.greedy, "N",
           {"Continue with the N most probable tokens; does not stop at an end-of-text token, only "
            "where the context is full",
            "贪心续写 N 个 token；遇到结束符不停止，仅在上下文已满时停止"})
      .Range(0, 1e9);
  flags.Add("executor", &options.executor, "NAME", {"What computes", "计算后端"})
      .Choices(ExecutorNames());
  AddThreadFlags(flags, &options.threads);
  AddPrecisionFlags(flags, &options.precision);
  AddKvCacheDTypeFlag(flags, &options.kv_cache_dtype);
  if (const std::optional<int> end = ParseOrEnd("logits", flags, arguments)) return *end;
  if (options.executor == "cuda" && !flags.Given("activation-dtype")) {
    options.precision.activation_dtype = "auto";  // it has no choice
  }
  if (const auto dtype = ParseKvCacheDType(options.kv_cache_dtype); !dtype.ok()) {
    return Fail("logits", dtype.status(), 2);
  }
  if (options.model.empty()) {
    return Fail("logits", InvalidArgument("name the folder of a model"), 2);
  }
  if (flags.Given("ids") == flags.Given("ids-file")) {
    return Fail("logits", InvalidArgument("give the prompt with either --ids or --ids-file"), 2);
  }
  const Result<LogitsResult> result = RunModel(options);
  if (!result.ok()) return Fail("logits", result.status(), 1);
  if (!Print(*result, stdout)) {
    return Fail("logits", Internal("cannot write to standard output"), 1);
  }
  return 0;
}

}  // namespace erne
