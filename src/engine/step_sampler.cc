#include "engine/step_sampler.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "engine/active_request.h"

namespace erne {
namespace {

// A token takes up to a tenth of a millisecond, so sixteen threads choose those of hundreds of
// sequences within a few; each has buffers of some megabytes.
constexpr int kMaxTakers = 16;

}  // namespace

StepSampler::StepSampler(Executor& executor, int64_t max_sequences)
    : executor_(executor),
      vocab_size_(executor.spec().vocab_size),
      chosen_(static_cast<size_t>(max_sequences)) {
  const int64_t takers = std::min<int64_t>({kMaxTakers, executor.threads(), max_sequences});
  scratches_.reserve(static_cast<size_t>(takers));
  for (int64_t i = 0; i < takers; ++i) scratches_.emplace_back(vocab_size_);
  jobs_.reserve(static_cast<size_t>(max_sequences));
}

SequenceRows::Logits StepSampler::Wanted(const ScheduledRows& rows) const {
  if (rows.logits == 0) return SequenceRows::Logits::kNone;
  if (rows.logits > 1) return SequenceRows::Logits::kAll;
  const bool only_token = rows.reaches_end && !rows.sequence->prompt_logits;
  return only_token && executor_.chooses_tokens() ? SequenceRows::Logits::kToken
                                                  : SequenceRows::Logits::kLast;
}

void StepSampler::Sample(std::span<const ScheduledRows> step, const Batch& batch,
                         std::span<const float> logits) {
  ERNE_CHECK(step.size() <= chosen_.size()) << step.size() << " sequences in a step";
  jobs_.clear();
  int64_t first = 0;
  for (size_t i = 0; i < step.size(); ++i) {
    const ScheduledRows& rows = step[i];
    if (batch[i].logits == SequenceRows::Logits::kToken) {
      chosen_[i] = executor_.TakeToken(i);
      continue;
    }
    const int64_t row = first + rows.logits - 1 - rows.sequence->drafts;
    first += rows.logits;
    if (rows.reaches_end) jobs_.push_back({&rows, logits.data() + row * vocab_size_, i});
  }
  ERNE_CHECK(static_cast<size_t>(first * vocab_size_) <= logits.size())
      << "the executor returned too few logits";
  next_job_.store(0, std::memory_order_relaxed);
  const auto takers = static_cast<int64_t>(std::min(scratches_.size(), jobs_.size()));
  executor_.ForEach(takers,
                    [this](int64_t taker) { RunJobs(scratches_[static_cast<size_t>(taker)]); });
}

void StepSampler::RunJobs(SamplerScratch& scratch) {
  while (true) {
    const size_t next = next_job_.fetch_add(1, std::memory_order_relaxed);
    if (next >= jobs_.size()) return;
    const Job& job = jobs_[next];
    const auto& request = static_cast<const ActiveRequest&>(*job.rows->sequence);
    chosen_[job.index] = request.Sample({job.logits, static_cast<size_t>(vocab_size_)}, scratch);
  }
}

Result<SampledToken> StepSampler::Take(size_t index) {
  ERNE_CHECK(chosen_[index].has_value());
  Result<SampledToken> taken = *std::move(chosen_[index]);
  chosen_[index].reset();
  return taken;
}

}  // namespace erne
