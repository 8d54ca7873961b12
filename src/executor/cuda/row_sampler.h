// The rules of sampling/sampler.h for a GPU: what a block of threads does to choose the token of
// one row. Written against a Block, so that the host can be one too (the tests run it there).
//
// A row is cut into chunks of kChunkTokens. Two kernels (sampling.h) leave the largest logit of
// each chunk and, where all of the row may be drawn, the sum of its weights; then few chunks are
// looked at again:
//   greedy         the first chunk with the largest logit
//   all tokens     the chunk in which the draw falls
//   top_k          the k-th largest of the chunks' largest logits is a bar that k tokens reach, and
//                  few more
//   top_p, min_p   the least weight that may be drawn sets the bar (sampler.cc has the reason)
// What reaches the bar is sorted in shared memory. Where that has no room for it (a nearly flat
// row), or the logits are not numbers, nothing is chosen, and the host looks at the row.
// Weights are integers: their sums do not depend on the order of threads.
#pragma once

#include <cstdint>

#include "base/host_device.h"
#include "sampling/draw_rules.h"

namespace erne::cuda {

inline constexpr int kChunkTokens = 128;
// Candidates that are sorted at most, and chunks of a row.
inline constexpr int kMostCandidates = 2048;
inline constexpr int64_t kMostSampledVocab = int64_t{kMostCandidates} * kChunkTokens;
inline constexpr int kMostTopLogits = 32;

// Logits as integers of the same order; the two zeros are equal.
ERNE_HD inline uint32_t LogitKey(float logit) {
  constexpr uint32_t kSign = 0x80000000U;
  const auto bits = __builtin_bit_cast(uint32_t, logit + 0.0F);
  return (bits & kSign) != 0 ? ~bits : bits | kSign;
}
ERNE_HD inline float LogitOf(uint32_t key) {
  constexpr uint32_t kSign = 0x80000000U;
  return __builtin_bit_cast(float, (key & kSign) != 0 ? key & ~kSign : ~key);
}
inline constexpr uint32_t kMinusInfinityKey = 0x007FFFFFU;
// Of a chunk with a NaN or plus infinity in it: above every number.
inline constexpr uint32_t kInvalidKey = 0xFFFFFFFFU;

// The key of a logit, kInvalidKey where it is none that may be chosen from.
ERNE_HD inline uint32_t CheckedKey(float logit) {
  return logit < __builtin_inff() ? LogitKey(logit) : kInvalidKey;
}

// One row to sample. Offsets count 32-bit words of the plan; -1: none.
struct RowTask {
  uint64_t bits = 0;   // the draw
  uint64_t least = 1;  // the smallest weight that min_p leaves
  double inverse = 1;  // 1 / temperature
  int32_t logit_row = 0;
  float temperature = 0;
  float top_p = 1;
  int32_t top_k = 0;        // 0: all
  int32_t top_logits = -1;  // -1: no log-probabilities
  int32_t adjusts = 0;      // the rest counts
  float repetition_penalty = 1;
  float presence_penalty = 0;
  float frequency_penalty = 0;
  int32_t allowed = -1;                  // bitmaps [ceil(vocab / 32)]: of the request,
  int32_t mask = -1;                     // of this place,
  int32_t seen = -1;                     // and what the repetition penalty is for
  int32_t banned = 0, num_banned = 0;    // tokens
  int32_t biases = 0, num_biases = 0;    // pairs of token and float
  int32_t counted = 0, num_counted = 0;  // pairs of token and count

  ERNE_HD bool greedy() const { return temperature == 0.0F; }
  ERNE_HD bool ranks_all() const { return top_k == 0 && least == 1; }
};

struct TopLogit {
  int32_t token = -1;
  float logit = 0;
};

struct RowResult {
  int32_t token = -1;  // -1: the host chooses
  float logit = 0;     // of it, the largest of the row and the sum of its weights at temperature 1:
  float max = 0;       // all before anything was adjusted, and only where log-probabilities are
  uint64_t sum = 0;    // asked for
  TopLogit top[kMostTopLogits];
};

// What the kernels before have found. [chunks] each.
struct ChunkView {
  const float* logits = nullptr;     // [vocab]
  const uint32_t* maxima = nullptr;  // keys
  const uint64_t* sums = nullptr;    // of weights
};

struct SampledRow {
  ChunkView raw;       // sums: at temperature 1, where log-probabilities are asked for
  ChunkView adjusted;  // the same logits where nothing is adjusted
  int vocab = 0;
};

struct RowCandidate {
  uint64_t weight = 0;
  uint32_t key = 0;
  int32_t token = 0;
};

// Shared by the threads of a block.
struct SamplerSpace {
  RowCandidate candidates[kMostCandidates];
  uint64_t sums[kMostCandidates];
  int32_t chunks[kMostCandidates];
  uint32_t best;
  int32_t num_chunks;
  int32_t num_candidates;
  int32_t found;
};

struct ByLogit {
  ERNE_HD bool operator()(const RowCandidate& a, const RowCandidate& b) const {
    return a.key != b.key ? a.key > b.key : a.token < b.token;
  }
};
struct ByWeight {
  ERNE_HD bool operator()(const RowCandidate& a, const RowCandidate& b) const {
    return a.weight != b.weight ? a.weight > b.weight : ByLogit()(a, b);
  }
};
struct ByToken {
  ERNE_HD bool operator()(const RowCandidate& a, const RowCandidate& b) const {
    return a.token < b.token;
  }
};

// Block: For(count, body) calls body(i) for every i below count, by its threads, and lets none go
// on before all are done; Wait lets none go on before all are there; Scan(values, count) makes each
// the sum of those up to it; Add, Min and Max of a shared value, Add returning what was there. All
// members are called by all threads.
template <typename Block>
class RowSampler {
 public:
  ERNE_HD RowSampler(Block& block, SamplerSpace& space, const SampledRow& row, const RowTask& task)
      : block_(block),
        space_(space),
        row_(row),
        task_(task),
        num_chunks_((row.vocab + kChunkTokens - 1) / kChunkTokens) {}

  ERNE_HD void Choose(RowResult* result) {
    const uint32_t raw_max = Max(row_.raw);
    const uint32_t max = task_.adjusts != 0 && Usable(raw_max) ? Max(row_.adjusted) : raw_max;
    int32_t token = -1;
    if (Usable(raw_max) && Usable(max))
      token = task_.greedy() ? FirstWith(max) : Draw(LogitOf(max));
    if (token >= 0 && task_.top_logits >= 0) token = CollectTop(token, raw_max, result);
    block_.For(1, [&](int) { result->token = token; });
  }

 private:
  static constexpr int32_t kNone = 0x7FFFFFFF;

  ERNE_HD static bool Usable(uint32_t max) { return max != kInvalidKey && max > kMinusInfinityKey; }

  ERNE_HD uint32_t Max(const ChunkView& view) {
    block_.For(1, [&](int) { space_.best = 0; });
    block_.For(num_chunks_, [&](int chunk) { block_.Max(&space_.best, view.maxima[chunk]); });
    const uint32_t best = space_.best;
    block_.Wait();  // until all have read it
    return best;
  }

  // The first i below `count` for which holds(i) is true; kNone: there is none.
  template <typename Holds>
  ERNE_HD int32_t First(int count, const Holds& holds) {
    block_.For(1, [&](int) { space_.found = kNone; });
    block_.For(count, [&](int i) {
      if (holds(i)) block_.Min(&space_.found, i);
    });
    const int32_t found = space_.found;
    block_.Wait();  // until all have read it
    return found;
  }

  ERNE_HD int SizeOf(int chunk) const {
    const int rest = row_.vocab - chunk * kChunkTokens;
    return rest < kChunkTokens ? rest : kChunkTokens;
  }

  ERNE_HD int32_t FirstWith(uint32_t key) {
    const int chunk = First(num_chunks_, [&](int i) { return row_.adjusted.maxima[i] == key; });
    const int begin = chunk * kChunkTokens;
    return begin + First(SizeOf(chunk),
                         [&](int i) { return LogitKey(row_.adjusted.logits[begin + i]) == key; });
  }

  ERNE_HD uint64_t WeightOf(float logit, float max) const {
    return sampling::FixedExp((static_cast<double>(logit) - static_cast<double>(max)) *
                              task_.inverse);
  }

  // Rules 3 to 7.
  ERNE_HD int32_t Draw(float max) {
    if (!task_.ranks_all()) return DrawFromBest(max);
    ScanChunks(row_.adjusted);
    const uint64_t sum = space_.sums[num_chunks_ - 1];
    if (task_.top_p >= 1.0F) return DrawFromAll(max, sum);
    const uint64_t needed = sampling::NucleusWeight(task_.top_p, sum);
    const uint64_t rest = (sum - needed) / static_cast<uint64_t>(row_.vocab);
    const uint64_t least = rest > 1 ? rest : 1;
    if (!Collect(row_.adjusted, BarFor(least, max))) return -1;
    Weigh(max, least);
    return DrawFromNucleus(needed);
  }

  ERNE_HD void ScanChunks(const ChunkView& view) {
    block_.For(num_chunks_, [&](int i) { space_.sums[i] = view.sums[i]; });
    block_.Scan(space_.sums, num_chunks_);
  }

  // The index, below `count`, of the first of the scanned sums that exceeds `drawn`; leaves in
  // `drawn` what is beyond the sums before it.
  ERNE_HD int32_t FirstBeyond(int count, uint64_t* drawn) {
    const int32_t found = First(count, [&](int i) { return space_.sums[i] > *drawn; });
    if (found > 0) *drawn -= space_.sums[found - 1];
    block_.Wait();
    return found;
  }

  ERNE_HD int32_t DrawFromAll(float max, uint64_t sum) {
    uint64_t drawn = sampling::MultiplyHigh(task_.bits, sum);
    const int chunk = FirstBeyond(num_chunks_, &drawn);
    const int begin = chunk * kChunkTokens;
    const int size = SizeOf(chunk);
    block_.For(size,
               [&](int i) { space_.sums[i] = WeightOf(row_.adjusted.logits[begin + i], max); });
    block_.Scan(space_.sums, size);
    return begin + FirstBeyond(size, &drawn);
  }

  // With top_k or min_p.
  ERNE_HD int32_t DrawFromBest(float max) {
    if (task_.top_k > 0) {
      if (!CollectBest(row_.adjusted, task_.top_k)) return -1;
    } else if (!Collect(row_.adjusted, BarFor(task_.least, max))) {
      return -1;
    }
    Weigh(max, task_.least);
    if (task_.top_p >= 1.0F) return DrawFromCandidates();
    SumUp();
    const uint64_t sum = space_.sums[space_.num_candidates - 1];
    return DrawFromNucleus(sampling::NucleusWeight(task_.top_p, sum));
  }

  ERNE_HD uint32_t BarFor(uint64_t weight, float max) const {
    return LogitKey(sampling::LogitFor(weight, static_cast<double>(max),
                                       static_cast<double>(task_.temperature)));
  }

  // The candidates with at least that key, in no order. False: too many.
  ERNE_HD bool Collect(const ChunkView& view, uint32_t bar) {
    block_.For(1, [&](int) { space_.num_chunks = space_.num_candidates = 0; });
    block_.For(num_chunks_, [&](int i) {
      if (view.maxima[i] >= bar) space_.chunks[block_.Add(&space_.num_chunks, 1)] = i;
    });
    const int tokens = space_.num_chunks * kChunkTokens;
    block_.For(tokens, [&](int i) {
      const int32_t token = space_.chunks[i / kChunkTokens] * kChunkTokens + i % kChunkTokens;
      if (token >= row_.vocab) return;
      const uint32_t key = LogitKey(view.logits[token]);
      if (key < bar) return;
      const int32_t place = block_.Add(&space_.num_candidates, 1);
      if (place < kMostCandidates) space_.candidates[place] = {0, key, token};
    });
    return space_.num_candidates <= kMostCandidates;
  }

  // The first `count` candidates in the order (logit falling, id rising). False: too many reach the
  // bar.
  ERNE_HD bool CollectBest(const ChunkView& view, int count) {
    uint32_t bar = 0;
    if (count <= num_chunks_) {
      block_.For(num_chunks_, [&](int i) { space_.candidates[i] = {0, view.maxima[i], i}; });
      Sort(num_chunks_, ByLogit());
      bar = space_.candidates[count - 1].key;
    }
    if (!Collect(view, bar)) return false;
    Sort(space_.num_candidates, ByLogit());
    block_.For(1, [&](int) {
      if (space_.num_candidates > count) space_.num_candidates = count;
    });
    return true;
  }

  // Weighs the candidates; those lighter than `least` weigh nothing.
  ERNE_HD void Weigh(float max, uint64_t least) {
    block_.For(space_.num_candidates, [&](int i) {
      const uint64_t weight = WeightOf(LogitOf(space_.candidates[i].key), max);
      space_.candidates[i].weight = weight < least ? 0 : weight;
    });
  }

  ERNE_HD void SumUp() {
    block_.For(space_.num_candidates, [&](int i) { space_.sums[i] = space_.candidates[i].weight; });
    block_.Scan(space_.sums, space_.num_candidates);
  }

  ERNE_HD int32_t DrawFromNucleus(uint64_t needed) {
    Sort(space_.num_candidates, ByWeight());
    SumUp();
    const int last = First(space_.num_candidates, [&](int i) { return space_.sums[i] >= needed; });
    block_.For(1, [&](int) { space_.num_candidates = last + 1; });
    return DrawFromCandidates();
  }

  ERNE_HD int32_t DrawFromCandidates() {
    Sort(space_.num_candidates, ByToken());
    SumUp();
    const int count = space_.num_candidates;
    uint64_t drawn = sampling::MultiplyHigh(task_.bits, space_.sums[count - 1]);
    return space_.candidates[FirstBeyond(count, &drawn)].token;
  }

  // Batcher's bitonic sort (1968); what fills up the power of two goes to the end.
  template <typename Before>
  ERNE_HD void Sort(int count, const Before& before) {
    int size = 1;
    while (size < count) size *= 2;
    block_.For(size - count, [&](int i) { space_.candidates[count + i] = {0, 0, kNone}; });
    for (int length = 2; length <= size; length *= 2) {
      for (int step = length / 2; step > 0; step /= 2) {
        block_.For(size / 2, [&](int i) {
          const int low = i / step * 2 * step + i % step;
          RowCandidate& a = space_.candidates[low];
          RowCandidate& b = space_.candidates[low + step];
          const bool rising = (low & length) == 0;
          if (before(rising ? b : a, rising ? a : b)) {
            const RowCandidate kept = a;
            a = b;
            b = kept;
          }
        });
      }
    }
  }

  // What log-probabilities are made of. -1: too many tokens reach the bar.
  ERNE_HD int32_t CollectTop(int32_t token, uint32_t raw_max, RowResult* result) {
    ScanChunks(row_.raw);
    block_.For(1, [&](int) {
      result->logit = row_.raw.logits[token];
      result->max = LogitOf(raw_max);
      result->sum = space_.sums[num_chunks_ - 1];
    });
    if (task_.top_logits == 0) return token;
    if (!CollectBest(row_.raw, task_.top_logits)) return -1;
    block_.For(task_.top_logits, [&](int i) {
      result->top[i] = {space_.candidates[i].token, row_.raw.logits[space_.candidates[i].token]};
    });
    return token;
  }

  Block& block_;
  SamplerSpace& space_;
  const SampledRow& row_;
  const RowTask& task_;
  const int num_chunks_;
};

}  // namespace erne::cuda
