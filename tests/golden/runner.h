// Feeds sequences to an executor in chosen cuts and collects what every position got.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "executor/executor.h"

namespace erne::golden {

// A sequence and how it is cut: `chunks` are the sizes of its parts, used in turn; empty = all at
// once.
struct CutSequence {
  std::vector<int32_t> tokens;
  std::vector<int64_t> chunks;
};

// Per position of one sequence.
struct SequenceResult {
  std::vector<float> logits;                        // [positions, vocab]
  std::map<int64_t, std::vector<int32_t>> experts;  // layer -> [positions, top_k]
};

// Runs the sequences side by side from position 0: each step takes the next part of every sequence
// that is not done. Their KV blocks interleave. A failing step ends the program: there is nothing
// to compare then.
std::vector<SequenceResult> RunTogether(Executor& executor,
                                        const std::vector<CutSequence>& sequences);

// One sequence alone.
SequenceResult RunAlone(Executor& executor, const std::vector<int32_t>& tokens,
                        const std::vector<int64_t>& chunks = {});

// What `--perturb` breaks, so that the tests can be seen to fail.
enum class Perturbation {
  kNone,
  kLogits,   // one logit of each row is off by three times the bound
  kGreedy,   // the order of the logits is reversed
  kExperts,  // the neighbours of the chosen experts are reported
  kBatch,    // the lowest bit of a logit depends on how the prompt was cut
};

// `inner`, with its results changed as said.
std::unique_ptr<Executor> Perturb(std::unique_ptr<Executor> inner, Perturbation perturbation);

}  // namespace erne::golden
