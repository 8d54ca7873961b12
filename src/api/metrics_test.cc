#include "api/metrics.h"

#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/strings.h"
#include "text/test_support.h"

namespace erne {
namespace {

using ::testing::ElementsAreArray;
using ::testing::HasSubstr;
using ::testing::Not;

// What a scrape says: the value of each series, as `name{labels}`, and the families in order.
struct Scrape {
  explicit Scrape(const std::string& text) {
    for (const std::string& line : Split(text, '\n')) {
      if (line.empty() || line.starts_with("# HELP ")) continue;
      if (line.starts_with("# TYPE ")) {
        families.push_back(Split(line, ' ')[2]);
        continue;
      }
      const size_t space = line.rfind(' ');
      const std::string series = line.substr(0, space);
      EXPECT_TRUE(
          values.emplace(series, ParseNumber<double>(line.substr(space + 1)).value()).second)
          << series << " twice";
      EXPECT_TRUE(series.starts_with(families.back())) << series << " in " << families.back();
    }
  }
  double operator[](const std::string& series) const {
    const auto found = values.find(series);
    EXPECT_NE(found, values.end()) << "no " << series;
    return found == values.end() ? -1 : found->second;
  }

  std::map<std::string, double> values;
  std::vector<std::string> families;
};

constexpr const char* kLabels = R"({engine="0",model_name="erne \"mini\""})";

// `name` of the only model, with `more` labels after its own.
std::string Of(const std::string& name, const std::string& more = "") {
  std::string labels = kLabels;
  labels.insert(labels.size() - 1, more.empty() ? "" : "," + more);
  return name + labels;
}

class MetricsTest : public testing::Test {
 protected:
  Scrape Ask() {
    const ModelState state{model_->model(), stats_, before_};
    return Scrape(metrics_.Text(std::span(&state, 1)));
  }
  double Count(const std::string& histogram) { return Ask()[Of(histogram + "_count")]; }
  double Sum(const std::string& histogram) { return Ask()[Of(histogram + "_sum")]; }

  Metrics metrics_;
  std::shared_ptr<ModelMetrics> model_ = metrics_.AddModel(
      {.name = "erne \"mini\"", .max_context = 4096, .block_size = 16, .prefix_caching = true});
  EngineStats stats_;
  EngineStats before_;
};

TEST_F(MetricsTest, BeforeAModelThereAreThoseOfHttp) {
  Metrics metrics;
  EXPECT_EQ(metrics.Text({}), "");
  metrics.CountRequest("/health", "GET", 503, 0.002);
  metrics.CountRequest("/health", "GET", 200, 0.004);
  metrics.CountRequest("/health", "GET", 204, 0.02);
  metrics.CountRequest("none", "other", 413, std::nullopt);
  const Scrape scrape(metrics.Text({}));
  EXPECT_EQ(scrape.families,
            (std::vector<std::string>{"http_requests_total", "http_request_duration_seconds"}));
  EXPECT_EQ(scrape[R"(http_requests_total{handler="/health",method="GET",status="5xx"})"], 1);
  EXPECT_EQ(scrape[R"(http_requests_total{handler="/health",method="GET",status="2xx"})"], 2);
  EXPECT_EQ(scrape[R"(http_requests_total{handler="none",method="other",status="4xx"})"], 1);
  const std::string labels = R"(handler="/health",method="GET")";
  EXPECT_EQ(scrape[StrCat("http_request_duration_seconds_count{", labels, "}")], 3);
  EXPECT_NEAR(scrape[StrCat("http_request_duration_seconds_sum{", labels, "}")], 0.026, 1e-9);
  EXPECT_EQ(scrape[StrCat("http_request_duration_seconds_bucket{", labels, R"(,le="0.005"})")], 2);
  EXPECT_EQ(scrape.values.size(), 3U + (12 + 1) + 2) << "the buckets, +Inf, sum and count";
}

TEST_F(MetricsTest, StatesAndTotalsAreTheEngines) {
  before_ = {.prompt_tokens = 5, .generated_tokens = 3, .preemptions = 1};
  stats_ = {.running = 3,
            .waiting = 2,
            .kv_blocks_used = 93,
            .kv_blocks_total = 100,
            .prompt_tokens = 105,
            .generated_tokens = 53,
            .preemptions = 2,
            .prefix_queries = 64,
            .prefix_hits = 48,
            .blocks_taken = 20,
            .blocks_reused = 15,
            .kv_tokens = 700,
            .drafted_tokens = 9,
            .accepted_tokens = 8,
            .failed_steps = 1};
  const Scrape scrape = Ask();
  EXPECT_EQ(scrape[Of("vllm:num_requests_running")], 3);
  EXPECT_EQ(scrape[Of("vllm:num_requests_waiting")], 2);
  EXPECT_DOUBLE_EQ(scrape[Of("vllm:kv_cache_usage_perc")], 0.93);
  EXPECT_DOUBLE_EQ(scrape[Of("vllm:gpu_cache_usage_perc")], 0.93);
  EXPECT_EQ(scrape[Of("erne:kv_cache_pressure")], 1);
  EXPECT_EQ(scrape[Of("erne:kv_cache_tokens")], 700);
  EXPECT_EQ(scrape[Of("vllm:cache_config_info",
                      R"(block_size="16",enable_prefix_caching="True",num_gpu_blocks="100")")],
            1);
  EXPECT_EQ(scrape[Of("vllm:prompt_tokens_total")], 100 + 48);
  EXPECT_EQ(scrape[Of("vllm:generation_tokens_total")], 50);
  EXPECT_EQ(scrape[Of("vllm:num_preemptions_total")], 1);
  EXPECT_EQ(scrape[Of("vllm:prefix_cache_queries_total")], 64);
  EXPECT_EQ(scrape[Of("vllm:prefix_cache_hits_total")], 48);
  EXPECT_EQ(scrape[Of("vllm:spec_decode_num_draft_tokens_total")], 9);
  EXPECT_EQ(scrape[Of("vllm:spec_decode_num_accepted_tokens_total")], 8);
  EXPECT_EQ(scrape[Of("erne:kv_blocks_taken_total")], 20);
  EXPECT_EQ(scrape[Of("erne:kv_blocks_reused_total")], 15);
  EXPECT_EQ(scrape[Of("erne:failed_steps_total")], 1);
  stats_.kv_blocks_used = 92;
  EXPECT_EQ(Ask()[Of("erne:kv_cache_pressure")], 0);
}

TEST_F(MetricsTest, ARequestsTimes) {
  RequestRecord request{.id = "a",
                        .arrived = 100,
                        .started = 100.25,
                        .first_token = 100.75,
                        .last_token = 103.75,
                        .ended = 103.75,
                        .prompt_tokens = 1200,
                        .generated_tokens = 30,
                        .max_tokens = 64,
                        .finish = FinishReason::kStop};
  model_->OnEnd(request);
  EXPECT_EQ(Sum("vllm:request_prompt_tokens"), 1200);
  EXPECT_EQ(Sum("vllm:request_generation_tokens"), 30);
  EXPECT_EQ(Sum("vllm:request_max_num_generation_tokens"), 30);
  EXPECT_EQ(Sum("vllm:request_params_max_tokens"), 64);
  EXPECT_EQ(Sum("vllm:e2e_request_latency_seconds"), 3.75);
  EXPECT_EQ(Sum("vllm:request_queue_time_seconds"), 0.25);
  EXPECT_EQ(Sum("vllm:request_inference_time_seconds"), 3.5);
  EXPECT_EQ(Sum("vllm:request_prefill_time_seconds"), 0.5);
  EXPECT_EQ(Sum("vllm:request_decode_time_seconds"), 3);
  const Scrape scrape = Ask();
  EXPECT_EQ(scrape[Of("vllm:request_prompt_tokens_bucket", R"(le="1000")")], 0);
  EXPECT_EQ(scrape[Of("vllm:request_prompt_tokens_bucket", R"(le="2000")")], 1);
  EXPECT_EQ(scrape.values.contains(Of("vllm:request_prompt_tokens_bucket", R"(le="5000")")), false)
      << "beyond the context";
}

TEST_F(MetricsTest, EveryEndIsCountedAndOnlyWholeAnswersAreTimed) {
  const std::pair<std::optional<FinishReason>, int> ends[] = {{FinishReason::kStop, 1},
                                                              {FinishReason::kLength, 2},
                                                              {FinishReason::kRepetition, 3},
                                                              {FinishReason::kAbort, 4},
                                                              {std::nullopt, 5}};
  for (const auto& [finish, times] : ends) {
    for (int i = 0; i < times; ++i) model_->OnEnd({.generated_tokens = 1, .finish = finish});
  }
  const Scrape scrape = Ask();
  const std::pair<const char*, int> expected[] = {
      {"stop", 1}, {"length", 2}, {"repetition", 3}, {"error", 4}, {"abort", 5}};
  for (const auto& [reason, times] : expected) {
    EXPECT_EQ(scrape[StrCat(R"(vllm:request_success_total{engine="0",finished_reason=")", reason,
                            R"(",model_name="erne \"mini\""})")],
              times);
  }
  EXPECT_EQ(Count("vllm:request_generation_tokens"), 6);
  EXPECT_EQ(Count("vllm:e2e_request_latency_seconds"), 6);
}

TEST_F(MetricsTest, StepsTokensAndBlocks) {
  model_->OnStep({.rows = 100, .sequences = 3, .seconds = 0.01});
  model_->OnStep({.rows = 16, .sequences = 16, .seconds = 0.01});
  model_->OnFirstToken(0.01);
  model_->OnNextToken(0.002);
  model_->OnNextToken(0);
  model_->OnBlockReused(4);
  model_->OnBlockEvicted({.lived = 30, .idle = 20});
  model_->OnAccepted(3);
  const Scrape scrape = Ask();
  EXPECT_EQ(scrape[Of("vllm:iteration_tokens_total_sum")], 116);
  EXPECT_EQ(scrape[Of("vllm:iteration_tokens_total_bucket", R"(le="16")")], 1);
  EXPECT_EQ(scrape[Of("vllm:time_to_first_token_seconds_bucket", R"(le="0.005")")], 0);
  EXPECT_EQ(scrape[Of("vllm:time_to_first_token_seconds_bucket", R"(le="0.01")")], 1)
      << "an end belongs to its bucket";
  EXPECT_EQ(scrape[Of("vllm:inter_token_latency_seconds_count")], 2);
  EXPECT_EQ(scrape[Of("vllm:time_per_output_token_seconds_count")], 2);
  EXPECT_EQ(scrape[Of("vllm:kv_block_reuse_gap_seconds_sum")], 4);
  EXPECT_EQ(scrape[Of("vllm:kv_block_lifetime_seconds_sum")], 30);
  EXPECT_EQ(scrape[Of("vllm:kv_block_idle_before_evict_seconds_sum")], 20);
  EXPECT_EQ(scrape[Of("vllm:request_params_n_sum")], 3);
}

TEST_F(MetricsTest, ModelsShareFamilies) {
  const auto other = metrics_.AddModel({.name = "other", .max_context = 10});
  other->OnAccepted(1);
  const ModelState states[] = {{model_->model(), stats_, before_},
                               {other->model(), stats_, before_}};
  const Scrape scrape(metrics_.Text(states));
  EXPECT_EQ(scrape[R"(vllm:request_params_n_count{engine="0",model_name="other"})"], 1);
  EXPECT_EQ(scrape[Of("vllm:request_params_n_count")], 0);
  EXPECT_EQ(scrape[R"(vllm:num_requests_running{engine="0",model_name="other"})"], 0);
  EXPECT_EQ(std::set<std::string>(scrape.families.begin(), scrape.families.end()).size(),
            scrape.families.size());
}

// docs/metrics.md and its translation have a table row for each name, and for no other.
TEST_F(MetricsTest, TheNamesAreTheDocumentedOnes) {
  metrics_.CountRequest("/", "GET", 200, 0.1);
  const Scrape scrape = Ask();
  for (const char* page : {"docs/metrics.md", "docs/metrics.zh.md"}) {
    std::ifstream file(SourceFolder(page));
    std::vector<std::string> documented;
    const std::regex row("^\\| `([a-z_:0-9]+)` \\|.*");
    for (std::string line; std::getline(file, line);) {
      std::smatch match;
      if (std::regex_match(line, match, row)) documented.push_back(match[1]);
    }
    std::vector<std::string> families = scrape.families;
    std::sort(families.begin(), families.end());
    std::sort(documented.begin(), documented.end());
    EXPECT_THAT(documented, ElementsAreArray(families)) << page;
  }
}

TEST_F(MetricsTest, ScrapesAndEventsMayComeTogether) {
  std::thread engine([&] {
    for (int i = 0; i < 20'000; ++i) model_->OnNextToken(0.001);
  });
  std::thread http([&] {
    for (int i = 0; i < 2'000; ++i) metrics_.CountRequest("/", "GET", 200, 0.1);
  });
  for (int i = 0; i < 50; ++i) EXPECT_THAT(metrics_.Text({}), Not(HasSubstr("nan")));
  engine.join();
  http.join();
  EXPECT_EQ(Count("vllm:inter_token_latency_seconds"), 20'000);
  EXPECT_EQ(Ask()[R"(http_requests_total{handler="/",method="GET",status="2xx"})"], 2'000);
}

}  // namespace
}  // namespace erne
