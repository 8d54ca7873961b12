#include "sampling/sampler.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <utility>

#include "base/check.h"
#include "base/strings.h"
#include "sampling/philox.h"

namespace erne {
namespace {

using Candidate = SamplerScratch::Candidate;

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// One in fixed point is 2^40: fine enough for a token of probability 1e-12, and sums over kMaxVocab
// stay below 2^64.
constexpr int kWeightBits = 40;
constexpr int64_t kMaxVocab = int64_t{1} << 23;

struct Extent {
  float max = -kInfinity;
  bool valid = true;  // no NaN and no plus infinity
  bool usable() const { return valid && max > -kInfinity; }
};

// Eight independent lanes, so that the compiler can use vector registers without reordering a
// chain.
Extent FindMax(std::span<const float> values) {
  constexpr size_t kLanes = 8;
  std::array<float, kLanes> max;
  max.fill(-kInfinity);
  std::array<uint32_t, kLanes> invalid{};
  size_t i = 0;
  for (; i + kLanes <= values.size(); i += kLanes) {
    for (size_t lane = 0; lane < kLanes; ++lane) {
      const float value = values[i + lane];
      max[lane] = value > max[lane] ? value : max[lane];
      invalid[lane] |= value < kInfinity ? 0U : 1U;  // NaN compares false
    }
  }
  Extent extent;
  for (; i < values.size(); ++i) {
    extent.max = std::max(extent.max, values[i]);
    extent.valid = extent.valid && values[i] < kInfinity;
  }
  for (size_t lane = 0; lane < kLanes; ++lane) {
    extent.max = std::max(extent.max, max[lane]);
    extent.valid = extent.valid && invalid[lane] == 0;
  }
  return extent;
}

int32_t IndexOf(std::span<const float> values, float wanted) {
  return static_cast<int32_t>(std::find(values.begin(), values.end(), wanted) - values.begin());
}

Status InvalidLogits(std::span<const float> logits, const Extent& extent) {
  if (extent.valid)
    return Internal("every token's logit is minus infinity: no token can be chosen");
  const auto bad =
      std::find_if(logits.begin(), logits.end(), [](float x) { return !(x < kInfinity); });
  return Internal(StrCat("the logit of token ", bad - logits.begin(), " is ",
                         std::isnan(*bad) ? "NaN" : "infinite"));
}

// exp(x) * 2^40, rounded to an integer, for x <= 0 (minus infinity gives 0). Not the C library's
// exp, which differs between versions: this one gives the same weights on every machine (IEEE
// double, no contraction: ErneBuild.cmake). Without a branch or a call, so that a loop over it is
// vectorised.
//
// x = k ln2 + r with |r| <= ln2 / 2, so exp(x) = 2^k exp(r). Taylor to degree 11 leaves an error
// below r^12 / 12! = 6.4e-15, a hundredth of the fixed point's unit.
inline uint64_t FixedExp(double x) {
  constexpr double kLog2E = 1.4426950408889634;
  constexpr double kLn2 = 0.6931471805599453;
  constexpr double kSmallest = -(kWeightBits + 2) * kLn2;  // what is below rounds to 0
  // Adding 1.5 * 2^52 rounds to an integer and leaves it, in two's complement, in the low bits.
  constexpr double kRounder = 6755399441055744.0;
  const double rounded = x * kLog2E + kRounder;
  const double r = x - (rounded - kRounder) * kLn2;
  // Pairs of terms first (Estrin): a shorter chain than Horner's.
  const double r2 = r * r;
  const double r4 = r2 * r2;
  const double terms_0 = (1.0 + r) + (1.0 / 2.0 + r * (1.0 / 6.0)) * r2;
  const double terms_4 = (1.0 / 24.0 + r * (1.0 / 120.0)) + (1.0 / 720.0 + r * (1.0 / 5040.0)) * r2;
  const double terms_8 =
      (1.0 / 40320.0 + r * (1.0 / 362880.0)) + (1.0 / 3628800.0 + r * (1.0 / 39916800.0)) * r2;
  const double sum = terms_0 + (terms_4 + terms_8 * r4) * r4;
  // 2^(k + 40) by its exponent bits; the bits of `rounded` above k fall out on the left.
  const double scale =
      std::bit_cast<double>((std::bit_cast<uint64_t>(rounded) + 1023 + kWeightBits) << 52);
  // Adding 2^52 rounds to an integer and leaves it in the 52 bits of the fraction.
  constexpr double kInteger = 4503599627370496.0;
  const uint64_t weight =
      std::bit_cast<uint64_t>(sum * scale + kInteger) - std::bit_cast<uint64_t>(kInteger);
  // Below, the bits above mean nothing: masked away, without a branch.
  return weight & (0 - static_cast<uint64_t>(x > kSmallest));
}

// Turns logits into weights. In double, so that no positive float as temperature overflows.
class Weigher {
 public:
  // Logits that are weighed at a time: their weights stay in the first-level cache.
  static constexpr size_t kBlock = 512;

  Weigher(float max, float temperature)
      : max_(max), inverse_(1.0 / static_cast<double>(temperature)) {}
  uint64_t Weight(float logit) const {
    return FixedExp((static_cast<double>(logit) - max_) * inverse_);
  }
  void Weights(std::span<const float> logits, std::array<uint64_t, kBlock>& weights) const {
    const double max = max_;
    const double inverse = inverse_;
    // In two loops, because the vectoriser wants elements of one size in each.
    std::array<double, kBlock> scaled;
    for (size_t i = 0; i < logits.size(); ++i)
      scaled[i] = (static_cast<double>(logits[i]) - max) * inverse;
    for (size_t i = 0; i < logits.size(); ++i) weights[i] = FixedExp(scaled[i]);
  }

 private:
  double max_;
  double inverse_;
};

// Calls visit(token, weight) for every token, by rising id.
template <typename Visit>
void ForEachWeight(std::span<const float> logits, const Weigher& weigher, Visit&& visit) {
  std::array<uint64_t, Weigher::kBlock> weights;
  for (size_t begin = 0; begin < logits.size(); begin += Weigher::kBlock) {
    const size_t count = std::min(Weigher::kBlock, logits.size() - begin);
    weigher.Weights(logits.subspan(begin, count), weights);
    for (size_t i = 0; i < count; ++i) visit(begin + i, weights[i]);
  }
}

bool RanksBeforeByLogit(const Candidate& a, const Candidate& b) {
  return a.logit != b.logit ? a.logit > b.logit : a.token < b.token;
}

bool RanksBeforeByWeight(const Candidate& a, const Candidate& b) {
  return a.weight != b.weight ? a.weight > b.weight : RanksBeforeByLogit(a, b);
}

// The last token of the first k in the order (logit falling, id rising); leaves those k in
// `selection`, in no order. One pass with a buffer of 2k: once it is full, the better half stays
// and its worst sets the bar for the rest, so the cost is linear whatever the order of logits.
Candidate TopKBoundary(std::span<const float> logits, size_t k, std::vector<Candidate>& selection) {
  selection.clear();
  const auto keep_best = [&] {
    std::nth_element(selection.begin(), selection.begin() + static_cast<ptrdiff_t>(k) - 1,
                     selection.end(), RanksBeforeByLogit);
    selection.resize(k);
  };
  const size_t capacity = std::min(2 * k, logits.size());
  float bar = -kInfinity;
  bool has_bar = false;
  for (size_t i = 0; i < logits.size(); ++i) {
    // An equal logit ranks after those already kept: their ids are lower.
    if (has_bar && !(logits[i] > bar)) continue;
    selection.push_back({0, logits[i], static_cast<int32_t>(i)});
    if (selection.size() == capacity) {
      keep_best();
      bar = selection.back().logit;
      has_bar = true;
    }
  }
  keep_best();
  return selection.back();
}

// Fills `candidates` with the tokens that top_k and min_p leave and that have weight, by rising id.
// Returns the sum of weights.
uint64_t Weigh(std::span<const float> logits, const SamplingParams& params, float max,
               SamplerScratch& scratch) {
  const Weigher weigher(max, params.temperature);
  const auto least =
      std::max<uint64_t>(1, static_cast<uint64_t>(std::ceil(static_cast<double>(params.min_p) *
                                                            (uint64_t{1} << kWeightBits))));
  std::vector<Candidate>& candidates = scratch.candidates;
  candidates.clear();
  uint64_t sum = 0;
  const auto add = [&](size_t token, uint64_t weight) {
    if (weight < least) return;
    candidates.push_back({weight, logits[token], static_cast<int32_t>(token)});
    sum += weight;
  };
  const auto top_k = static_cast<size_t>(std::max(params.top_k, 0));
  if (top_k == 0 || top_k >= logits.size()) {
    ForEachWeight(logits, weigher, add);
    return sum;
  }
  const Candidate last = TopKBoundary(logits, top_k, scratch.selection);
  for (size_t token = 0; token < logits.size(); ++token) {
    const float logit = logits[token];
    if (logit > last.logit || (logit == last.logit && static_cast<int32_t>(token) <= last.token)) {
      add(token, weigher.Weight(logit));
    }
  }
  return sum;
}

// The token at which the running weight, in the order of RanksBeforeByWeight, reaches `needed` (1
// <= needed <= sum).
Candidate NucleusBoundary(const std::vector<Candidate>& candidates, uint64_t sum, uint64_t needed,
                          std::vector<Candidate>& selection) {
  // Tokens lighter than (sum - needed) / n weigh less than sum - needed together: the rest reaches
  // `needed` without them. In a real row this leaves hundreds of a hundred thousand.
  const uint64_t floor = (sum - needed) / candidates.size();
  selection.clear();
  for (const Candidate& candidate : candidates) {
    if (candidate.weight >= floor) selection.push_back(candidate);
  }
  // Halve the range that holds the boundary until one token is left: a quickselect by weight
  // instead of by count.
  auto begin = selection.begin();
  auto end = selection.end();
  while (end - begin > 1) {
    const auto middle = begin + (end - begin) / 2;
    std::nth_element(begin, middle, end, RanksBeforeByWeight);
    uint64_t weight = 0;
    for (auto it = begin; it != middle; ++it) weight += it->weight;
    if (weight >= needed) {
      end = middle;
    } else {
      needed -= weight;
      begin = middle;
    }
  }
  return *begin;
}

// Keeps the nucleus; returns its weight.
uint64_t KeepNucleus(float top_p, uint64_t sum, SamplerScratch& scratch) {
  std::vector<Candidate>& candidates = scratch.candidates;
  const double exact = std::ceil(static_cast<double>(top_p) * static_cast<double>(sum));
  const uint64_t needed = std::clamp<uint64_t>(static_cast<uint64_t>(exact), 1, sum);
  const Candidate last = NucleusBoundary(candidates, sum, needed, scratch.selection);
  std::erase_if(candidates,
                [&](const Candidate& candidate) { return RanksBeforeByWeight(last, candidate); });
  uint64_t kept = 0;
  for (const Candidate& candidate : candidates) kept += candidate.weight;
  return kept;
}

// floor(a * b / 2^64).
uint64_t MultiplyHigh(uint64_t a, uint64_t b) {
  const uint64_t a_low = a & 0xFFFFFFFF;
  const uint64_t a_high = a >> 32;
  const uint64_t b_low = b & 0xFFFFFFFF;
  const uint64_t b_high = b >> 32;
  const uint64_t middle = a_high * b_low + ((a_low * b_low) >> 32);
  const uint64_t carry = (middle & 0xFFFFFFFF) + a_low * b_high;
  return a_high * b_high + (middle >> 32) + (carry >> 32);
}

// Draws a candidate. bits: uniform over 64 bits.
int32_t Draw(uint64_t bits, uint64_t sum, const std::vector<Candidate>& candidates) {
  uint64_t remaining = MultiplyHigh(bits, sum);
  for (const Candidate& candidate : candidates) {
    if (remaining < candidate.weight) return candidate.token;
    remaining -= candidate.weight;
  }
  ERNE_CHECK(false) << "a draw outside the sum of weights";
  return -1;
}

// log softmax of the chosen token and of the `count` first in the order (logit falling, id rising).
std::vector<TokenLogprob> Logprobs(std::span<const float> logits, float max, int32_t chosen,
                                   size_t count, SamplerScratch& scratch) {
  const Weigher weigher(max, 1.0F);
  uint64_t sum = 0;
  ForEachWeight(logits, weigher, [&sum](size_t, uint64_t weight) { sum += weight; });
  const double log_sum = std::log(std::ldexp(static_cast<double>(sum), -kWeightBits));
  const auto logprob = [&](float logit) {
    return static_cast<float>(static_cast<double>(logit) - max - log_sum);
  };

  std::vector<TokenLogprob> logprobs;
  logprobs.reserve(count + 1);
  logprobs.push_back({chosen, logprob(logits[static_cast<size_t>(chosen)])});
  if (count == 0) return logprobs;
  TopKBoundary(logits, count, scratch.selection);  // leaves the first `count` in scratch.selection
  std::sort(scratch.selection.begin(), scratch.selection.end(), RanksBeforeByLogit);
  for (const Candidate& candidate : scratch.selection) {
    logprobs.push_back({candidate.token, logprob(candidate.logit)});
  }
  return logprobs;
}

}  // namespace

SamplerScratch::SamplerScratch(int64_t vocab_size) {
  const auto size = static_cast<size_t>(vocab_size);
  logits.resize(size);
  candidates.reserve(size);
  selection.reserve(size);
}

int32_t ArgMax(std::span<const float> values) {
  ERNE_CHECK(!values.empty());
  return IndexOf(values, FindMax(values).max);
}

Result<std::vector<TokenLogprob>> TokenLogprobs(std::span<const float> logits, int32_t token,
                                                int32_t count, SamplerScratch& scratch) {
  const Extent extent = FindMax(logits);
  if (!extent.usable()) return InvalidLogits(logits, extent);
  return Logprobs(logits, extent.max, token, static_cast<size_t>(count), scratch);
}

RequestSampler::RequestSampler(SamplingParams params, int64_t vocab_size,
                               std::span<const int32_t> prompt)
    : params_(std::move(params)), adjuster_(params_, vocab_size, prompt) {
  ERNE_CHECK(vocab_size > 0 && vocab_size <= kMaxVocab) << vocab_size << " tokens";
}

Result<SampledToken> RequestSampler::Sample(std::span<const float> logits, const SamplePoint& point,
                                            SamplerScratch& scratch) const {
  ERNE_CHECK(!logits.empty() && logits.size() <= scratch.logits.size());
  const Extent raw = FindMax(logits);
  if (!raw.usable()) return InvalidLogits(logits, raw);
  Extent extent = raw;
  std::span<const float> adjusted = logits;
  if (adjuster_.Adjusts(point.banned)) {
    const std::span<float> copy(scratch.logits.data(), logits.size());
    std::copy(logits.begin(), logits.end(), copy.begin());
    adjuster_.Adjust(point.output, point.banned, copy);
    adjusted = copy;
    extent = FindMax(adjusted);
    if (extent.valid && !extent.usable()) {
      return InvalidArgument(
          "every token is banned: bad_words, allowed_token_ids and min_tokens leave none to "
          "choose");
    }
    if (!extent.usable()) return InvalidLogits(adjusted, extent);
  }
  SampledToken sampled;
  if (params_.temperature == 0.0F) {
    sampled.token = IndexOf(adjusted, extent.max);
  } else {
    uint64_t sum = Weigh(adjusted, params_, extent.max, scratch);
    if (params_.top_p < 1.0F) sum = KeepNucleus(params_.top_p, sum, scratch);
    sampled.token = Draw(RandomBitsAt(params_.seed, point.position), sum, scratch.candidates);
  }
  if (params_.logprobs >= 0) {
    sampled.logprobs =
        Logprobs(logits, raw.max, sampled.token, static_cast<size_t>(params_.logprobs), scratch);
  }
  return sampled;
}

}  // namespace erne
