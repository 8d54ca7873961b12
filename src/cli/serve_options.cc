#include "cli/serve_options.h"

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <system_error>
#include <utility>

#include "base/json.h"
#include "base/strings.h"
#include "chat/answer_markup.h"
#include "cli/kv_cache_dtype.h"
#include "cli/make_executor.h"

namespace erne {
namespace {

// vLLM's flags that change nothing about the answers here.
struct TolerantFlag {
  const char* name;
  bool is_switch;
  const char* why;
};
constexpr TolerantFlag kTolerated[] = {
    {"trust-remote-code", true, "erne never runs code that comes with a model"},
    {"enforce-eager", true, "there are no graphs to turn off"},
    {"enable-chunked-prefill", true, "prompts are always computed in pieces"},
    {"async-scheduling", true, "the scheduler decides by itself"},
    {"enable-expert-parallel", true, "all experts are on one device"},
    {"disable-custom-all-reduce", true, "one device needs none"},
    {"disable-log-requests", true, "they are logged with --enable-log-requests alone"},
    {"enable-log-outputs", true, "answers are not logged"},
    {"max-log-len", false, "prompts are not logged"},
    {"log-error-stack", true, "errors name what and where"},
    {"disable-uvicorn-access-log", true, "accesses are logged with --log-level debug alone"},
    {"disable-access-log-for-endpoints", false,
     "health checks, scrapes and the page are not logged"},
    {"uvicorn-log-level", false, "--log-level sets the level"},
    {"disable-fastapi-docs", true, "there are no such pages"},
    {"enable-offline-docs", true, "there are no such pages"},
    {"disable-frontend-multiprocessing", true, "erne is one process"},
    {"enable-request-id-headers", true, "every answer carries X-Request-Id"},
    {"enable-server-load-tracking", true, "/health and /metrics show the load"},
    {"enable-per-request-metrics", true, "--enable-log-requests logs them"},
    {"enable-prompt-tokens-details", true, "usage always tells cached_tokens"},
    {"enable-sleep-mode", true, "the model stays loaded"},
    {"enable-auto-tool-choice", true, "requests with tools always may"},
    {"guided-decoding-backend", false, "requests that ask for a grammar are refused"},
    {"sse-keep-alive-interval", false, "each token is sent at once"},
    {"fingerprint-mode", false, "answers carry no fingerprint"},
    {"swap-space", false, "nothing is swapped"},
    {"cpu-offload-gb", false, "weights are where they are computed"},
    {"block-size", false, "blocks of the KV cache hold 16 tokens"},
    {"max-seq-len-to-capture", false, "there are no graphs"},
    {"compilation-config", false, "nothing is compiled at start"},
    {"cuda-graph-sizes", false, "there are no graphs"},
    {"num-scheduler-steps", false, "every step is scheduled"},
    {"max-num-queued-tokens", false, "--max-num-queued-reqs bounds the queue"},
    {"max-parallel-loading-workers", false, "weights are mapped, not copied"},
    {"download-dir", false, "nothing is downloaded"},
    {"revision", false, "the folder is taken as it is"},
    {"tokenizer-revision", false, "the folder is taken as it is"},
    {"distributed-executor-backend", false, "there is one device"},
    {"max-logprobs", false, "a request may ask for up to 20"},
    {"seed", false, "requests without a seed of their own draw one; send `seed` in the request"},
};

// vLLM's flags whose absence would change answers or open what should be closed. The values in
// braces ask for what erne does anyway.
struct RefusedFlag {
  const char* name;
  bool is_switch;
  const char* why;
  std::vector<std::string> harmless = {};
};
const std::vector<RefusedFlag>& RefusedFlags() {
  static const std::vector<RefusedFlag> flags = {
      {"pipeline-parallel-size", false, "this version computes on one device", {"1"}},
      {"data-parallel-size", false, "this version computes on one device", {"1"}},
      {"load-format", false, "only safetensors are read", {"auto", "safetensors"}},
      {"tokenizer", false, "the tokenizer is read from the model's folder"},
      {"tokenizer-mode", false, "there is one tokenizer", {"auto", "slow"}},
      {"scheduling-policy",
       false,
       "lower `priority` goes first, then who came first",
       {"fcfs", "priority"}},
      {"task", false, "erne generates text", {"auto", "generate"}},
      {"runner", false, "erne generates text", {"auto", "generate"}},
      {"enable-lora", true, "LoRA adapters are not supported"},
      {"lora-modules", false, "LoRA adapters are not supported"},
      {"rope-scaling", false, "rope is taken from config.json"},
      {"rope-theta", false, "rope is taken from config.json"},
      {"hf-overrides", false, "the model is taken as config.json describes it"},
      {"override-generation-config", false, "change generation_config.json, or the requests"},
      {"logits-processors", false, "erne runs no foreign code"},
      {"return-tokens-as-token-ids", true, "send return_tokens_as_token_ids in the request"},
      {"chat-template-content-format", false, "templates get text", {"auto", "string"}},
      {"response-role", false, "answers carry the role assistant", {"assistant"}},
      {"uds", false, "erne listens on TCP"},
      {"root-path", false, "routes have no prefix", {"/"}},
      {"middleware", false, "erne runs no foreign code"},
      {"ssl-keyfile", false, "TLS is not in this version; put a proxy in front"},
      {"ssl-certfile", false, "TLS is not in this version; put a proxy in front"},
      {"ssl-ca-certs", false, "TLS is not in this version; put a proxy in front"},
      {"ssl-cert-reqs", false, "TLS is not in this version; put a proxy in front", {"0"}},
      {"enable-ssl-refresh", true, "TLS is not in this version; put a proxy in front"},
      {"allowed-origins", false, "every origin may call the API", {"[\"*\"]", "*"}},
      {"allowed-methods", false, "every method may be called", {"[\"*\"]", "*"}},
      {"allowed-headers", false, "every header may be sent", {"[\"*\"]", "*"}},
      {"allow-credentials", true, "cookies are not used"},
  };
  return flags;
}

// What flags write before it is checked.
struct Raw {
  std::vector<std::string> positional;
  std::string model;
  int64_t tensor_parallel_size = 1;
  std::string speculation = "auto";
  std::string log_format = "text";
  std::string log_level = "info";
  std::string template_variables = "{}";
};

void AddParserFlags(FlagTable& flags, ServeOptions& options) {
  std::vector<std::string> forms = ToolCallFormNames();
  forms.insert(forms.begin(), "auto");
  flags
      .Add("tool-call-parser", &options.tool_call_parser, "FORM",
           {"How the model writes the calls of tools; auto: as its chat template shows",
            "模型书写工具调用的格式；auto：由对话模板判断"})
      .Choices(std::move(forms));
  flags
      .Add(
          "reasoning-parser", &options.reasoning_parser, "FORM",
          {"auto: reasoning is split from the answer where the chat template knows </think>; none: "
           "never; the other names: always",
           "auto：对话模板含 </think> 时把推理过程与回答分开；none：不分；其他名称：总是分开"})
      .Choices({"auto", "none", "ernie45", "qwen3", "deepseek_r1"});
}

void AddModelFlags(FlagTable& flags, ServeOptions& options, Raw& raw) {
  flags.Add(
      "model", &raw.model, "DIR",
      {"Folder of the model: config.json, safetensors, tokenizer; none: the embedded erne-mini",
       "模型目录（config.json、safetensors、分词器）；不给则用内置的 erne-mini"});
  flags.Add(
      "served-model-name", &options.served_names, "NAME...",
      {"Names under which requests ask for the model; the first is shown in answers (default: the "
       "folder's name)",
       "请求中可以使用的模型名，可给多个；回答中显示第一个（默认为目录名）"});
  flags.Add(
      "chat-template", &options.chat_template, "FILE",
      {"Jinja template in place of the model's own", "用此 Jinja 模板代替模型自带的对话模板"});
  flags.Add(
      "default-chat-template-kwargs", &raw.template_variables, "JSON",
      {"Variables for the chat template, as {\"enable_thinking\": false}; "
       "chat_template_kwargs of a request win over them",
       "对话模板的变量，如 {\"enable_thinking\": false}；请求中的 chat_template_kwargs 优先"});
  flags.Add("trust-request-chat-template", &options.trust_request_chat_template,
            {"Lets requests bring a chat template (chat_template); whoever may ask can then write "
             "control tokens",
             "允许请求自带对话模板（chat_template）；这样请求方就能写出控制 token"});
  AddParserFlags(flags, options);
  flags.Add(
      "generation-config", &options.generation_config, "auto|vllm|DIR",
      {"auto: sampling defaults from the model's generation_config.json; vllm: OpenAI's "
       "defaults; DIR: the generation_config.json in that folder",
       "auto：采样默认值取自模型的 generation_config.json；vllm：用 OpenAI 的默认值；DIR：用该"
       "目录中的 generation_config.json"});
  flags
      .Add("dtype", &options.dtype, "TYPE",
           {"Type of the arithmetic on a GPU; on the CPU --activation-dtype says more",
            "GPU 上的计算精度；CPU 上请用 --activation-dtype"})
      .Choices({"auto", "half", "float16", "bfloat16", "float", "float32"});
}

void AddServerFlags(FlagTable& flags, ServeOptions& options) {
  flags.Add("host", &options.host, "HOST",
            {"Address to listen on; 0.0.0.0 for all", "监听地址；0.0.0.0 表示所有地址"});
  flags
      .Add("port", &options.port, "PORT",
           {"Port of the API, and of the page at /", "API 端口（聊天页面在 /）"})
      .Range(0, 65535);
  flags
      .Add("ui-port", &options.ui_port, "PORT",
           {"Second port with the same page and API; 0 for none",
            "聊天页面的第二个端口（内容与 API 端口相同）；0 表示不用"})
      .Range(0, 65535);
  flags.Add("enable-force-include-usage", &options.force_include_usage,
            {"Usage at the end of every stream, asked for or not",
             "每个流式回答的结尾都附上用量，无论请求是否要求"});
  flags.Add("api-key", &options.api_keys, "KEY...",
            {"Keys of which requests must send one, but for /health and the page",
             "API 密钥，可给多个；请求须带其中之一（/health 与聊天页面除外）"});
  flags
      .Add("shutdown-timeout", &options.shutdown_timeout_s, "SECONDS",
           {"How long running answers may take to finish after SIGTERM or Ctrl-C",
            "收到 SIGTERM 或 Ctrl-C 后，最多等多少秒让正在生成的回答写完"})
      .Range(0, 86400);
  flags
      .Add("request-timeout", &options.request_timeout_s, "SECONDS",
           {"Answers that are not complete in this time end with an error (504); a request may ask "
            "for less (`timeout`); 0: no limit",
            "超过此秒数仍未完成的回答以错误（504）结束；请求可用 `timeout` 要求更短；0 表示不限"})
      .Range(0, 86400);
}

void AddEngineFlags(FlagTable& flags, ServeOptions& options, Raw& raw) {
  flags
      .Add("max-num-queued-reqs", &options.max_num_queued_reqs, "N",
           {"Requests that may wait; more are answered with 429",
            "排队请求数的上限，超出则返回 429"})
      .Range(0, 1 << 20);
  flags.Add("enable-prefix-caching", &options.prefix_caching,
            {"Computes what prompts begin with in common once; answers are the same",
             "相同的提示词开头只计算一次；回答不变"});
  flags.Add("speculative-config", &raw.speculation, "auto|off|JSON",
            {"Guesses next tokens from the text so far and checks several in one step, while that "
             "is measured to be faster; answers are the same. vLLM's JSON with method ngram sets "
             "num_speculative_tokens, prompt_lookup_max and prompt_lookup_min",
             "根据已有文本猜测后续 token，一步检查多个；仅在实测更快时使用，回答不变。可用 vLLM "
             "的 JSON（method 为 ngram）设置 num_speculative_tokens、prompt_lookup_max、"
             "prompt_lookup_min"});
  flags
      .Add("tensor-parallel-size", &raw.tensor_parallel_size, "N",
           {"Devices to spread a layer over; this version knows 1",
            "张量并行的设备数；此版本只支持 1"})
      .Alias("-tp")
      .Range(1, 1024);
  flags
      .Add("device", &options.device, "NAME",
           {"Where to compute; auto: on the GPU where there is one that erne can use",
            "计算设备；auto：有可用的 GPU 时使用 GPU"})
      .Choices({"auto", "cpu", "cuda"});
  flags
      .Add("executor", &options.executor, "NAME",
           {"What computes, for debugging: reference is slow and obvious",
            "计算后端（调试用）：reference 很慢，但写法最直白"})
      .Choices(ExecutorNames());
  AddThreadFlags(flags, &options.threads);
  AddPrecisionFlags(flags, &options.precision);
}

void AddLogFlags(FlagTable& flags, ServeOptions& options, Raw& raw) {
  flags.Add("log-file", &options.log.file, "FILE",
            {"Log into this file; folders are made", "日志写入此文件，自动创建目录"});
  flags.Add("log-format", &raw.log_format, "FORMAT", {"Form of the log", "日志格式"})
      .Choices({"text", "json"});
  flags.Add("log-level", &raw.log_level, "LEVEL", {"Least level that is logged", "记录的最低级别"})
      .Choices({"debug", "info", "warning", "error"});
  flags
      .Add("stats-interval", &options.stats_interval_s, "SECONDS",
           {"Time between two STATS lines while requests are inside; 0 for none",
            "有请求时，每隔多少秒记录一行 STATS；0 表示不记录"})
      .Range(0, 86400);
  flags.Add("disable-log-stats", &options.disable_log_stats, {"No STATS lines", "不记录 STATS 行"});
  flags.Add("enable-log-requests", &options.log_requests,
            {"Log a line about each request that has ended: tokens, and where its time went",
             "每个请求结束时记录一行：token 数与各阶段耗时"});
}

// Rows of guesses beside a decoding sequence that cost a memory-bound step little.
constexpr int64_t kDraftTokens = 4;

Status SpeculationFault(std::string_view what) {
  constexpr std::string_view kFlag = "--speculative-config";
  return InvalidArgument(StrCat(kFlag, ": ", what), std::string(kFlag));
}

// vLLM's spelling of guesses by prompt lookup.
Result<SpeculationOptions> ParseSpeculation(const std::string& text) {
  SpeculationOptions options;
  if (text == "off") return options;
  options.max_draft_tokens = kDraftTokens;
  if (text == "auto") return options;
  const Result<Json> json = Json::Parse(text);
  if (!json.ok() || !json->is_object()) {
    return SpeculationFault(StrCat("'", text, "' is not auto, off or a JSON object"));
  }
  const std::pair<std::string_view, int64_t*> numbers[] = {
      {"num_speculative_tokens", &options.max_draft_tokens},
      {"prompt_lookup_max", &options.rule.max_ngram},
      {"prompt_lookup_min", &options.rule.min_ngram}};
  for (const auto& [key, value] : json->AsObject()) {
    if (key == "method") {
      if (!value.is_string() || value.AsString() != "ngram") {
        return SpeculationFault("the method is ngram; there is no draft model");
      }
      continue;
    }
    const auto* number = std::find_if(std::begin(numbers), std::end(numbers),
                                      [&key = key](const auto& n) { return n.first == key; });
    if (number == std::end(numbers)) return SpeculationFault(StrCat("'", key, "' is not known"));
    if (!value.is_int() || value.AsInt() < 1 || value.AsInt() > 64) {
      return SpeculationFault(StrCat(key, " must be a whole number from 1 to 64"));
    }
    *number->second = value.AsInt();
  }
  options.rule.min_ngram = std::min(options.rule.min_ngram, options.rule.max_ngram);
  return options;
}

Result<Json> ParseTemplateVariables(const std::string& text) {
  Result<Json> json = Json::Parse(text);
  if (json.ok() && json->is_object()) return json;
  constexpr std::string_view kFlag = "--default-chat-template-kwargs";
  return InvalidArgument(StrCat(kFlag, ": '", text, "' is not a JSON object"), std::string(kFlag));
}

LogLevel LevelOf(const std::string& name) {
  if (name == "debug") return LogLevel::kDebug;
  if (name == "warning") return LogLevel::kWarning;
  if (name == "error") return LogLevel::kError;
  return LogLevel::kInfo;
}

// A folder that can only be meant as one: a name of a model may be that of a folder beside us, too.
bool IsModelFolder(const std::string& text) {
  std::error_code error;
  const std::filesystem::path path(text);
  if (!std::filesystem::is_directory(path, error)) return false;
  return text.find('/') != std::string::npos ||
         std::filesystem::exists(path / "config.json", error);
}

// `--served-model-name NAME DIR`: the flag takes all that follow, but the last was meant as the
// model.
Status TakeModelFromNames(ServeOptions& options) {
  std::vector<std::string>& names = options.served_names;
  if (!options.model.empty() || names.empty() || !IsModelFolder(names.back())) return {};
  if (names.size() == 1) {
    return InvalidArgument(
        StrCat("--served-model-name ", names.front(), ": that is a folder, and no model is named; ",
               "write erne serve ", names.front(), " --served-model-name NAME"),
        "--served-model-name");
  }
  options.model = names.back();
  names.pop_back();
  return {};
}

Status Check(const FlagTable& flags, const Raw& raw, ServeOptions& options) {
  if (flags.Given("model") && !raw.positional.empty() && raw.model != raw.positional.front()) {
    return InvalidArgument(
        StrCat("two models are named, ", raw.positional.front(), " and --model ", raw.model),
        "--model");
  }
  options.model = raw.positional.empty() ? raw.model : raw.positional.front();
  ERNE_RETURN_IF_ERROR(TakeModelFromNames(options));
  if (raw.tensor_parallel_size != 1) {
    return Unimplemented(StrCat("--tensor-parallel-size ", raw.tensor_parallel_size,
                                ": this version computes on one device; use 1"),
                         "--tensor-parallel-size");
  }
  if (options.executor.empty()) {
    ERNE_ASSIGN_OR_RETURN(options.executor,
                          ExecutorForDevice(options.device, &options.device_note));
  }
  ERNE_RETURN_IF_ERROR(ParseKvCacheDType(options.kv_cache_dtype).status());
  options.log.format = raw.log_format == "json" ? LogFormat::kJson : LogFormat::kText;
  options.log.min_level = LevelOf(raw.log_level);
  ERNE_ASSIGN_OR_RETURN(options.speculation, ParseSpeculation(raw.speculation));
  ERNE_ASSIGN_OR_RETURN(options.template_variables, ParseTemplateVariables(raw.template_variables));
  options.warnings.insert(options.warnings.end(), flags.warnings().begin(), flags.warnings().end());
  return {};
}

}  // namespace

void AddMemoryFlags(FlagTable& flags, ServeOptions& options) {
  flags
      .Add("max-model-len", &options.max_model_len, "N",
           {"Longest prompt and answer together, in tokens",
            "上下文长度：提示词与回答合计的最大 token 数"})
      .Range(1, 1 << 30)
      .Word("auto", 0)
      .DefaultText("auto");
  flags
      .Add("max-num-seqs", &options.max_num_seqs, "N",
           {"Requests that are computed at the same time", "同时计算的最大请求数"})
      .Range(1, 4096);
  flags
      .Add("max-num-batched-tokens", &options.max_num_batched_tokens, "N",
           {"Tokens in one step", "每步最多计算的 token 数"})
      .Range(1, 1 << 20);
  flags
      .Add("gpu-memory-utilization", &options.memory_utilization, "X",
           {"Largest share of the free memory to take (of main memory on the CPU); no more than "
            "needed is taken",
            "最多占用空闲内存的比例（CPU 上指主存）；只占用实际需要的部分"})
      .Range(0.01, 1);
  flags
      .Add("kv-cache-memory", &options.kv_cache_memory, "BYTES",
           {"Size of the KV cache, as in 512M or 2GiB; auto: what the contexts need",
            "KV 缓存的大小，如 512M 或 2GiB；auto 表示按上下文所需"})
      .Alias("--kv-cache-memory-bytes")
      .Range(1, static_cast<double>(int64_t{1} << 50))
      .Word("auto", 0)
      .DefaultText("auto");
  AddKvCacheDTypeFlag(flags, &options.kv_cache_dtype);
}

Status ParseModelFlags(FlagTable& flags, const std::vector<std::string>& arguments,
                       ServeOptions& options) {
  Raw raw;
  flags.Positional(&raw.positional, 1);
  AddModelFlags(flags, options, raw);
  AddMemoryFlags(flags, options);
  AddEngineFlags(flags, options, raw);
  AddLogFlags(flags, options, raw);
  for (const TolerantFlag& flag : kTolerated) flags.Tolerate(flag.name, flag.is_switch, flag.why);
  for (const RefusedFlag& flag : RefusedFlags()) {
    flags.Refuse(flag.name, flag.is_switch, flag.why, flag.harmless);
  }
  ERNE_RETURN_IF_ERROR(flags.Parse(arguments));
  return flags.help_requested() ? Status() : Check(flags, raw, options);
}

Result<ServeCommandLine> ParseServeFlags(const std::vector<std::string>& arguments,
                                         Language language) {
  ServeCommandLine line;
  FlagTable flags(
      "erne serve [MODEL] [flags]",
      {"Serves a model with an OpenAI-compatible API and a chat page. Without MODEL it serves the "
       "embedded erne-mini.",
       "运行模型，提供兼容 OpenAI 的 API 和聊天页面。不给 MODEL 时使用内置的 erne-mini。"});
  AddServerFlags(flags, line.options);
  ERNE_RETURN_IF_ERROR(ParseModelFlags(flags, arguments, line.options));
  if (flags.help_requested()) line.help = flags.Help(language);
  return line;
}

}  // namespace erne
