#include "cli/model_report.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <utility>

#include "base/strings.h"
#include "base/utf8.h"
#include "cli/tokenize.h"
#include "kv/block_pool.h"

namespace erne {
namespace {

// Columns of a label with its indentation.
constexpr size_t kLabelColumns = 18;

// Tensors of one type.
struct TypeTotal {
  int64_t count = 0;
  uint64_t bytes = 0;
};

std::map<std::string, TypeTotal> TotalsByType(const Checkpoint& checkpoint) {
  std::map<std::string, TypeTotal> totals;
  for (const auto& [name, tensor] : checkpoint.tensors()) {
    TypeTotal& total = totals[std::string(DTypeName(tensor.dtype))];
    ++total.count;
    total.bytes += tensor.bytes();
  }
  return totals;
}

int64_t CountLayers(const ModelSpec& spec, FfnKind kind) {
  return std::count(spec.layers.begin(), spec.layers.end(), kind);
}

// The place of a rope pair's halves.
const char* StyleName(RopeStyle style) {
  return style == RopeStyle::kInterleaved ? "interleaved" : "halves";
}

Json RopeJson(const RopeSpec& rope) {
  Json json = Json::Of({{"style", StyleName(rope.style)}, {"theta", rope.theta}});
  Json scaling;
  if (rope.scaling == RopeScaling::kLlama3) {
    scaling = Json::Of({{"type", "llama3"},
                        {"factor", rope.factor},
                        {"low_freq_factor", rope.low_freq_factor},
                        {"high_freq_factor", rope.high_freq_factor},
                        {"original_max_positions", rope.original_max_positions}});
  }
  json.Set("scaling", std::move(scaling));
  return json;
}

Json SpecJson(const ModelSpec& spec) {
  const AttentionSpec& a = spec.attention;
  Json attention = Json::Of({{"heads", a.heads},
                             {"kv_heads", a.kv_heads},
                             {"head_dim", a.head_dim},
                             {"qkv_bias", a.qkv_bias},
                             {"output_bias", a.output_bias},
                             {"qk_norm", a.qk_norm},
                             {"rope", RopeJson(a.rope)}});
  const bool moe = spec.has_moe();
  const RoutingSpec& routing = spec.moe.routing;
  Json experts = Json::Of({{"layers", CountLayers(spec, FfnKind::kMoe)},
                           {"experts", moe ? routing.experts : 0},
                           {"top_k", moe ? routing.top_k : 0},
                           {"intermediate", moe ? spec.moe.intermediate : 0},
                           {"shared_intermediate", moe ? spec.moe.shared_intermediate : 0}});
  Json end_tokens = Json::MakeArray();
  for (const int64_t token : spec.eos_tokens) end_tokens.Push(token);
  return Json::Of({{"architecture", spec.architecture},
                   {"layers", spec.num_layers()},
                   {"hidden", spec.hidden},
                   {"vocab_size", spec.vocab_size},
                   {"context", spec.max_positions},
                   {"attention", std::move(attention)},
                   {"dense_layers", CountLayers(spec, FfnKind::kDense)},
                   {"dense_intermediate", spec.dense_intermediate},
                   {"moe", std::move(experts)},
                   {"tied_head", spec.tied_head},
                   {"norm_eps", spec.norm_eps},
                   {"bos_token", spec.bos_token < 0 ? Json() : Json(spec.bos_token)},
                   {"eos_tokens", std::move(end_tokens)}});
}

Json TensorsJson(const Checkpoint& checkpoint, bool with_list) {
  Json by_type = Json::MakeObject();
  for (const auto& [type, total] : TotalsByType(checkpoint)) {
    by_type.Set(type, Json::Of({{"count", total.count}, {"bytes", total.bytes}}));
  }
  Json json = Json::Of({{"count", checkpoint.tensors().size()},
                        {"bytes", checkpoint.total_bytes()},
                        {"by_dtype", std::move(by_type)}});
  if (!with_list) return json;
  Json list = Json::MakeArray();
  for (const auto& [name, tensor] : checkpoint.tensors()) {
    Json shape = Json::MakeArray();
    for (const int64_t size : tensor.shape) shape.Push(size);
    list.Push(Json::Of({{"name", name},
                        {"dtype", DTypeName(tensor.dtype)},
                        {"shape", std::move(shape)},
                        {"bytes", tensor.bytes()}}));
  }
  json.Set("list", std::move(list));
  return json;
}

Json PlanJson(const ModelReport& report) {
  Json json =
      Json::Of({{"available_bytes", report.available_bytes}, {"utilization", report.utilization}});
  if (!report.plan.ok()) {
    json.Set("fits", false);
    json.Set("reason", report.plan.status().message());
    return json;
  }
  const MemoryPlan& plan = *report.plan;
  json.Set("fits", true);
  json.Set("max_context", plan.max_context);
  json.Set("weight_bytes", plan.weight_bytes);
  json.Set("kv_bytes", plan.kv_bytes());
  json.Set("kv_blocks", plan.num_blocks);
  json.Set("kv_block_tokens", kKvBlockSize);
  json.Set("workspace_bytes", plan.workspace_bytes);
  json.Set("note", Join(plan.notes, "; "));
  return json;
}

// Lines of labels and values under headings, in one of two languages.
class Writer {
 public:
  explicit Writer(Language language) : language_(language) {}

  std::string Say(const HelpText& text) const { return text.In(language_); }
  void Heading(const HelpText& text) { out_ += StrCat("\n", Say(text), "\n"); }
  void Line(const HelpText& label, const std::string& value) {
    std::string line = "  " + Say(label);
    line.append(std::max<size_t>(1, kLabelColumns - std::min(kLabelColumns, Columns(line))), ' ');
    out_ += StrCat(line, value, "\n");
  }
  void Raw(const std::string& text) { out_ += text; }
  std::string Take() { return std::move(out_); }

 private:
  // Of our own labels: Latin letters take one column, Chinese characters two.
  static size_t Columns(std::string_view text) {
    size_t columns = 0;
    for (Utf8Char next; !text.empty(); text.remove_prefix(static_cast<size_t>(next.length))) {
      next = DecodeUtf8(text);
      columns += next.code_point < 0x2E80 ? 1 : 2;
    }
    return columns;
  }

  const Language language_;
  std::string out_;
};

std::string LayersText(const Writer& w, const ModelSpec& spec) {
  const int64_t dense = CountLayers(spec, FfnKind::kDense);
  const int64_t moe = CountLayers(spec, FfnKind::kMoe);
  return StrCat(spec.num_layers(), w.Say({": ", "："}), dense, w.Say({" dense", " 层稠密"}),
                w.Say({", ", "，"}), moe, w.Say({" with experts", " 层混合专家"}));
}

std::string ExpertsText(const Writer& w, const ModelSpec& spec) {
  if (!spec.has_moe()) return w.Say({"dense, 0 experts", "稠密模型，0 个专家"});
  const MoeSpec& moe = spec.moe;
  std::string text =
      StrCat(moe.routing.experts, w.Say({", of which each token takes ", " 个，每个 token 使用 "}),
             moe.routing.top_k, w.Say({"; width ", " 个；宽度 "}), moe.intermediate);
  if (moe.shared_intermediate > 0) {
    text += StrCat(w.Say({"; shared by all, width ", "；共享专家宽度 "}), moe.shared_intermediate);
  }
  return text;
}

std::string AttentionText(const Writer& w, const AttentionSpec& a) {
  std::string text =
      StrCat(a.heads, w.Say({" heads, ", " 个头，"}), a.kv_heads,
             w.Say({" of keys and values, head size ", " 个键值头，头维度 "}), a.head_dim);
  if (a.qk_norm) text += w.Say({", queries and keys normed", "，查询与键做归一化"});
  return text;
}

// 500000, not 5e+05.
std::string Number(double value) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.15g", value);
  return text;
}

std::string RopeText(const Writer& w, const RopeSpec& rope) {
  std::string text =
      StrCat(rope.style == RopeStyle::kInterleaved ? w.Say({"neighbouring pairs", "相邻成对"})
                                                   : w.Say({"pairs across halves", "前后半成对"}),
             w.Say({", theta ", "，theta "}), Number(rope.theta));
  if (rope.scaling == RopeScaling::kLlama3) {
    text += StrCat(w.Say({", llama3 scaling by ", "，llama3 缩放 "}), Number(rope.factor),
                   w.Say({" beyond ", " 倍，原长 "}), rope.original_max_positions);
  }
  return text;
}

void WriteModel(const ModelReport& report, Writer& w) {
  const ModelSpec& spec = report.model.spec;
  const ModelSize size = MeasureModel(report.model);
  w.Heading({"Model", "模型"});
  w.Line({"architecture", "架构"}, spec.architecture);
  std::string parameters = FormatCount(size.parameters);
  if (size.active_parameters < size.parameters) {
    parameters += StrCat(w.Say({", of which each token uses ", "，每个 token 使用 "}),
                         FormatCount(size.active_parameters));
  }
  w.Line({"parameters", "参数量"}, parameters);
  w.Line({"layers", "层数"}, LayersText(w, spec));
  w.Line({"experts", "专家"}, ExpertsText(w, spec));
  std::string widths = StrCat(spec.hidden);
  if (CountLayers(spec, FfnKind::kDense) > 0) {
    widths += StrCat(w.Say({"; dense feed-forward ", "；稠密前馈层 "}), spec.dense_intermediate);
  }
  w.Line({"hidden size", "隐藏维度"}, widths);
  w.Line({"attention", "注意力"}, AttentionText(w, spec.attention));
  w.Line({"rope", "位置编码"}, RopeText(w, spec.attention.rope));
  w.Line({"context", "上下文"}, StrCat(spec.max_positions, w.Say({" tokens", " 个 token"})));
  w.Line({"vocabulary", "词表"},
         StrCat(spec.vocab_size, spec.tied_head
                                     ? w.Say({"; embedding and head are one", "；输入输出共用词表"})
                                     : w.Say({"; a head of its own", "；输出层独立"})));
  w.Line({"end tokens", "结束 token"}, spec.eos_tokens.empty()
                                           ? w.Say({"none in config.json", "config.json 未给出"})
                                           : Join(spec.eos_tokens, ", "));
}

void WriteTensors(const ModelReport& report, Writer& w) {
  const Checkpoint& checkpoint = *report.model.weights.checkpoint;
  const std::string tensors = w.Say({" tensors, ", " 个张量，"});
  w.Heading({"Weights", "权重"});
  w.Line({"precision", "精度"}, report.model.precision);
  w.Line({"stored", "存储"},
         StrCat(checkpoint.tensors().size(), tensors, FormatBytes(checkpoint.total_bytes())));
  for (const auto& [type, total] : TotalsByType(checkpoint)) {
    w.Line({"  " + type, "  " + type}, StrCat(total.count, tensors, FormatBytes(total.bytes)));
  }
  w.Line({"run here", "本机运行"},
         StrCat(w.Say({"weights ", "权重 "}), report.executor.weight_type,
                w.Say({", activations ", "，激活 "}), report.executor.activation_type,
                w.Say({", keys and values ", "，键值 "}), report.executor.kv_type,
                w.Say({", on ", "，于 "}), report.executor.name));
  for (const std::string& note : report.notes) w.Line({"note", "注意"}, note);
}

void WritePlan(const ModelReport& report, Writer& w) {
  w.Heading({"Memory that erne serve would take now", "erne serve 此刻会占用的内存"});
  if (report.available_bytes > 0) {
    w.Line({"free", "空闲"}, StrCat(FormatBytes(report.available_bytes),
                                    w.Say({", of which it may take ", "，至多使用 "}),
                                    std::lround(report.utilization * 100), " %"));
  }
  if (!report.plan.ok()) {
    w.Line({"does not fit", "放不下"}, report.plan.status().message());
    return;
  }
  const MemoryPlan& plan = *report.plan;
  w.Line({"weights", "权重"}, FormatBytes(plan.weight_bytes));
  w.Line({"KV cache", "KV 缓存"},
         StrCat(FormatBytes(plan.kv_bytes()), w.Say({": ", "："}), plan.num_blocks * kKvBlockSize,
                w.Say({" tokens in ", " 个 token，分为 "}), plan.num_blocks,
                w.Say({" blocks", " 块"})));
  w.Line({"workspace", "工作区"},
         StrCat(w.Say({"about ", "约 "}), FormatBytes(plan.workspace_bytes)));
  w.Line({"one request", "单个请求"},
         StrCat(w.Say({"up to ", "至多 "}), plan.max_context, w.Say({" tokens", " 个 token"})));
  for (const std::string& note : plan.notes) w.Line({"note", "注意"}, note);
}

void ListTensors(const Checkpoint& checkpoint, Writer& w) {
  w.Heading({"Tensors", "张量"});
  size_t width = 0;
  for (const auto& [name, tensor] : checkpoint.tensors()) width = std::max(width, name.size());
  width = std::min<size_t>(width, 80);
  for (const auto& [name, tensor] : checkpoint.tensors()) {
    // A file may name its tensors as it likes: nothing that a terminal would obey.
    std::string line = "  " + OneLine(name);
    line.resize(std::max(line.size(), width + 2), ' ');
    std::string type(DTypeName(tensor.dtype));
    type.resize(std::max<size_t>(type.size(), 5), ' ');
    w.Raw(StrCat(line, "  ", type, " ", ShapeString(tensor.shape), "  ",
                 FormatBytes(tensor.bytes()), "\n"));
  }
}

}  // namespace

std::string FormatCount(int64_t count) {
  constexpr std::pair<double, const char*> kUnits[] = {
      {1e12, "T"}, {1e9, "B"}, {1e6, "M"}, {1e3, "K"}};
  for (const auto& [size, unit] : kUnits) {
    if (static_cast<double>(count) < size) continue;
    char text[32];
    std::snprintf(text, sizeof(text), "%.1f %s", static_cast<double>(count) / size, unit);
    return text;
  }
  return StrCat(count);
}

Json ReportJson(const ModelReport& report) {
  const ModelSize size = MeasureModel(report.model);
  Json json = Json::Of({{"name", report.name}, {"path", report.path}});
  const Json spec = SpecJson(report.model.spec);
  for (const auto& [key, value] : spec.AsObject()) json.Set(key, value);
  json.Set("parameters", size.parameters);
  json.Set("active_parameters", size.active_parameters);
  json.Set("precision", report.model.precision);
  json.Set("tensors", TensorsJson(*report.model.weights.checkpoint, report.with_tensors));
  json.Set("executor", Json::Of({{"name", report.executor.name},
                                 {"weights", report.executor.weight_type},
                                 {"activations", report.executor.activation_type},
                                 {"kv", report.executor.kv_type},
                                 {"note", Join(report.notes, "; ")}}));
  json.Set("memory_plan", PlanJson(report));
  return json;
}

std::string ReportText(const ModelReport& report, Language language) {
  Writer w(language);
  w.Raw(report.name == report.path ? report.name + "\n"
                                   : StrCat(report.name, " (", report.path, ")\n"));
  WriteModel(report, w);
  WriteTensors(report, w);
  WritePlan(report, w);
  if (report.with_tensors) ListTensors(*report.model.weights.checkpoint, w);
  return w.Take();
}

}  // namespace erne
