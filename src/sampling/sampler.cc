#include "sampling/sampler.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <utility>

#include "base/check.h"
#include "base/strings.h"
#include "sampling/draw_rules.h"
#include "sampling/philox.h"
#include "sampling/vocab_loops.h"

namespace erne {
namespace {

using sampling::BestVocabLoops;
using sampling::kWeighed;
using sampling::kWeightBits;
using sampling::MultiplyHigh;
using sampling::NucleusWeight;
using sampling::VocabLoops;
using sampling::WeightRule;
using Candidate = SamplerScratch::Candidate;

constexpr float kInfinity = std::numeric_limits<float>::infinity();

constexpr int64_t kMaxVocab = int64_t{1} << 23;

const VocabLoops& Loops() {
  static const VocabLoops& loops = BestVocabLoops();
  return loops;
}

struct Extent {
  float max = -kInfinity;
  bool valid = true;  // no NaN and no plus infinity
  bool usable() const { return valid && max > -kInfinity; }
};

Extent FindMax(std::span<const float> values) {
  Extent extent;
  extent.max = Loops().max(values.data(), values.size(), &extent.valid);
  return extent;
}

// The lowest index of the largest value.
int32_t IndexOf(std::span<const float> values, float largest) {
  return static_cast<int32_t>(Loops().find(values.data(), values.size(), largest));
}

Status InvalidLogits(std::span<const float> logits, const Extent& extent) {
  if (extent.valid)
    return Internal("every token's logit is minus infinity: no token can be chosen");
  const auto bad =
      std::find_if(logits.begin(), logits.end(), [](float x) { return !(x < kInfinity); });
  return Internal(StrCat("the logit of token ", bad - logits.begin(), " is ",
                         std::isnan(*bad) ? "NaN" : "infinite"));
}

// Logits to weights, for a row and a temperature.
class Weigher {
 public:
  Weigher(float max, float temperature)
      : temperature_(static_cast<double>(temperature)), rule_{max, 1.0 / temperature_} {}

  // weights: [kWeighed]. Returns their sum.
  uint64_t Weigh(std::span<const float> logits, uint64_t* weights) const {
    return Loops().weigh(logits.data(), logits.size(), rule_, weights);
  }

  float LogitFor(uint64_t weight) const {
    return sampling::LogitFor(weight, rule_.max, temperature_);
  }

 private:
  double temperature_;
  WeightRule rule_;
};

// Weighs the whole row; notes the sum of each kWeighed tokens and returns that of all.
uint64_t WeighAll(std::span<const float> logits, const Weigher& weigher, SamplerScratch& scratch) {
  std::array<uint64_t, kWeighed> weights;
  scratch.block_sums.clear();
  uint64_t sum = 0;
  for (size_t begin = 0; begin < logits.size(); begin += kWeighed) {
    const size_t count = std::min(kWeighed, logits.size() - begin);
    scratch.block_sums.push_back(weigher.Weigh(logits.subspan(begin, count), weights.data()));
    sum += scratch.block_sums.back();
  }
  return sum;
}

// Fills scratch.tokens with those whose logit is at least `bar`, by rising id.
void CollectTokens(std::span<const float> logits, float bar, SamplerScratch& scratch) {
  scratch.tokens.resize(logits.size() + 1);  // the loop wants room for one more
  scratch.tokens.resize(
      Loops().at_least(logits.data(), logits.size(), bar, 0, scratch.tokens.data()));
}

// Fills scratch.weights with the weights of scratch.tokens, and drops tokens lighter than `least`.
// Returns the sum of the rest.
uint64_t WeighTokens(std::span<const float> logits, const Weigher& weigher, uint64_t least,
                     SamplerScratch& scratch) {
  std::array<float, kWeighed> gathered;
  std::array<uint64_t, kWeighed> weights;
  std::vector<int32_t>& tokens = scratch.tokens;
  scratch.weights.resize(tokens.size());
  uint64_t sum = 0;
  size_t kept = 0;
  for (size_t begin = 0; begin < tokens.size(); begin += kWeighed) {
    const size_t count = std::min(kWeighed, tokens.size() - begin);
    for (size_t i = 0; i < count; ++i) {
      gathered[i] = logits[static_cast<size_t>(tokens[begin + i])];
    }
    const uint64_t block_sum = weigher.Weigh({gathered.data(), count}, weights.data());
    bool all_stay = true;
    for (size_t i = 0; i < count; ++i) all_stay &= weights[i] >= least;
    if (all_stay) {  // the usual case, and the fast one
      std::copy_n(tokens.begin() + static_cast<ptrdiff_t>(begin), count,
                  tokens.begin() + static_cast<ptrdiff_t>(kept));
      std::copy_n(weights.begin(), count, scratch.weights.begin() + static_cast<ptrdiff_t>(kept));
      kept += count;
      sum += block_sum;
      continue;
    }
    for (size_t i = 0; i < count; ++i) {
      if (weights[i] < least) continue;
      tokens[kept] = tokens[begin + i];
      scratch.weights[kept] = weights[i];
      sum += weights[i];
      ++kept;
    }
  }
  tokens.resize(kept);
  scratch.weights.resize(kept);
  return sum;
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
  constexpr size_t kBlock = 512;
  std::array<int32_t, kBlock + 1> passed;
  for (size_t begin = 0; begin < logits.size(); begin += kBlock) {
    const size_t count = std::min(kBlock, logits.size() - begin);
    const size_t found = Loops().at_least(logits.data() + begin, count, bar,
                                          static_cast<int32_t>(begin), passed.data());
    for (size_t i = 0; i < found; ++i) {
      const float logit = logits[static_cast<size_t>(passed[i])];
      // An equal logit ranks after those already kept: their ids are lower.
      if (has_bar && !(logit > bar)) continue;
      selection.push_back({0, logit, passed[i]});
      if (selection.size() == capacity) {
        keep_best();
        bar = selection.back().logit;
        has_bar = true;
      }
    }
  }
  keep_best();
  return selection.back();
}

// Fills scratch.tokens with the first k in the order (logit falling, id rising), by rising id.
void CollectTopK(std::span<const float> logits, size_t k, SamplerScratch& scratch) {
  const Candidate last = TopKBoundary(logits, k, scratch.selection);
  CollectTokens(logits, last.logit, scratch);
  std::erase_if(scratch.tokens, [&](int32_t token) {
    return token > last.token && logits[static_cast<size_t>(token)] == last.logit;
  });
}

// The shortest prefix of some tokens, in the order of RanksBeforeByWeight, that holds enough.
struct Nucleus {
  Candidate last = {};
  uint64_t weight = 0;  // of all of it
};

// Tokens by weight, 32 classes for each power of two: the bits of a double rise with its value.
constexpr int kClassBits = 5;
constexpr int kFractionBits = 52;
constexpr size_t kClasses = (size_t{kWeightBits} << kClassBits) + 1;
constexpr uint64_t kFirstClass = std::bit_cast<uint64_t>(1.0) >> (kFractionBits - kClassBits);

size_t ClassOf(uint64_t weight) {
  const auto bits = std::bit_cast<uint64_t>(static_cast<double>(weight));
  return (bits >> (kFractionBits - kClassBits)) - kFirstClass;
}

// The lightest weight of a class.
uint64_t LightestOf(size_t weight_class) {
  const uint64_t bits = (weight_class + kFirstClass) << (kFractionBits - kClassBits);
  return static_cast<uint64_t>(std::ceil(std::bit_cast<double>(bits)));
}

// The prefix of scratch.tokens that reaches `needed` (1 <= needed <= the sum of their weights).
// Whole classes first; then, of the class in which the line is crossed, halves of the range that
// holds the boundary until one token is left: a quickselect by weight instead of by count.
Nucleus FindNucleus(std::span<const float> logits, uint64_t needed, SamplerScratch& scratch) {
  std::array<uint64_t, kClasses> sums{};
  for (const uint64_t weight : scratch.weights) sums[ClassOf(weight)] += weight;
  Nucleus nucleus;
  size_t crossed = kClasses - 1;
  for (; nucleus.weight + sums[crossed] < needed; --crossed) nucleus.weight += sums[crossed];

  std::vector<Candidate>& selection = scratch.selection;
  selection.clear();
  const uint64_t lightest = LightestOf(crossed);
  const uint64_t range = LightestOf(crossed + 1) - lightest;
  for (size_t i = 0; i < scratch.tokens.size(); ++i) {
    if (scratch.weights[i] - lightest >= range) continue;  // wraps around below
    const int32_t token = scratch.tokens[i];
    selection.push_back({scratch.weights[i], logits[static_cast<size_t>(token)], token});
  }
  auto begin = selection.begin();
  auto end = selection.end();
  while (end - begin > 1) {
    const auto middle = begin + (end - begin) / 2;
    std::nth_element(begin, middle, end, RanksBeforeByWeight);
    uint64_t weight = 0;
    for (auto it = begin; it != middle; ++it) weight += it->weight;
    if (nucleus.weight + weight >= needed) {
      end = middle;
    } else {
      nucleus.weight += weight;
      begin = middle;
    }
  }
  nucleus.last = *begin;
  nucleus.weight += begin->weight;
  return nucleus;
}

// Draws by weight from the row that WeighAll has weighed. bits: uniform over 64 bits.
int32_t DrawFromAll(std::span<const float> logits, const Weigher& weigher, uint64_t bits,
                    uint64_t sum, const SamplerScratch& scratch) {
  uint64_t remaining = MultiplyHigh(bits, sum);
  size_t block = 0;
  for (; remaining >= scratch.block_sums[block]; ++block) remaining -= scratch.block_sums[block];
  const size_t begin = block * kWeighed;
  std::array<uint64_t, kWeighed> weights;
  weigher.Weigh(logits.subspan(begin, std::min(kWeighed, logits.size() - begin)), weights.data());
  size_t i = 0;
  for (; remaining >= weights[i]; ++i) remaining -= weights[i];
  return static_cast<int32_t>(begin + i);
}

// Draws from scratch.tokens by weight_of(i), the weights of which sum up to `sum`.
template <typename WeightOf>
int32_t DrawFromTokens(uint64_t bits, uint64_t sum, const SamplerScratch& scratch,
                       const WeightOf& weight_of) {
  uint64_t remaining = MultiplyHigh(bits, sum);
  for (size_t i = 0; i < scratch.tokens.size(); ++i) {
    const uint64_t weight = weight_of(i);
    if (remaining < weight) return scratch.tokens[i];
    remaining -= weight;
  }
  ERNE_CHECK(false) << "a draw outside the sum of weights";
  return -1;
}

// Draws from the nucleus of scratch.tokens that reaches `needed`.
int32_t DrawFromNucleus(std::span<const float> logits, uint64_t bits, uint64_t needed,
                        SamplerScratch& scratch) {
  const Nucleus nucleus = FindNucleus(logits, needed, scratch);
  const Candidate& last = nucleus.last;
  return DrawFromTokens(bits, nucleus.weight, scratch, [&](size_t i) -> uint64_t {
    const uint64_t weight = scratch.weights[i];
    if (weight == last.weight) {
      const int32_t token = scratch.tokens[i];
      const Candidate equal{weight, logits[static_cast<size_t>(token)], token};
      return RanksBeforeByLogit(last, equal) ? 0 : weight;
    }
    // Masked, not branched upon: whether a token belongs is as hard to guess as its weight.
    return weight & (0 - static_cast<uint64_t>(weight > last.weight));
  });
}

// Rules 3 to 7 of sampler.h.
int32_t DrawToken(std::span<const float> logits, const SamplingParams& params, float max,
                  uint64_t bits, SamplerScratch& scratch) {
  const Weigher weigher(max, params.temperature);
  const auto top_k = static_cast<size_t>(std::max(params.top_k, 0));
  const bool all_ranks = top_k == 0 || top_k >= logits.size();
  uint64_t least = LeastWeight(params);
  if (all_ranks && least == 1) {
    const uint64_t sum = WeighAll(logits, weigher, scratch);
    if (params.top_p >= 1.0F) return DrawFromAll(logits, weigher, bits, sum, scratch);
    // Tokens lighter than (sum - needed) / n weigh less than sum - needed together: the rest
    // reaches `needed` without them. In a real row this leaves hundreds of a hundred thousand.
    const uint64_t needed = NucleusWeight(params.top_p, sum);
    least = std::max<uint64_t>(1, (sum - needed) / logits.size());
    CollectTokens(logits, weigher.LogitFor(least), scratch);
    WeighTokens(logits, weigher, least, scratch);
    return DrawFromNucleus(logits, bits, needed, scratch);
  }
  if (all_ranks) {
    CollectTokens(logits, weigher.LogitFor(least), scratch);
  } else {
    CollectTopK(logits, top_k, scratch);
  }
  const uint64_t sum = WeighTokens(logits, weigher, least, scratch);
  if (params.top_p < 1.0F)
    return DrawFromNucleus(logits, bits, NucleusWeight(params.top_p, sum), scratch);
  return DrawFromTokens(bits, sum, scratch, [&](size_t i) { return scratch.weights[i]; });
}

// Of a row of logits.
class LogSoftmax {
 public:
  LogSoftmax(std::span<const float> logits, float max, SamplerScratch& scratch)
      : logits_(logits), max_(max), sum_(WeighAll(logits, Weigher(max, 1.0F), scratch)) {}

  TokenLogprob Of(int32_t token) const {
    return {token, LogprobOf(logits_[static_cast<size_t>(token)], max_, sum_)};
  }

 private:
  std::span<const float> logits_;
  float max_;
  uint64_t sum_;
};

std::vector<TokenLogprob> LogprobsOf(std::span<const float> logits, float max, int32_t chosen,
                                     std::span<const int32_t> tokens, SamplerScratch& scratch) {
  const LogSoftmax softmax(logits, max, scratch);
  std::vector<TokenLogprob> logprobs = {softmax.Of(chosen)};
  for (const int32_t token : tokens) logprobs.push_back(softmax.Of(token));
  return logprobs;
}

// Of the chosen token and of the `count` first in the order (logit falling, id rising).
std::vector<TokenLogprob> Logprobs(std::span<const float> logits, float max, int32_t chosen,
                                   size_t count, SamplerScratch& scratch) {
  const LogSoftmax softmax(logits, max, scratch);
  std::vector<TokenLogprob> logprobs;
  logprobs.reserve(count + 1);
  logprobs.push_back(softmax.Of(chosen));
  if (count == 0) return logprobs;
  TopKBoundary(logits, count, scratch.selection);  // leaves the first `count` in scratch.selection
  std::sort(scratch.selection.begin(), scratch.selection.end(), RanksBeforeByLogit);
  for (const Candidate& candidate : scratch.selection) {
    logprobs.push_back(softmax.Of(candidate.token));
  }
  return logprobs;
}

}  // namespace

uint64_t LeastWeight(const SamplingParams& params) {
  const double exact = std::ceil(static_cast<double>(params.min_p) * (uint64_t{1} << kWeightBits));
  return std::max<uint64_t>(1, static_cast<uint64_t>(exact));
}

float LogprobOf(float logit, float max, uint64_t sum) {
  const double log_sum = std::log(std::ldexp(static_cast<double>(sum), -kWeightBits));
  return static_cast<float>(static_cast<double>(logit) - max - log_sum);
}

SamplerScratch::SamplerScratch(int64_t vocab_size) {
  const auto size = static_cast<size_t>(vocab_size);
  logits.resize(size);
  block_sums.reserve(size / kWeighed + 1);
  tokens.reserve(size + 1);
  weights.reserve(size);
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
  if (adjuster_.Adjusts(point.bans)) {
    const std::span<float> copy(scratch.logits.data(), logits.size());
    std::copy(logits.begin(), logits.end(), copy.begin());
    adjuster_.Adjust(point.output, point.bans, copy);
    adjusted = copy;
    extent = FindMax(adjusted);
    if (extent.valid && !extent.usable()) {
      return InvalidArgument(
          "every token is banned: bad_words, allowed_token_ids, min_tokens and the form that the "
          "answer must have leave none to choose");
    }
    if (!extent.usable()) return InvalidLogits(adjusted, extent);
  }
  SampledToken sampled;
  if (params_.temperature == 0.0F) {
    sampled.token = IndexOf(adjusted, extent.max);
  } else {
    const uint64_t bits = RandomBitsAt(params_.seed, point.position);
    sampled.token = DrawToken(adjusted, params_, extent.max, bits, scratch);
  }
  if (params_.logprobs >= 0 && !params_.logprob_tokens.empty()) {
    sampled.logprobs = LogprobsOf(logits, raw.max, sampled.token, params_.logprob_tokens, scratch);
  } else if (params_.logprobs >= 0) {
    sampled.logprobs =
        Logprobs(logits, raw.max, sampled.token, static_cast<size_t>(params_.logprobs), scratch);
  }
  return sampled;
}

}  // namespace erne
