// erne_bench_sampling: what choosing one token costs, on one core.
//
//   erne_bench_sampling [--vocab N] [--turns N]
//
// Two rows of logits: a peaked one, as trained models give where they are sure (a handful of tokens
// holds nearly all of the probability), and a flat one, as random weights give (tens of thousands
// share it), which is the hard case for a sampler that selects.
//
// Nothing is timed before it is verified: for each case, the tokens of some positions must be those
// of sorting_sampler.h. Cases take
// turns, so that a noisy machine is noisy for all of them. Rows are used in rotation and exceed the
// second-level cache together, as the rows of a step do that other cores have just written.
#include <algorithm>
#include <cstdio>
#include <random>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "base/strings.h"
#include "bench/roof.h"
#include "cli/command.h"
#include "cli/flags.h"
#include "sampling/sampler.h"
#include "sampling/sorting_sampler.h"

namespace erne {
namespace {

constexpr size_t kRows = 8;
constexpr uint64_t kVerified = 50;  // positions

// A trained model's row: noise, and on top of it some tokens that matter.
std::vector<float> PeakedRow(size_t vocab, std::mt19937& random) {
  std::normal_distribution<float> noise(-4.0F, 2.5F);
  std::vector<float> row(vocab);
  for (float& logit : row) logit = noise(random);
  for (int i = 0; i < 40; ++i) row[random() % vocab] = 18.0F - 0.35F * static_cast<float>(i);
  return row;
}

std::vector<float> FlatRow(size_t vocab, std::mt19937& random) {
  std::normal_distribution<float> noise(0.0F, 2.0F);
  std::vector<float> row(vocab);
  for (float& logit : row) logit = noise(random);
  return row;
}

struct SamplingCase {
  std::string name;
  SamplingParams params;
  const std::vector<std::vector<float>>* rows;
  std::vector<double> seconds = {};
};

Status Verify(const SamplingCase& sampled, SamplerScratch& scratch) {
  const std::vector<std::vector<float>>& rows = *sampled.rows;
  const RequestSampler sampler(sampled.params, static_cast<int64_t>(rows[0].size()), {});
  for (uint64_t position = 0; position < kVerified; ++position) {
    const std::vector<float>& row = rows[position % rows.size()];
    ERNE_ASSIGN_OR_RETURN(const SampledToken token,
                          sampler.Sample(row, {.position = position}, scratch));
    const int32_t expected = SampleBySorting(row, sampled.params, position);
    if (token.token != expected) {
      return Internal(StrCat(sampled.name, ": at position ", position, " the sampler chose ",
                             token.token, ", the rules choose ", expected));
    }
  }
  return {};
}

// Seconds of one token.
Result<double> Time(const SamplingCase& sampled, SamplerScratch& scratch) {
  constexpr uint64_t kTokens = 40;
  const std::vector<std::vector<float>>& rows = *sampled.rows;
  const RequestSampler sampler(sampled.params, static_cast<int64_t>(rows[0].size()), {});
  const double begin = SteadySeconds();
  for (uint64_t position = 0; position < kTokens; ++position) {
    ERNE_RETURN_IF_ERROR(
        sampler.Sample(rows[position % rows.size()], {.position = position}, scratch).status());
  }
  return (SteadySeconds() - begin) / static_cast<double>(kTokens);
}

Status Measure(int64_t vocab, int64_t turns) {
  std::mt19937 random(1);
  std::vector<std::vector<float>> peaked;
  std::vector<std::vector<float>> flat;
  for (size_t i = 0; i < kRows; ++i) {
    peaked.push_back(PeakedRow(static_cast<size_t>(vocab), random));
    flat.push_back(FlatRow(static_cast<size_t>(vocab), random));
  }
  std::vector<SamplingCase> cases;
  for (const auto* rows : {&peaked, &flat}) {
    const std::string kind = rows == &peaked ? "peaked" : "flat";
    cases.push_back({kind + ", greedy", {.temperature = 0}, rows});
    cases.push_back(
        {kind + ", greedy with 5 log-probabilities", {.temperature = 0, .logprobs = 5}, rows});
    cases.push_back({kind + ", temperature 0.8", {.temperature = 0.8F}, rows});
    cases.push_back(
        {kind + ", temperature 0.8, top-p 0.95", {.temperature = 0.8F, .top_p = 0.95F}, rows});
    cases.push_back(
        {kind + ", temperature 0.8, top-k 50", {.temperature = 0.8F, .top_k = 50}, rows});
    cases.push_back(
        {kind + ", temperature 0.8, min-p 0.05", {.temperature = 0.8F, .min_p = 0.05F}, rows});
  }
  SamplerScratch scratch(vocab);
  for (const SamplingCase& sampled : cases) ERNE_RETURN_IF_ERROR(Verify(sampled, scratch));
  for (int64_t turn = 0; turn < turns; ++turn) {
    for (SamplingCase& sampled : cases) {
      ERNE_ASSIGN_OR_RETURN(const double seconds, Time(sampled, scratch));
      sampled.seconds.push_back(seconds);
    }
  }
  std::printf("%lld tokens in the vocabulary; medians of %lld turns, one core\n\n",
              static_cast<long long>(vocab), static_cast<long long>(turns));
  std::printf("| row, rule | microseconds a token | fastest, slowest |\n| --- | --- | --- |\n");
  for (const SamplingCase& sampled : cases) {
    const auto [low, high] = std::minmax_element(sampled.seconds.begin(), sampled.seconds.end());
    std::printf("| %s | %.0f | %.0f, %.0f |\n", sampled.name.c_str(),
                1e6 * bench::Median(sampled.seconds), 1e6 * *low, 1e6 * *high);
  }
  return {};
}

int Main(const std::vector<std::string>& arguments) {
  int64_t vocab = 103424;
  int64_t turns = 9;
  FlagTable flags("erne_bench_sampling [flags]",
                  {"Measures what choosing one token costs, on one core.",
                   "测量在单核上选取一个 token 的开销。"});
  flags.Add("vocab", &vocab, "N", {"Size of the vocabulary", "词表大小"}).Range(100, 1 << 23);
  flags.Add("turns", &turns, "N", {"Of which the median counts", "轮数，取中位数"}).Range(1, 1000);
  if (const std::optional<int> end = ParseOrEnd("erne_bench_sampling", flags, arguments)) {
    return *end;
  }
  if (const Status status = Measure(vocab, turns); !status.ok()) {
    std::fprintf(stderr, "erne_bench_sampling: %s\n", status.message().c_str());
    return 1;
  }
  return 0;
}

}  // namespace
}  // namespace erne

int main(int argc, char** argv) { return erne::Main({argv + 1, argv + argc}); }
