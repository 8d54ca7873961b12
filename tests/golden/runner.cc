#include "runner.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <span>
#include <utility>

#include "base/check.h"
#include "kv/block_pool.h"
#include "tolerance.h"

namespace erne::golden {
namespace {

// A sequence on its way through the executor.
struct Progress {
  int64_t done = 0;  // positions in the KV cache
  size_t part = 0;   // index into chunks
  int64_t rows = 0;  // in the present step
  std::vector<BlockId> blocks;
};

int64_t NextRows(const CutSequence& sequence, const Progress& progress) {
  const int64_t left = static_cast<int64_t>(sequence.tokens.size()) - progress.done;
  if (sequence.chunks.empty()) return left;
  return std::min(left, sequence.chunks[progress.part % sequence.chunks.size()]);
}

class PerturbedExecutor final : public Executor {
 public:
  PerturbedExecutor(std::unique_ptr<Executor> inner, Perturbation perturbation)
      : inner_(std::move(inner)), perturbation_(perturbation) {}

  Result<std::span<const float>> Run(const Batch& batch) override {
    ERNE_ASSIGN_OR_RETURN(const std::span<const float> logits, inner_->Run(batch));
    logits_.assign(logits.begin(), logits.end());
    const auto vocab = static_cast<size_t>(spec().vocab_size);
    for (size_t begin = 0; begin < logits_.size(); begin += vocab) {
      ChangeRow(batch, std::span<float>(logits_).subspan(begin, vocab));
    }
    if (perturbation_ == Perturbation::kExperts && trace_ != nullptr) {
      for (RoutingTrace::Layer& layer : trace_->layers) {
        for (int32_t& id : layer.ids) {
          id = (id + 1) % static_cast<int32_t>(spec().moe.routing.experts);
        }
      }
    }
    return std::span<const float>(logits_);
  }
  void SetRoutingTrace(RoutingTrace* trace) override {
    trace_ = trace;
    inner_->SetRoutingTrace(trace);
  }
  const ModelSpec& spec() const override { return inner_->spec(); }
  const ExecutorLimits& limits() const override { return inner_->limits(); }
  ExecutorInfo info() const override { return inner_->info(); }

 private:
  void ChangeRow(const Batch& batch, std::span<float> row) const {
    switch (perturbation_) {
      case Perturbation::kLogits:
        row[0] += static_cast<float>(
            3 * RelativeBound(limits().kv_dtype, info().activation_type, spec().num_layers()) *
            LargestMagnitude(row));
        break;
      case Perturbation::kGreedy:
        for (float& logit : row) logit = -logit;
        break;
      case Perturbation::kBatch:
        if (batch.size() > 1 || batch[0].start > 0) {
          row[0] = std::bit_cast<float>(std::bit_cast<uint32_t>(row[0]) ^ 1U);
        }
        break;
      case Perturbation::kNone:
      case Perturbation::kExperts:
        break;
    }
  }

  std::unique_ptr<Executor> inner_;
  Perturbation perturbation_;
  RoutingTrace* trace_ = nullptr;
  std::vector<float> logits_;
};

}  // namespace

std::vector<SequenceResult> RunTogether(Executor& executor,
                                        const std::vector<CutSequence>& sequences) {
  const auto vocab = static_cast<size_t>(executor.spec().vocab_size);
  const auto top_k = static_cast<size_t>(executor.spec().moe.routing.top_k);
  std::vector<SequenceResult> results(sequences.size());
  std::vector<Progress> progress(sequences.size());
  BlockPool pool(executor.limits().num_blocks);
  RoutingTrace trace;
  executor.SetRoutingTrace(&trace);
  while (true) {
    Batch batch;
    for (size_t s = 0; s < sequences.size(); ++s) {
      Progress& p = progress[s];
      p.rows = NextRows(sequences[s], p);
      if (p.rows == 0) continue;
      while (static_cast<int64_t>(p.blocks.size()) < BlocksForTokens(p.done + p.rows)) {
        ERNE_CHECK(pool.num_free() > 0) << "the pool is too small for this test";
        p.blocks.push_back(pool.Take());
      }
      batch.push_back({p.done,
                       {sequences[s].tokens.data() + p.done, static_cast<size_t>(p.rows)},
                       p.blocks,
                       SequenceRows::Logits::kAll});
    }
    if (batch.empty()) break;
    const Result<std::span<const float>> run = executor.Run(batch);
    const std::span<const float> logits = run.value();
    size_t row = 0;
    for (size_t s = 0; s < sequences.size(); ++s) {
      Progress& p = progress[s];
      if (p.rows == 0) continue;
      const auto rows = static_cast<size_t>(p.rows);
      const auto mine = logits.subspan(row * vocab, rows * vocab);
      results[s].logits.insert(results[s].logits.end(), mine.begin(), mine.end());
      for (const RoutingTrace::Layer& layer : trace.layers) {
        const auto ids = std::span(layer.ids).subspan(row * top_k, rows * top_k);
        std::vector<int32_t>& experts = results[s].experts[layer.layer];
        experts.insert(experts.end(), ids.begin(), ids.end());
      }
      row += rows;
      p.done += p.rows;
      ++p.part;
    }
  }
  executor.SetRoutingTrace(nullptr);
  return results;
}

SequenceResult RunAlone(Executor& executor, const std::vector<int32_t>& tokens,
                        const std::vector<int64_t>& chunks) {
  return std::move(RunTogether(executor, {{tokens, chunks}})[0]);
}

std::unique_ptr<Executor> Perturb(std::unique_ptr<Executor> inner, Perturbation perturbation) {
  if (perturbation == Perturbation::kNone) return inner;
  return std::make_unique<PerturbedExecutor>(std::move(inner), perturbation);
}

}  // namespace erne::golden
