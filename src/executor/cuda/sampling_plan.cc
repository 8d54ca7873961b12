#include "executor/cuda/sampling_plan.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/check.h"
#include "sampling/philox.h"

namespace erne::cuda {

uint32_t* SamplingPlan::Take(size_t words, int32_t* offset) {
  if (words_.size() - static_cast<size_t>(num_words_) < words) return nullptr;
  *offset = static_cast<int32_t>(num_words_);
  num_words_ += static_cast<int64_t>(words);
  return words_.data() + *offset;
}

// An empty set stays without a bitmap.
bool SamplingPlan::AddBitmap(std::span<const uint64_t> set, int32_t* offset) {
  static_assert(std::endian::native == std::endian::little);
  if (set.empty()) return true;
  uint32_t* const words = Take(set.size() * 2, offset);
  if (words == nullptr) return false;
  std::memcpy(words, set.data(), set.size_bytes());
  return true;
}

bool SamplingPlan::AddEdits(const TokenChoice& choice, RowTask& task) {
  const LogitAdjuster& adjuster = choice.sampler->adjuster();
  const SamplingParams& params = choice.sampler->params();
  const TokenBans& bans = choice.point.bans;
  task.adjusts = 1;
  task.repetition_penalty = params.repetition_penalty;
  task.presence_penalty = params.presence_penalty;
  task.frequency_penalty = params.frequency_penalty;
  if (!AddBitmap(adjuster.allowed(), &task.allowed) || !AddBitmap(adjuster.seen(), &task.seen)) {
    return false;
  }
  if (!bans.allowed.empty()) {
    uint32_t* const mask = Take(bans.allowed.size(), &task.mask);
    if (mask == nullptr) return false;
    std::copy(bans.allowed.begin(), bans.allowed.end(), mask);
  }
  uint32_t* out = Take(params.bad_words.size() + bans.banned.size(), &task.banned);
  if (out == nullptr) return false;
  adjuster.ForEachBanned(choice.point.output, bans, [&](int32_t token) {
    out[task.num_banned++] = static_cast<uint32_t>(token);
  });
  out = Take(2 * params.logit_bias.size(), &task.biases);
  if (out == nullptr) return false;
  for (const LogitBias& bias : params.logit_bias) {
    out[2 * task.num_biases] = static_cast<uint32_t>(bias.token);
    out[2 * task.num_biases++ + 1] = std::bit_cast<uint32_t>(bias.bias);
  }
  out = Take(2 * adjuster.counted().size(), &task.counted);
  if (out == nullptr) return false;
  for (const TokenCounts::Entry& entry : adjuster.counted()) {
    out[2 * task.num_counted] = static_cast<uint32_t>(entry.token);
    out[2 * task.num_counted++ + 1] = static_cast<uint32_t>(entry.count);
  }
  return true;
}

bool SamplingPlan::Add(int32_t logit_row, const TokenChoice& choice) {
  const SamplingParams& params = choice.sampler->params();
  if (params.logprobs > kMostTopLogits || !params.logprob_tokens.empty()) return false;
  ERNE_CHECK(num_tasks_ < static_cast<int64_t>(tasks_.size()));
  RowTask& task = tasks_[static_cast<size_t>(num_tasks_)];
  task = {};
  task.logit_row = logit_row;
  task.temperature = params.temperature;
  task.top_logits = static_cast<int32_t>(
      params.logprobs < 0 ? -1 : std::min<int64_t>(params.logprobs, vocab_size_));
  if (!task.greedy()) {
    task.inverse = 1.0 / static_cast<double>(params.temperature);
    task.bits = RandomBitsAt(params.seed, choice.point.position);
    task.least = LeastWeight(params);
    task.top_p = params.top_p;
    task.top_k = params.top_k > 0 && params.top_k < vocab_size_ ? params.top_k : 0;
  }
  const int64_t words_before = num_words_;
  if (choice.sampler->adjuster().Adjusts(choice.point.bans) && !AddEdits(choice, task)) {
    num_words_ = words_before;
    return false;
  }
  weighs_ |= (!task.greedy() && task.ranks_all()) || task.top_logits >= 0;
  ++num_tasks_;
  return true;
}

SampledToken ToSampledToken(const RowResult& result, const SamplingParams& params) {
  SampledToken sampled{.token = result.token};
  if (params.logprobs < 0) return sampled;
  sampled.logprobs.reserve(static_cast<size_t>(params.logprobs) + 1);
  const auto add = [&](int32_t token, float logit) {
    sampled.logprobs.push_back({token, LogprobOf(logit, result.max, result.sum)});
  };
  add(result.token, result.logit);
  for (int32_t i = 0; i < params.logprobs; ++i) add(result.top[i].token, result.top[i].logit);
  return sampled;
}

}  // namespace erne::cuda
