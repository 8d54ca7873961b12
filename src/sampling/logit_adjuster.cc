#include "sampling/logit_adjuster.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "base/check.h"
#include "sampling/draw_rules.h"

namespace erne {
namespace {

constexpr float kBanned = -std::numeric_limits<float>::infinity();

// Whole words first: of a mask most are full or empty.
void BanAllBut(std::span<const uint32_t> allowed, std::span<float> logits) {
  constexpr size_t kBits = 32;
  ERNE_CHECK(allowed.size() == (logits.size() + kBits - 1) / kBits);
  for (size_t word = 0; word < allowed.size(); ++word) {
    const uint32_t bits = allowed[word];
    if (bits == ~uint32_t{0}) continue;
    const size_t begin = word * kBits;
    const size_t count = std::min(kBits, logits.size() - begin);
    if (bits == 0) {
      std::fill_n(logits.begin() + static_cast<ptrdiff_t>(begin), count, kBanned);
      continue;
    }
    for (size_t bit = 0; bit < count; ++bit) {
      if ((bits >> bit & 1) == 0) logits[begin + bit] = kBanned;
    }
  }
}

}  // namespace

void TokenCounts::Add(int32_t token) {
  const auto at =
      std::lower_bound(entries_.begin(), entries_.end(), token,
                       [](const Entry& entry, int32_t wanted) { return entry.token < wanted; });
  if (at != entries_.end() && at->token == token) {
    ++at->count;
  } else {
    entries_.insert(at, {token, 1});
  }
}

LogitAdjuster::LogitAdjuster(const SamplingParams& params, int64_t vocab_size,
                             std::span<const int32_t> prompt)
    : params_(params),
      adjusts_(repeats() || counts() || restricts() || !params.logit_bias.empty() ||
               !params.bad_words.empty()),
      allowed_(restricts() ? vocab_size : 0),
      seen_(repeats() ? vocab_size : 0) {
  for (const int32_t token : params.allowed_tokens) allowed_.Add(token);
  if (!repeats()) return;
  for (const int32_t token : prompt) seen_.Add(token);
}

void LogitAdjuster::Reserve(int64_t output_tokens) {
  if (counts()) output_.Reserve(static_cast<size_t>(output_tokens));
}

void LogitAdjuster::Add(int32_t token) {
  if (repeats()) seen_.Add(token);
  if (counts()) output_.Add(token);
}

void LogitAdjuster::BanAllButAllowed(std::span<float> logits) const {
  const std::span<const uint64_t> words = allowed_.words();
  for (size_t token = 0; token < logits.size(); ++token) {
    if ((words[token >> 6] >> (token & 63) & 1) == 0) logits[token] = kBanned;
  }
}

bool LogitAdjuster::Completes(std::span<const int32_t> output, std::span<const int32_t> word) {
  const size_t head = word.size() - 1;
  if (output.size() < head) return false;
  const std::span<const int32_t> tail = output.last(head);
  return std::equal(tail.begin(), tail.end(), word.begin());
}

void LogitAdjuster::Adjust(std::span<const int32_t> output, const TokenBans& bans,
                           std::span<float> logits) const {
  if (restricts()) BanAllButAllowed(logits);
  if (!bans.allowed.empty()) BanAllBut(bans.allowed, logits);
  ForEachBanned(output, bans, [&](int32_t token) { logits[static_cast<size_t>(token)] = kBanned; });
  for (const auto& [token, bias] : params_.logit_bias) {
    float& logit = logits[static_cast<size_t>(token)];
    logit = sampling::Biased(logit, bias);
  }
  const float penalty = params_.repetition_penalty;
  const std::span<const uint64_t> words = seen_.words();
  for (size_t word = 0; word < words.size(); ++word) {
    for (uint64_t bits = words[word]; bits != 0; bits &= bits - 1) {
      float& logit = logits[word * 64 + static_cast<size_t>(std::countr_zero(bits))];
      logit = sampling::Repeated(logit, penalty);
    }
  }
  for (const auto& [token, count] : output_.entries()) {
    float& logit = logits[static_cast<size_t>(token)];
    logit = sampling::Counted(logit, count, params_.frequency_penalty, params_.presence_penalty);
  }
}

}  // namespace erne
