#include "executor/cuda/row_sampler.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/strings.h"
#include "executor/cuda/row_adjuster.h"
#include "executor/cuda/sampling_plan.h"
#include "sampling/sampler.h"

namespace erne::cuda {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr int kPartTokens = 4096;

// A block of one thread.
struct HostBlock {
  template <typename Body>
  void For(int count, const Body& body) {
    for (int i = 0; i < count; ++i) body(i);
  }
  void Wait() {}
  void Scan(uint64_t* values, int count) { std::partial_sum(values, values + count, values); }
  int32_t Add(int32_t* to, int32_t value) {
    const int32_t before = *to;
    *to += value;
    return before;
  }
  void Min(int32_t* to, int32_t value) { *to = std::min(*to, value); }
  void Max(uint32_t* to, uint32_t value) { *to = std::max(*to, value); }
};

uint64_t Scramble(uint64_t z) {
  z *= 0x9E3779B97F4A7C15ULL;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
  return z ^ (z >> 27);
}
float Uniform(uint64_t index) { return static_cast<float>(Scramble(index) >> 40) * 0x1p-24F; }

// Like a model's: a long tail of improbable tokens and a few probable ones, with ties.
std::vector<float> Logits(int64_t vocab, uint64_t seed) {
  std::vector<float> logits(static_cast<size_t>(vocab));
  for (size_t i = 0; i < logits.size(); ++i) {
    const uint64_t at = seed * 1000003 + i;
    const float tail = -12.0F + 6.0F * (Uniform(at) + Uniform(at ^ 0x5555));
    const float peak = Uniform(at ^ 0xAAAA) < 0.002F ? 14.0F * Uniform(at ^ 0x1234) : 0.0F;
    logits[i] = std::round((tail + peak) * 8) / 8;
  }
  return logits;
}

// What the kernels of sampling.cu leave to RowSampler.
struct Chunks {
  std::vector<uint32_t> maxima;
  std::vector<uint64_t> sums;
  Chunks(const std::vector<float>& logits, double inverse) {
    for (size_t begin = 0; begin < logits.size(); begin += kChunkTokens) {
      const size_t end = std::min(logits.size(), begin + kChunkTokens);
      uint32_t max = 0;
      for (size_t i = begin; i < end; ++i) max = std::max(max, CheckedKey(logits[i]));
      maxima.push_back(max);
    }
    const double max = LogitOf(*std::max_element(maxima.begin(), maxima.end()));
    for (size_t begin = 0; begin < logits.size(); begin += kChunkTokens) {
      const size_t end = std::min(logits.size(), begin + kChunkTokens);
      uint64_t sum = 0;
      for (size_t i = begin; i < end; ++i) {
        sum += sampling::FixedExp((static_cast<double>(logits[i]) - max) * inverse);
      }
      sums.push_back(sum);
    }
  }
  ChunkView View(const std::vector<float>& logits) const {
    return {logits.data(), maxima.data(), sums.data()};
  }
};

class RowSamplerTest : public testing::Test {
 protected:
  // The device's way. token -1: it leaves the row to the host.
  RowResult Choose(const std::vector<float>& logits, const TokenChoice& choice) {
    const auto vocab = static_cast<int64_t>(logits.size());
    std::vector<RowTask> tasks(1);
    std::vector<uint32_t> words(static_cast<size_t>(SamplingPlan::MostWords(vocab, 1)));
    SamplingPlan plan(vocab, tasks, words);
    EXPECT_TRUE(plan.Add(0, choice));
    const RowTask& task = tasks[0];
    std::vector<float> adjusted = logits;
    if (task.adjusts != 0) {
      for (int begin = 0; begin < vocab; begin += kPartTokens) {
        const int end = std::min(begin + kPartTokens, static_cast<int>(vocab));
        RowAdjuster(block_, task, words.data(), begin, end).Adjust(logits.data(), adjusted.data());
      }
    }
    const Chunks raw_chunks(logits, 1.0);
    const Chunks chunks(adjusted, task.inverse);
    const SampledRow row = {raw_chunks.View(logits), chunks.View(adjusted),
                            static_cast<int>(vocab)};
    RowResult result;
    RowSampler(block_, *space_, row, task).Choose(&result);
    return result;
  }

  // Both ways, at several places of the sequence. Returns how many rows the device left alone.
  int ExpectEqual(const std::vector<float>& logits, const SamplingParams& params,
                  const TokenBans& bans, const std::string& what) {
    const auto vocab = static_cast<int64_t>(logits.size());
    SamplerScratch scratch(vocab);
    const std::vector<int32_t> prompt = {3, 1, 4, 1, 5};
    RequestSampler sampler(params, vocab, prompt);
    std::vector<int32_t> output;
    int left = 0;
    for (int step = 0; step < 12; ++step) {
      const SamplePoint point = {
          .position = prompt.size() + output.size(), .output = output, .bans = bans};
      const Result<SampledToken> expected = sampler.Sample(logits, point, scratch);
      EXPECT_TRUE(expected.ok()) << what << ": " << expected.status().message();
      const RowResult result = Choose(logits, {&sampler, point});
      if (result.token < 0) {
        ++left;
      } else {
        const SampledToken got = ToSampledToken(result, params);
        EXPECT_EQ(got.token, expected->token) << what << ", step " << step;
        EXPECT_EQ(got.logprobs.size(), expected->logprobs.size()) << what;
        for (size_t i = 0; i < std::min(got.logprobs.size(), expected->logprobs.size()); ++i) {
          EXPECT_EQ(got.logprobs[i].token, expected->logprobs[i].token) << what << ", " << i;
          EXPECT_EQ(got.logprobs[i].logprob, expected->logprobs[i].logprob) << what << ", " << i;
        }
      }
      output.push_back(expected->token);
      sampler.Accept(expected->token);
    }
    return left;
  }

  HostBlock block_;
  std::unique_ptr<SamplerSpace> space_ = std::make_unique<SamplerSpace>();
};

TEST_F(RowSamplerTest, KeysAreInTheOrderOfLogits) {
  const std::vector<float> rising = {-kInfinity, -3e38F, -1.0F, -1e-40F, 0.0F, 1e-40F, 2.0F, 3e38F};
  for (size_t i = 0; i < rising.size(); ++i) {
    EXPECT_EQ(LogitOf(LogitKey(rising[i])), rising[i]);
    const uint32_t below = i == 0 ? 0 : LogitKey(rising[i - 1]);
    EXPECT_LT(below, LogitKey(rising[i]));
    EXPECT_LT(CheckedKey(rising[i]), kInvalidKey);
  }
  EXPECT_EQ(LogitKey(-0.0F), LogitKey(0.0F));
  EXPECT_EQ(LogitKey(-kInfinity), kMinusInfinityKey);
  EXPECT_EQ(CheckedKey(kInfinity), kInvalidKey);
  EXPECT_EQ(CheckedKey(std::nanf("")), kInvalidKey);
}

// Every combination of what picks tokens, on vocabularies that fill chunks and parts and such that
// do not.
TEST_F(RowSamplerTest, ChoosesTheTokensOfTheHostsSampler) {
  int rows = 0;
  for (const int64_t vocab : {int64_t{37}, int64_t{4096}, int64_t{9001}}) {
    for (const float temperature : {0.0F, 0.05F, 0.8F, 1.7F}) {
      for (const int32_t top_k : {0, 1, 40, 5000}) {
        for (const float top_p : {1.0F, 0.8F, 0.1F}) {
          for (const float min_p : {0.0F, 0.05F, 1.0F}) {
            SamplingParams params;
            params.temperature = temperature;
            params.top_k = top_k;
            params.top_p = top_p;
            params.min_p = min_p;
            params.seed = static_cast<uint64_t>(++rows);
            const int left =
                ExpectEqual(Logits(vocab, params.seed), params, {},
                            StrCat("vocab ", vocab, " temperature ", temperature, " top_k ", top_k,
                                   " top_p ", top_p, " min_p ", min_p));
            // Only the widest choices may be too much for it: flat rows, and more tokens than
            // there are chunks whose largest logits could set a bar.
            const bool wide =
                temperature > 1.0F || (top_k > vocab / kChunkTokens && vocab > kMostCandidates);
            EXPECT_TRUE(left == 0 || wide) << "temperature " << temperature << " top_k " << top_k;
          }
        }
      }
    }
  }
}

TEST_F(RowSamplerTest, AdjustsLogitsAsTheHostDoes) {
  constexpr int64_t kVocab = 9001;
  std::vector<int32_t> allowed(kVocab / 2);
  for (size_t i = 0; i < allowed.size(); ++i) allowed[i] = static_cast<int32_t>(2 * i + i % 3 % 2);
  std::vector<uint32_t> mask((kVocab + 31) / 32);
  for (size_t i = 0; i < mask.size(); ++i) mask[i] = static_cast<uint32_t>(Scramble(i));
  const std::vector<int32_t> banned = {0, 17, 4096, 9000};
  const TokenBans none;
  const TokenBans place = {.banned = banned, .allowed = mask};
  const std::vector<SamplingParams> cases = {
      {.temperature = 0, .repetition_penalty = 1.3F},
      {.repetition_penalty = 0.7F, .seed = 5, .presence_penalty = 1.5F, .frequency_penalty = 0.5F},
      {.temperature = 0.7F, .top_p = 0.9F, .seed = 6, .frequency_penalty = -2.0F},
      {.temperature = 0.9F,
       .seed = 7,
       .logit_bias = {{3, 100.0F}, {4500, 12.0F}, {17, 50.0F}, {9000, -3.0F}}},
      {.temperature = 0.9F, .seed = 8, .bad_words = {{12}, {5, 13}}, .allowed_tokens = allowed},
      {.temperature = 0, .repetition_penalty = 1e-30F, .presence_penalty = -2.0F},
  };
  for (size_t i = 0; i < cases.size(); ++i) {
    for (const TokenBans& bans : {none, place}) {
      EXPECT_EQ(ExpectEqual(Logits(kVocab, i), cases[i], bans, StrCat("case ", i)), 0);
    }
  }
}

TEST_F(RowSamplerTest, LogProbabilitiesAreOfTheRawLogits) {
  for (const int32_t count : {0, 1, 5, kMostTopLogits}) {
    const std::vector<SamplingParams> cases = {
        {.temperature = 0, .logprobs = count},
        {.temperature = 0.8F, .top_p = 0.8F, .seed = 3, .logprobs = count},
        {.temperature = 1.0F,
         .repetition_penalty = 1.4F,
         .seed = 4,
         .logit_bias = {{2000, 20.0F}},
         .logprobs = count}};
    for (size_t i = 0; i < cases.size(); ++i) {
      EXPECT_EQ(ExpectEqual(Logits(9001, 100 + i), cases[i], {}, StrCat("case ", i)), 0);
    }
  }
}

// What it cannot judge is the host's: rows that are no numbers, rows without a token to choose,
// rows so flat that their candidates do not fit.
TEST_F(RowSamplerTest, LeavesOddRowsToTheHost) {
  const std::vector<int32_t> prompt = {1};
  const auto token = [&](const std::vector<float>& logits, const SamplingParams& params) {
    const RequestSampler sampler(params, static_cast<int64_t>(logits.size()), prompt);
    return Choose(logits, {&sampler, {.position = 1}}).token;
  };
  std::vector<float> logits = Logits(5000, 1);
  EXPECT_GE(token(logits, {.temperature = 0}), 0);
  logits[4711] = std::nanf("");
  EXPECT_EQ(token(logits, {.temperature = 0}), -1);
  logits[4711] = kInfinity;
  EXPECT_EQ(token(logits, {}), -1);
  EXPECT_EQ(token(std::vector<float>(5000, -kInfinity), {}), -1);
  EXPECT_EQ(token({1, 2}, {.bad_words = {{0}, {1}}}), -1);
  EXPECT_EQ(token(std::vector<float>(5000, 1.0F), {.top_p = 0.9F}), -1);
  EXPECT_GE(token(std::vector<float>(5000, 1.0F), {}), 0);
}

TEST(SamplingPlan, RefusesWhatTheDeviceDoesNotDo) {
  std::vector<RowTask> tasks(4);
  std::vector<uint32_t> words(64);
  SamplingPlan plan(1000, tasks, words);
  const std::vector<int32_t> prompt = {1};
  const auto add = [&](const SamplingParams& params) {
    const RequestSampler sampler(params, 1000, prompt);
    return plan.Add(0, {&sampler, {.position = 1}});
  };
  EXPECT_FALSE(add({.logprobs = kMostTopLogits + 1}));
  EXPECT_FALSE(add({.logprobs = 1, .logprob_tokens = {4}}));
  EXPECT_EQ(plan.num_tasks(), 0);
  EXPECT_TRUE(add({.repetition_penalty = 2}));  // a bitmap of 32 words
  EXPECT_TRUE(add({.repetition_penalty = 2}));
  EXPECT_FALSE(add({.repetition_penalty = 2})) << "there is room for two";
  EXPECT_TRUE(add({.temperature = 0}));
  EXPECT_EQ(plan.num_tasks(), 3);
  EXPECT_EQ(plan.num_words(), 64);
  plan.Clear();
  EXPECT_EQ(plan.num_tasks(), 0);
  EXPECT_FALSE(plan.weighs());
}

}  // namespace
}  // namespace erne::cuda
