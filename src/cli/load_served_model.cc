#include "cli/load_served_model.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <system_error>
#include <utility>

#include "api/model_observer.h"
#include "base/log.h"
#include "base/machine.h"
#include "base/strings.h"
#include "base/utf8.h"
#include "cli/kv_cache_dtype.h"
#include "cli/make_executor.h"
#include "cli/memory_plan.h"
#include "cli/model_files.h"
#include "cli/read_input.h"
#include "engine/engine.h"
#include "kv/block_pool.h"
#include "model/model.h"
#include "text/tokenizer.h"

namespace erne {
namespace {

namespace fs = std::filesystem;

constexpr const char* kTemplateFile = "chat_template.jinja";
constexpr size_t kMaxTemplateBytes = 1 << 20;

// A model's files with another chat template.
class FilesWithTemplate : public FileSet {
 public:
  FilesWithTemplate(std::shared_ptr<const FileSet> files, std::string template_path,
                    std::string text)
      : files_(std::move(files)),
        template_path_(std::move(template_path)),
        text_(std::move(text)) {}

  const std::string& path() const override { return files_->path(); }
  std::string PathOf(std::string_view name) const override {
    return name == kTemplateFile ? template_path_ : files_->PathOf(name);
  }
  bool Has(std::string_view name) const override {
    return name == kTemplateFile || files_->Has(name);
  }
  Result<std::span<const std::byte>> Map(std::string_view name) const override {
    if (name == kTemplateFile) return std::as_bytes(std::span(text_));
    return files_->Map(name);
  }
  Status CheckUnchanged() const override { return files_->CheckUnchanged(); }
  void ReleasePages() const override { files_->ReleasePages(); }

 private:
  const std::shared_ptr<const FileSet> files_;
  const std::string template_path_;
  const std::string text_;
};

// --generation-config: "auto" for the model's own, "vllm" for none, or a folder with another
// generation_config.json. End tokens are the model's in each case; a folder may add to them.
Result<GenerationDefaults> DefaultsOf(const FileSet& files, const std::string& from,
                                      const ModelSpec& spec) {
  ERNE_ASSIGN_OR_RETURN(GenerationDefaults own, LoadGenerationDefaults(files, spec));
  if (from == "auto") return own;
  GenerationDefaults defaults;
  if (from != "vllm") {
    const auto folder = OpenFolder(from);
    if (!folder.ok()) return folder.status().WithContext("--generation-config");
    if (!(*folder)->Has("generation_config.json")) {
      return NotFound(StrCat("--generation-config: there is no generation_config.json in ", from),
                      "--generation-config");
    }
    ERNE_ASSIGN_OR_RETURN(defaults, LoadGenerationDefaults(**folder, spec));
  }
  for (const int32_t token : defaults.eos_tokens) {
    if (std::find(own.eos_tokens.begin(), own.eos_tokens.end(), token) == own.eos_tokens.end())
      own.eos_tokens.push_back(token);
  }
  defaults.eos_tokens = std::move(own.eos_tokens);
  return defaults;
}

void LogMemory(const ExecutorInfo& info, const MemoryPlan& plan, const std::string& executor) {
  const int64_t tokens = plan.num_blocks * kKvBlockSize;
  const uint64_t free = AvailableMemoryOf(executor);
  ERNE_LOG(kInfo, "memory") << "Memory: weights " << FormatBytes(info.weight_bytes) << ", KV cache "
                            << FormatBytes(info.kv_bytes) << " (" << info.kv_type << ", " << tokens
                            << " tokens; one request up to " << plan.max_context << "), workspace "
                            << FormatBytes(info.workspace_bytes)
                            << (free == 0 ? "" : StrCat(", still free ", FormatBytes(free)))
                            << (plan.notes.empty() ? "" : "; ") << Join(plan.notes, "; ");
}

// More threads than CPUs only take turns, each with memory of its own.
int64_t ThreadsOf(const ServeOptions& options) {
  const int64_t cpus = UsableCpus();
  const int64_t wanted = options.threads.threads;
  return wanted > 0 ? std::min(wanted, cpus) : cpus;
}

MemoryBudget BudgetOf(double utilization, uint64_t available) {
  if (available == 0) return {};
  return {static_cast<uint64_t>(static_cast<double>(available) * utilization),
          StrCat(FormatBytes(available), " are available and --gpu-memory-utilization ",
                 utilization, " bounds what is taken")};
}

// What is rounded: nothing by the reference executor.
ActivationDType ActivationsOf(const ServeOptions& options) {
  if (options.executor == "reference") return ActivationDType::kF32;
  return ToPrecision(options.precision).activation;
}

// Bytes of `parameters` as they are run: 8.25 bits for int8 in groups of 128, 4.6 for int4 in
// groups of 64, and the few vectors; `stored` where nothing is rounded. Matrices whose columns do
// not divide into groups for int4 are int8 (columns no multiple of 16 are rare enough to be counted
// so).
double BytesAs(Quantization quantization, int64_t parameters, int64_t cols, double stored) {
  if (quantization == Quantization::kNone) return stored;
  const bool four = quantization == Quantization::kInt4 && cols % kLeastInt4Group == 0;
  return std::min(stored, static_cast<double>(parameters) * (four ? 4.8 : 8.4) / 8);
}

// Weights as they are run, estimated where they are rounded.
uint64_t WeightBytes(const Model& model, const ServeOptions& options) {
  const ModelSize size = MeasureModel(model);
  const Precision precision = ToPrecision(options.precision);
  const ModelSpec& spec = model.spec;
  const int64_t head = spec.vocab_size * spec.hidden;
  const double head_bytes = static_cast<double>(model.weights.embedding.bytes());
  const double layer_bytes = static_cast<double>(size.weight_bytes) - head_bytes;
  const Quantization of_head =
      precision.head == Quantization::kNone ? precision.quantization : precision.head;
  return static_cast<uint64_t>(
      BytesAs(precision.quantization, size.parameters - head, spec.hidden, layer_bytes) +
      BytesAs(of_head, head, spec.hidden, head_bytes));
}

Result<MemoryPlan> PlanWithin(const Model& model, const ServeOptions& options,
                              MemoryBudget budget) {
  const ModelSpec& spec = model.spec;
  if (options.max_model_len > spec.max_positions) {
    return InvalidArgument(
        StrCat("--max-model-len ", options.max_model_len, ": the model was made for ",
               spec.max_positions, " positions (config.json: max_position_embeddings)"),
        "--max-model-len");
  }
  MemoryNeeds needs;
  needs.weight_bytes = WeightBytes(model, options);
  needs.max_model_len = options.max_model_len;
  needs.max_num_seqs = options.max_num_seqs;
  needs.max_num_batched_tokens = options.max_num_batched_tokens;
  needs.threads = ThreadsOf(options);
  ERNE_ASSIGN_OR_RETURN(needs.kv_dtype,
                        ResolveKvCacheDType(options.kv_cache_dtype, model, ActivationsOf(options)));
  needs.kv_cache_bytes = static_cast<uint64_t>(options.kv_cache_memory);
  needs.budget = std::move(budget);
  ERNE_RETURN_IF_ERROR(AddExecutorNeeds(options.executor, model, needs));
  return PlanMemory(spec, needs);
}

// A model's claim in the ledger, and the plan behind it.
struct PlannedMemory {
  MemoryPlan plan;
  MemoryLedger::Reservation claim;
};

// Plans with what other models of this process have left. `idle_bytes`: what was available before
// this one began to load.
Result<PlannedMemory> ClaimMemory(const Model& model, const ServeOptions& options,
                                  const std::string& name, uint64_t idle_bytes,
                                  MemoryLedger& ledger) {
  PlannedMemory planned;
  const auto plan = [&](const MemoryLedger::Left& left) -> Result<uint64_t> {
    MemoryBudget budget = BudgetOf(options.memory_utilization, AvailableMemoryOf(options.executor));
    if (left.bytes < budget.bytes) {
      budget = {left.bytes, StrCat("only ", FormatBytes(left.bytes), " are left",
                                   left.holders.empty() ? "" : ": ", left.holders)};
    }
    ERNE_ASSIGN_OR_RETURN(planned.plan, PlanWithin(model, options, std::move(budget)));
    return planned.plan.total_bytes;
  };
  const uint64_t cap = BudgetOf(options.memory_utilization, idle_bytes).bytes;
  ERNE_ASSIGN_OR_RETURN(planned.claim, ledger.Reserve(name, cap, plan));
  return planned;
}

Result<std::unique_ptr<Executor>> MakeExecutorFor(const ServeOptions& options,
                                                  const std::shared_ptr<const Model>& model,
                                                  const MemoryPlan& plan,
                                                  const LoadProgress& progress) {
  const int64_t threads = ThreadsOf(options);
  if (options.threads.threads > threads) {
    ERNE_LOG(kWarning, "flags") << "--threads " << options.threads.threads << ": there are "
                                << threads << " CPUs, and as many threads are used";
  }
  ExecutorLimits limits;
  limits.max_rows = plan.max_rows;
  limits.max_logit_rows = plan.max_logit_rows;
  limits.max_sequences = options.max_num_seqs;
  limits.max_context = plan.max_context;
  limits.num_blocks = plan.num_blocks;
  limits.kv_dtype = plan.kv_dtype;
  ExecutorSettings settings;
  settings.threads = static_cast<int>(threads);
  settings.pin_threads = options.threads.pin;
  settings.precision = ToPrecision(options.precision);
  return MakeExecutor(options.executor, model, limits, settings, progress);
}

// Tokens of a short prompt of the warm-up, and of its answers.
constexpr int64_t kWarmUpPrompt = 16;
constexpr int64_t kWarmUpAnswer = 4;

// A request for the warm-up, as far as the context has room. `variant`: prompts that differ in it
// share no beginning.
GenerationRequest WarmUpRequest(const Engine& engine, int64_t prompt, int64_t answer,
                                int64_t variant) {
  GenerationRequest request;
  const int64_t vocab = engine.spec().vocab_size;
  prompt = std::min(prompt, engine.max_context() - 1);
  for (int64_t i = 0; i < prompt; ++i) {
    // Multiples of a large prime are spread over the vocabulary, and so over the experts.
    const auto spread = static_cast<uint64_t>(i + variant * 1000003) * 2654435761U;
    request.prompt.push_back(static_cast<int32_t>((spread >> 8) % static_cast<uint64_t>(vocab)));
  }
  // Sampled as most requests are: with every filter on the way.
  request.sampling.temperature = 1;
  request.sampling.top_p = 0.9F;
  request.sampling.top_k = 50;
  request.sampling.repetition_penalty = 1.05F;
  request.max_tokens = std::min(answer, engine.max_context() - prompt);
  request.cache_salt = request.id = "warm-up";
  return request;
}

// Submits the requests together, and waits for their last events.
Status Answer(const ServedModel& model, std::vector<GenerationRequest> requests) {
  std::vector<std::shared_ptr<TokenStream>> streams;
  for (GenerationRequest& request : requests) {
    streams.push_back(std::make_shared<TokenStream>([] {}));
    ERNE_RETURN_IF_ERROR(model.engine->Submit(std::move(request), streams.back()));
  }
  for (const std::shared_ptr<TokenStream>& stream : streams) {
    std::vector<TokenEvent> events;
    while (events.empty() || !events.back().finish) stream->WaitAndTake(events);
    ERNE_RETURN_IF_ERROR(events.back().error.WithContext("the first steps of the model failed"));
  }
  return {};
}

// What the template shows, where the flags do not say it.
AnswerMarkup MarkupFor(const ServeOptions& options, AnswerMarkup markup) {
  if (options.tool_call_parser != "auto") {
    markup.tool_calls = *ToolCallFormNamed(options.tool_call_parser);
  }
  if (options.reasoning_parser == "auto") return markup;
  markup.reasoning = options.reasoning_parser != "none";
  markup.response_tags = options.reasoning_parser == "ernie45";
  return markup;
}

}  // namespace

Result<MemoryPlan> PlanMemory(const Model& model, const ServeOptions& options) {
  return PlanWithin(model, options,
                    BudgetOf(options.memory_utilization, AvailableMemoryOf(options.executor)));
}

Result<std::shared_ptr<const FileSet>> OpenModelFiles(const ServeOptions& options) {
  ERNE_ASSIGN_OR_RETURN(std::shared_ptr<const FileSet> files, OpenModelFiles(options.model));
  if (options.chat_template.empty()) return files;
  ERNE_ASSIGN_OR_RETURN(std::string text,
                        ReadInput("--chat-template", options.chat_template, kMaxTemplateBytes));
  return std::shared_ptr<const FileSet>(std::make_shared<FilesWithTemplate>(
      std::move(files), options.chat_template, std::move(text)));
}

std::vector<std::string> NamesOf(const FileSet& files, const ServeOptions& options) {
  if (options.model.empty() && options.served_names.empty()) return ServedNames(kEmbeddedModel, {});
  std::string path = files.path();
  const fs::path last = fs::path(path).filename();
  if (last == "." || last == "..") {  // "erne serve ." is served under the folder's name
    std::error_code error;
    const fs::path real = fs::canonical(path, error);
    if (!error) path = real.string();
  }
  return ServedNames(path, options.served_names);
}

Result<std::shared_ptr<ServedModel>> LoadServedModel(std::shared_ptr<const FileSet> files,
                                                     const ServeOptions& options,
                                                     const LoadProgress& progress,
                                                     MemoryLedger& ledger, Metrics* metrics) {
  const uint64_t available = AvailableMemoryOf(options.executor);
  ERNE_RETURN_IF_ERROR(CheckQuantization(*files, options.precision));
  ERNE_ASSIGN_OR_RETURN(Model loaded, LoadModel(files, {.unpack = options.executor != "cpu"}));
  const auto model = std::make_shared<const Model>(std::move(loaded));
  const ModelSpec& spec = model->spec;

  auto served = std::make_shared<ServedModel>();
  served->names = NamesOf(*files, options);
  served->root = SanitizeUtf8(files->path());  // goes into answers
  served->created = std::chrono::duration_cast<std::chrono::seconds>(
                        std::chrono::system_clock::now().time_since_epoch())
                        .count();
  ERNE_ASSIGN_OR_RETURN(served->tokenizer, LoadTokenizer(*files));
  ERNE_ASSIGN_OR_RETURN(LoadedTemplate chat, LoadChatTemplate(*files, spec));
  served->chat_template = std::move(chat.chat_template);
  served->template_variables = std::move(chat.variables);
  for (const auto& [name, value] : options.template_variables.AsObject()) {
    served->template_variables.Set(name, value);
  }
  served->answer_markup = MarkupFor(options, chat.answer_markup);
  served->takes_request_templates = options.trust_request_chat_template;
  ERNE_ASSIGN_OR_RETURN(served->prompt_prefix, LoadPromptPrefix(*files, *served->tokenizer));
  ERNE_ASSIGN_OR_RETURN(served->defaults, DefaultsOf(*files, options.generation_config, spec));

  ERNE_ASSIGN_OR_RETURN(PlannedMemory planned,
                        ClaimMemory(*model, options, served->names.front(), available, ledger));
  const MemoryPlan& plan = planned.plan;
  ERNE_ASSIGN_OR_RETURN(std::unique_ptr<Executor> executor,
                        MakeExecutorFor(options, model, plan, progress));
  // The executor has its own copies; from here on nothing looks at the weights' files.
  ERNE_RETURN_IF_ERROR(files->CheckUnchanged());
  files->ReleasePages();
  const ExecutorInfo info = executor->info();
  LogMemory(info, plan, options.executor);
  for (const std::string& idle : IdlePrecisionFlags(options.precision, *model, info))
    ERNE_LOG(kWarning, "flags") << idle;
  planned.claim.Correct(plan.total_bytes - plan.weight_bytes - plan.kv_bytes() -
                        plan.workspace_bytes + info.weight_bytes + info.kv_bytes +
                        info.workspace_bytes);
  served->memory = std::move(planned.claim);

  EngineOptions engine_options;
  engine_options.max_num_seqs = options.max_num_seqs;
  engine_options.max_num_batched_tokens = plan.max_rows;
  engine_options.max_num_queued_reqs = options.max_num_queued_reqs;
  engine_options.enable_prefix_caching = options.prefix_caching;
  engine_options.speculation = options.speculation;
  if (metrics != nullptr) {
    const MeasuredModel measured = {.name = served->names.front(),
                                    .max_context = plan.max_context,
                                    .block_size = kKvBlockSize,
                                    .prefix_caching = engine_options.enable_prefix_caching};
    served->observer = std::make_shared<ModelObserver>(
        metrics->AddModel(measured), options.log_requests ? LogLevel::kInfo : LogLevel::kDebug);
    engine_options.observer = served->observer;
  }
  served->engine = std::make_unique<Engine>(std::move(executor), engine_options);
  return served;
}

Status WarmUp(const ServedModel& model, const ServeOptions& options) {
  using Clock = std::chrono::steady_clock;
  const Engine& engine = *model.engine;
  // Prompts that grow up to a whole step, as long as the next one promises to take no longer than
  // this: a slow model is better ready than warm.
  constexpr double kLongestPromptSeconds = 0.5;
  const int64_t step = std::min(options.max_num_batched_tokens, engine.max_context() - 1);
  for (int64_t rows = std::min(step, kWarmUpPrompt);;) {
    const Clock::time_point begin = Clock::now();
    ERNE_RETURN_IF_ERROR(Answer(model, {WarmUpRequest(engine, rows, 1, rows)}));
    const std::chrono::duration<double> seconds = Clock::now() - begin;
    const int64_t next = std::min(step, 4 * rows);
    const double growth = static_cast<double>(next) / static_cast<double>(rows);
    if (next == rows || seconds.count() * growth > kLongestPromptSeconds) break;
    rows = next;
  }
  // One sequence alone, and several at once.
  for (const int64_t together : {int64_t{1}, std::min<int64_t>(options.max_num_seqs, 4)}) {
    std::vector<GenerationRequest> requests;
    requests.reserve(static_cast<size_t>(together));
    for (int64_t i = 0; i < together; ++i) {
      requests.push_back(WarmUpRequest(engine, kWarmUpPrompt, kWarmUpAnswer, -1 - i));
    }
    ERNE_RETURN_IF_ERROR(Answer(model, std::move(requests)));
  }
  return {};
}

std::string Describe(const ServedModel& model) {
  const ModelSpec& spec = model.engine->spec();
  const ExecutorInfo info = model.engine->executor_info();
  const std::string experts =
      spec.has_moe() ? StrCat(spec.moe.routing.experts, " experts, top ", spec.moe.routing.top_k)
                     : "dense, 0 experts";
  return StrCat(spec.architecture, ", ", spec.num_layers(), " layers, ", experts, "; weights ",
                info.weight_type, ", activations ", info.activation_type, ", keys and values ",
                info.kv_type, "; on ", info.name);
}

}  // namespace erne
