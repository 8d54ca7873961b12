#include "command_line.h"

#include <utility>

#include "base/strings.h"
#include "cli/flags.h"

namespace erne::load {
namespace {

constexpr Mode kModes[] = {Mode::kClosed, Mode::kFlood, Mode::kSteady, Mode::kVanish,
                           Mode::kPrefix};

// What flags write before it is checked.
struct Raw {
  std::vector<std::string> positional;
  std::string url = "http://127.0.0.1:8000";
  std::string concurrency = "8";
  std::string prompt_tokens = "128";
  std::string max_tokens = "128";
  std::string extra = "{}";
  int64_t seed = 0;
};

Status Fault(std::string_view flag, std::string_view value, std::string_view wanted) {
  return InvalidArgument(StrCat("--", flag, ": '", value, "' is no ", wanted));
}

// "128", or "100:1024".
Status ReadRange(std::string_view flag, const std::string& text, Range& range) {
  const std::vector<std::string> ends = Split(text, ':');
  const auto low = ParseNumber<int64_t>(ends.front());
  const auto high = ParseNumber<int64_t>(ends.back());
  if (ends.size() > 2 || !low || !high || *low < 1 || *high < *low || *high > (1 << 30)) {
    return Fault(flag, text, "length and no range LOW:HIGH");
  }
  range = {*low, *high};
  return {};
}

Status ReadUrl(const std::string& url, LoadOptions& options) {
  constexpr std::string_view kScheme = "http://";
  std::string_view rest = url;
  if (!rest.starts_with(kScheme)) return Fault("url", url, "http:// address");
  rest.remove_prefix(kScheme.size());
  while (rest.ends_with('/')) rest.remove_suffix(1);
  const size_t colon = rest.rfind(':');
  if (colon == std::string_view::npos || !ParseNumber<uint16_t>(rest.substr(colon + 1))) {
    return Fault("url", url, "address with a port");
  }
  options.host = rest.substr(0, colon);
  options.port = rest.substr(colon + 1);
  if (options.host.size() > 2 && options.host.front() == '[') {
    options.host = options.host.substr(1, options.host.size() - 2);
  }
  return {};
}

Status Finish(const Raw& raw, LoadOptions& options) {
  if (raw.positional.empty()) {
    return InvalidArgument("which load? closed, flood, steady, vanish or prefix");
  }
  bool known = false;
  for (const Mode mode : kModes) {
    if (raw.positional.front() != ModeName(mode)) continue;
    options.mode = mode;
    known = true;
  }
  if (!known) return Fault("mode", raw.positional.front(), "load that is known");
  ERNE_RETURN_IF_ERROR(ReadUrl(raw.url, options));
  ERNE_RETURN_IF_ERROR(ReadRange("prompt-tokens", raw.prompt_tokens, options.prompt_tokens));
  ERNE_RETURN_IF_ERROR(ReadRange("max-tokens", raw.max_tokens, options.max_tokens));
  options.concurrency.clear();
  for (const std::string& text : Split(raw.concurrency, ',')) {
    const auto level = ParseNumber<int64_t>(text);
    if (!level || *level < 1) return Fault("concurrency", raw.concurrency, "list of numbers");
    options.concurrency.push_back(*level);
  }
  const Result<Json> extra = Json::Parse(raw.extra);
  if (!extra.ok() || !extra->is_object()) return Fault("extra", raw.extra, "JSON object");
  options.extra = *extra;
  options.seed = static_cast<uint64_t>(raw.seed);
  return {};
}

void AddLoadFlags(FlagTable& flags, LoadOptions& options, Raw& raw) {
  flags.Add("concurrency", &raw.concurrency, "N[,N...]",
            {"closed, steady: clients at a time; several levels run one after the other",
             "closed、steady：并发客户端数；多个值依次运行"});
  flags
      .Add("requests", &options.requests, "N",
           {"Requests of a level (default: closed max(8, 3 a client), flood 1000, vanish 2000, "
            "prefix 8 prefixes)",
            "每一级的请求数"})
      .Range(0, 1e9)
      .DefaultText("");
  flags
      .Add("seconds", &options.seconds, "S",
           {"Instead of a number of requests: what runs then is cut off and is no failure",
            "改为按时间运行；到时未完成的请求被中断，不算失败"})
      .Range(0, 86400)
      .DefaultText("");
  flags.Add("prompt-tokens", &raw.prompt_tokens, "N|LOW:HIGH", {"Length of prompts", "提示词长度"});
  flags.Add("max-tokens", &raw.max_tokens, "N|LOW:HIGH", {"Length of answers", "回答长度"});
  flags.Add("fixed-length", &options.fixed_length,
            {"Ask with ignore_eos, and take nothing but so many tokens",
             "带 ignore_eos 请求，回答必须恰好这么长"});
  flags.Add("stream", &options.stream, {"Ask for streams", "使用流式回答"});
  flags.Add("logprobs", &options.logprobs,
            {"Ask for log-probabilities, and count them", "请求 logprobs 并核对其数量"});
  flags.Add("temperature", &options.temperature, "T", {"Of every request", "采样温度"})
      .Range(0, 100);
  flags.Add("seed", &raw.seed, "N", {"Of prompts and lengths", "提示词与长度的随机种子"});
  flags.Add("extra", &raw.extra, "JSON",
            {"Members that every request carries", "附加到每个请求的字段"});
}

void AddSideFlags(FlagTable& flags, LoadOptions& options) {
  flags
      .Add("idle", &options.idle, "N",
           {"Beside all that: keep-alive connections that do nothing", "另开若干空闲的长连接"})
      .Range(0, 1e6);
  flags
      .Add("slow", &options.slow, "N",
           {"Beside all that: clients that read 256 bytes in 100 ms", "另开若干读得很慢的客户端"})
      .Range(0, 1e6);
  flags
      .Add("long-every", &options.long_every_ms, "MS",
           {"steady: a second run, in which a long prompt arrives at this interval",
            "steady：再运行一次，其间每隔这么久到达一个长提示词"})
      .Range(0, 1e6)
      .DefaultText("");
  flags.Add("long-prompt", &options.long_prompt_tokens, "N", {"Its tokens", "长提示词的长度"})
      .Range(1, 1 << 30);
  flags.Add("wave", &options.wave, "N", {"vanish: clients at a time", "vanish：每批客户端数"})
      .Range(1, 1e6);
  flags
      .Add("wave-ms", &options.wave_ms, "MS",
           {"vanish: how long a wave stays after its first text",
            "vanish：收到首个文本后停留的时间"})
      .Range(0, 1e6);
  flags
      .Add("prefix-tokens", &options.prefix_tokens, "N",
           {"prefix: tokens that prompts have in common", "prefix：公共前缀的长度"})
      .Range(1, 1 << 30);
}

void AddServerFlags(FlagTable& flags, LoadOptions& options, Raw& raw) {
  flags.Add("url", &raw.url, "URL", {"Of the server", "服务器地址"});
  flags.Add("api-key", &options.api_key, "KEY", {"", "API 密钥"});
  flags.Add("model", &options.model, "NAME",
            {"Default: the first that the server lists", "模型名；默认取服务器列出的第一个"});
  flags
      .Add("pid", &options.pid, "PID",
           {"Of the server, on this machine: its memory, threads and descriptors are told",
            "服务器进程号（本机）：报告其内存、线程与文件描述符"})
      .Range(0, 1 << 30)
      .DefaultText("");
  flags
      .Add("timeout", &options.timeout_s, "S",
           {"An answer without a byte for so long has failed", "这么久没有新数据即算失败"})
      .Range(1, 86400);
  flags
      .Add("settle", &options.settle_s, "S",
           {"After a run /health must show no request and no used block within this time",
            "运行结束后，/health 须在此时间内显示没有请求、没有占用的块"})
      .Range(0, 3600);
  flags.Add("json", &options.json, {"Print one JSON object and no table", "输出 JSON 而非表格"});
}

}  // namespace

Result<CommandLine> ParseCommandLine(const std::vector<std::string>& arguments) {
  CommandLine line;
  Raw raw;
  FlagTable flags("erne_load closed|flood|steady|vanish|prefix [flags]",
                  {"Puts load on a server with OpenAI's chat API, checks every answer, and prints "
                   "what it measured.",
                   "对提供 OpenAI 聊天接口的服务器施加负载，检查每个回答并输出测量结果。"});
  flags.Positional(&raw.positional, 1);
  AddLoadFlags(flags, line.options, raw);
  AddSideFlags(flags, line.options);
  AddServerFlags(flags, line.options, raw);
  ERNE_RETURN_IF_ERROR(flags.Parse(arguments));
  if (flags.help_requested()) {
    line.help = flags.Help(UserLanguage());
    return line;
  }
  ERNE_RETURN_IF_ERROR(Finish(raw, line.options));
  return line;
}

}  // namespace erne::load
