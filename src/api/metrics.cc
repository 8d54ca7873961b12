#include "api/metrics.h"

#include <initializer_list>
#include <map>
#include <utility>
#include <vector>

#include <prometheus/counter.h>
#include <prometheus/family.h>
#include <prometheus/histogram.h>
#include <prometheus/metric_family.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include "base/strings.h"

namespace erne {
namespace {

using prometheus::ClientMetric;
using prometheus::Counter;
using prometheus::Family;
using prometheus::Histogram;
using prometheus::Labels;
using prometheus::MetricFamily;
using prometheus::MetricType;
using Buckets = Histogram::BucketBoundaries;

// Upper ends of buckets: vLLM's, so that quantiles of both servers compare. Seconds, but for the
// counts.
const Buckets& FirstTokenBuckets() {
  static const Buckets buckets = {.001, .005, .01, .02, .04, .06, .08, .1, .25, .5,  .75,
                                  1,    2.5,  5,   7.5, 10,  20,  40,  80, 160, 640, 2560};
  return buckets;
}
// vLLM's begin at 10 ms; small models are faster.
const Buckets& TokenIntervalBuckets() {
  static const Buckets buckets = {.0005, .001, .0025, .005, .01, .025, .05, .075, .1, .15, .2, .3,
                                  .4,    .5,   .75,   1,    2.5, 5,    7.5, 10,   20, 40,  80};
  return buckets;
}
const Buckets& LatencyBuckets() {
  static const Buckets buckets = {.3, .5, .8, 1,  1.5, 2,   2.5, 5,   10,   15,  20,
                                  30, 40, 50, 60, 120, 240, 480, 960, 1920, 7680};
  return buckets;
}
const Buckets& BlockAgeBuckets() {
  static const Buckets buckets = {.001, .002, .005, .01, .02, .05, .1,  .2,  .5,   1,   2,
                                  5,    10,   20,   30,  60,  120, 300, 600, 1200, 1800};
  return buckets;
}
const Buckets& StepTokenBuckets() {
  static const Buckets buckets = {1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384};
  return buckets;
}
const Buckets& ChoiceBuckets() {
  static const Buckets buckets = {1, 2, 5, 10, 20};
  return buckets;
}
// From the time to answer /health to that of a long stream.
const Buckets& HttpBuckets() {
  static const Buckets buckets = {.001, .005, .01, .05, .1, .5, 1, 5, 10, 30, 60, 300};
  return buckets;
}
// 1, 2, 5, 10, 20, 50, ... up to `most`.
Buckets TokenCountBuckets(int64_t most) {
  Buckets buckets;
  for (int64_t unit = 1; unit <= most; unit *= 10) {
    for (const int64_t step : {1, 2, 5}) {
      if (step * unit <= most) buckets.push_back(static_cast<double>(step * unit));
    }
  }
  return buckets;
}

// Families that are told under a second name, too.
struct Alias {
  const char* of;
  const char* name;
  const char* help;
};
constexpr Alias kAliases[] = {
    {"vllm:request_generation_tokens", "vllm:request_max_num_generation_tokens",
     "Generated tokens of a request; each of n answers by itself."},
    {"vllm:inter_token_latency_seconds", "vllm:time_per_output_token_seconds",
     "The old name of vllm:inter_token_latency_seconds."},
};

Labels LabelsOf(const MeasuredModel& model) {
  return {{"model_name", model.name}, {"engine", "0"}};
}

// States and totals, as one scrape tells them.
class Snapshot {
 public:
  explicit Snapshot(std::span<const ModelState> models) : models_(models) {}

  // `value` is a double of a ModelState.
  template <typename Value>
  void Gauge(const char* name, const char* help, Value value) {
    Add(name, help, MetricType::Gauge,
        [&](const ModelState& state, ClientMetric& metric) { metric.gauge.value = value(state); });
  }
  // Always 1: what counts are the `labels` of a ModelState.
  template <typename LabelsOfState>
  void Info(const char* name, const char* help, LabelsOfState labels) {
    Add(name, help, MetricType::Gauge, [&](const ModelState& state, ClientMetric& metric) {
      metric.gauge.value = 1;
      for (const auto& [label, text] : labels(state)) metric.label.push_back({label, text});
    });
  }
  // The sum of one or more of EngineStats' totals.
  template <typename... Fields>
  void Total(const char* name, const char* help, Fields... fields) {
    Add(name, help, MetricType::Counter, [&](const ModelState& state, ClientMetric& metric) {
      metric.counter.value =
          static_cast<double>((... + (state.stats.*fields - state.since.*fields)));
    });
  }

  std::vector<MetricFamily> Take() { return std::move(families_); }

 private:
  template <typename Fill>
  void Add(const char* name, const char* help, MetricType type, Fill fill) {
    if (models_.empty()) return;
    MetricFamily family{name, help, type, {}};
    for (const ModelState& state : models_) {
      ClientMetric& metric = family.metric.emplace_back();
      for (const auto& [label, text] : LabelsOf(state.model)) metric.label.push_back({label, text});
      fill(state, metric);
    }
    families_.push_back(std::move(family));
  }

  std::span<const ModelState> models_;
  std::vector<MetricFamily> families_;
};

double UsageOf(const ModelState& state) { return CacheUsage(state.stats); }

void AddStates(Snapshot& out) {
  const auto number = [](int64_t EngineStats::* field) {
    return [field](const ModelState& state) { return static_cast<double>(state.stats.*field); };
  };
  out.Gauge("vllm:num_requests_running", "Requests that are being computed.",
            number(&EngineStats::running));
  out.Gauge("vllm:num_requests_waiting", "Requests that wait for their turn.",
            number(&EngineStats::waiting));
  out.Gauge("vllm:kv_cache_usage_perc", "Share of the KV cache in use: 1 is all of it.", UsageOf);
  out.Gauge("vllm:gpu_cache_usage_perc", "The old name of vllm:kv_cache_usage_perc.", UsageOf);
  out.Gauge("erne:kv_cache_pressure", "1 while more than 92 % of the KV cache is in use.",
            [](const ModelState& state) { return UsageOf(state) > kFullCacheUsage ? 1.0 : 0.0; });
  out.Gauge("erne:kv_cache_tokens", "Tokens of running requests that the KV cache holds.",
            number(&EngineStats::kv_tokens));
  out.Info("vllm:cache_config_info", "Always 1; the labels describe the KV cache.",
           [](const ModelState& state) -> Labels {
             return {{"block_size", StrCat(state.model.block_size)},
                     {"num_gpu_blocks", StrCat(state.stats.kv_blocks_total)},
                     {"enable_prefix_caching", state.model.prefix_caching ? "True" : "False"}};
           });
}

void AddTotals(Snapshot& out) {
  out.Total("vllm:prompt_tokens_total",
            "Prompt tokens that were computed or found in the prefix cache.",
            &EngineStats::prompt_tokens, &EngineStats::prefix_hits);
  out.Total("vllm:generation_tokens_total", "Tokens that were generated.",
            &EngineStats::generated_tokens);
  out.Total("vllm:num_preemptions_total", "Times that a request gave its memory to an older one.",
            &EngineStats::preemptions);
  out.Total("vllm:prefix_cache_queries_total", "Tokens that were looked up in the prefix cache.",
            &EngineStats::prefix_queries);
  out.Total("vllm:prefix_cache_hits_total", "Of them, those that were found.",
            &EngineStats::prefix_hits);
  out.Total("vllm:spec_decode_num_draft_tokens_total", "Tokens that were guessed and checked.",
            &EngineStats::drafted_tokens);
  out.Total("vllm:spec_decode_num_accepted_tokens_total", "Of them, those that were right.",
            &EngineStats::accepted_tokens);
  out.Total("erne:kv_blocks_taken_total", "Blocks of the KV cache that requests took.",
            &EngineStats::blocks_taken);
  out.Total("erne:kv_blocks_reused_total",
            "Of them, those with keys and values that were there already.",
            &EngineStats::blocks_reused);
  out.Total("erne:failed_steps_total", "Steps that the executor could not compute.",
            &EngineStats::failed_steps);
}

}  // namespace

const char* EndReason(const std::optional<FinishReason>& reason) {
  if (!reason) return "abort";
  switch (*reason) {
    case FinishReason::kStop:
    case FinishReason::kComplete:
      return "stop";
    case FinishReason::kLength:
      return "length";
    case FinishReason::kRepetition:
      return "repetition";
    case FinishReason::kAbort:
      return "error";
  }
  return "error";
}

double CacheUsage(const EngineStats& stats) {
  const auto total = static_cast<double>(stats.kv_blocks_total);
  return total == 0 ? 0 : static_cast<double>(stats.kv_blocks_used) / total;
}

// The library's registry. A family exists once, whatever the number of models.
struct MetricRegistry {
  Family<Counter>& Counters(const char* name, const char* help) {
    return prometheus::BuildCounter().Name(name).Help(help).Register(registry);
  }
  Family<Histogram>& Histograms(const char* name, const char* help) {
    return prometheus::BuildHistogram().Name(name).Help(help).Register(registry);
  }

  prometheus::Registry registry;
  Family<Counter>& requests =
      Counters("http_requests_total", "Answered requests by route, method and class of status.");
  Family<Histogram>& durations = Histograms("http_request_duration_seconds",
                                            "From a request's arrival to the end of its answer.");
};

struct ModelMetrics::Series {
  Series(MetricRegistry& registry, const MeasuredModel& model) {
    const Labels labels = LabelsOf(model);
    const Buckets tokens = TokenCountBuckets(model.max_context);
    const auto histogram = [&](const char* name, const char* help, const Buckets& buckets) {
      return &registry.Histograms(name, help).Add(labels, buckets);
    };
    prompt_tokens = histogram("vllm:request_prompt_tokens", "Prompt tokens of a request.", tokens);
    generation_tokens =
        histogram("vllm:request_generation_tokens", "Generated tokens of a request.", tokens);
    max_tokens = histogram("vllm:request_params_max_tokens", "max_tokens of a request.", tokens);
    choices = histogram("vllm:request_params_n", "n of a request.", ChoiceBuckets());
    step_tokens = histogram("vllm:iteration_tokens_total", "Tokens in a step.", StepTokenBuckets());
    first_token = histogram("vllm:time_to_first_token_seconds", "From arrival to the first token.",
                            FirstTokenBuckets());
    next_token = histogram("vllm:inter_token_latency_seconds", "From one token to the next.",
                           TokenIntervalBuckets());
    total = histogram("vllm:e2e_request_latency_seconds", "From arrival to the last token.",
                      LatencyBuckets());
    queue = histogram("vllm:request_queue_time_seconds", "From arrival to the first step.",
                      LatencyBuckets());
    inference = histogram("vllm:request_inference_time_seconds",
                          "From the first step to the last token.", LatencyBuckets());
    prefill = histogram("vllm:request_prefill_time_seconds",
                        "From the first step to the first token.", LatencyBuckets());
    decode = histogram("vllm:request_decode_time_seconds", "From the first token to the last.",
                       LatencyBuckets());
    block_life = histogram("vllm:kv_block_lifetime_seconds",
                           "From taking a block to giving it to somebody else.", BlockAgeBuckets());
    block_idle = histogram("vllm:kv_block_idle_before_evict_seconds",
                           "Of it, the time since the block's last use.", BlockAgeBuckets());
    block_gap = histogram("vllm:kv_block_reuse_gap_seconds",
                          "Time without use of a block that was found again.", BlockAgeBuckets());
    Family<Counter>& ended =
        registry.Counters("vllm:request_success_total", "Requests that ended, by the reason.");
    for (const char* reason : {"stop", "length", "repetition", "abort", "error"}) {
      Labels with_reason = labels;
      with_reason.emplace("finished_reason", reason);
      ends.emplace(reason, &ended.Add(with_reason));
    }
  }

  Histogram* prompt_tokens;
  Histogram* generation_tokens;
  Histogram* max_tokens;
  Histogram* choices;
  Histogram* step_tokens;
  Histogram* first_token;
  Histogram* next_token;
  Histogram* total;
  Histogram* queue;
  Histogram* inference;
  Histogram* prefill;
  Histogram* decode;
  Histogram* block_life;
  Histogram* block_idle;
  Histogram* block_gap;
  std::map<std::string_view, Counter*> ends;  // by reason
};

ModelMetrics::ModelMetrics(std::shared_ptr<MetricRegistry> registry, MeasuredModel model)
    : registry_(std::move(registry)),
      model_(std::move(model)),
      series_(std::make_unique<const Series>(*registry_, model_)) {}

ModelMetrics::~ModelMetrics() = default;

void ModelMetrics::OnStep(const StepRecord& step) {
  series_->step_tokens->Observe(static_cast<double>(step.rows));
}

void ModelMetrics::OnFirstToken(double seconds) { series_->first_token->Observe(seconds); }

void ModelMetrics::OnNextToken(double seconds) { series_->next_token->Observe(seconds); }

void ModelMetrics::OnEnd(const RequestRecord& request) {
  series_->ends.at(EndReason(request.finish))->Increment();
  // What was cut short says nothing about how long answers are or take.
  if (!request.finish || *request.finish == FinishReason::kAbort) return;
  series_->prompt_tokens->Observe(static_cast<double>(request.prompt_tokens));
  series_->generation_tokens->Observe(static_cast<double>(request.generated_tokens));
  series_->max_tokens->Observe(static_cast<double>(request.max_tokens));
  series_->total->Observe(request.last_token - request.arrived);
  series_->queue->Observe(request.started - request.arrived);
  series_->inference->Observe(request.last_token - request.started);
  series_->prefill->Observe(request.first_token - request.started);
  series_->decode->Observe(request.last_token - request.first_token);
}

void ModelMetrics::OnBlockReused(double idle_seconds) { series_->block_gap->Observe(idle_seconds); }

void ModelMetrics::OnBlockEvicted(const BlockRecord& block) {
  series_->block_life->Observe(block.lived);
  series_->block_idle->Observe(block.idle);
}

void ModelMetrics::OnAccepted(int64_t choices) {
  series_->choices->Observe(static_cast<double>(choices));
}

Metrics::Metrics() : registry_(std::make_shared<MetricRegistry>()) {}

Metrics::~Metrics() = default;

void Metrics::CountRequest(const std::string& handler, const std::string& method, int status,
                           std::optional<double> seconds) {
  const std::string status_class = StrCat(status / 100, "xx");
  registry_->requests.Add({{"handler", handler}, {"method", method}, {"status", status_class}})
      .Increment();
  if (!seconds) return;
  registry_->durations.Add({{"handler", handler}, {"method", method}}, HttpBuckets())
      .Observe(*seconds);
}

std::shared_ptr<ModelMetrics> Metrics::AddModel(MeasuredModel model) {
  return std::make_shared<ModelMetrics>(registry_, std::move(model));
}

std::string Metrics::Text(std::span<const ModelState> models) const {
  Snapshot snapshot(models);
  AddStates(snapshot);
  AddTotals(snapshot);
  std::vector<MetricFamily> families = snapshot.Take();
  for (MetricFamily& family : registry_->registry.Collect()) {
    if (family.metric.empty()) continue;
    for (const Alias& alias : kAliases) {
      if (family.name != alias.of) continue;
      families.push_back({alias.name, alias.help, family.type, family.metric});
    }
    families.push_back(std::move(family));
  }
  return prometheus::TextSerializer().Serialize(families);
}

}  // namespace erne
