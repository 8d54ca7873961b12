#include "executor/cuda/token_sampler.h"

#include <utility>

#include "base/check.h"
#include "executor/batch_check.h"

namespace erne::cuda {

TokenSampler::TokenSampler(int64_t vocab_size, int64_t max_sequences)
    : vocab_size_(vocab_size),
      max_sequences_(max_sequences),
      chosen_(static_cast<size_t>(max_sequences)),
      scratch_(vocab_size) {
  rows_.reserve(static_cast<size_t>(max_sequences));
  const int64_t chunks = ChunksOf(vocab_size);
  arena_.Add(&tasks_, max_sequences);
  arena_.Add(&words_, SamplingPlan::MostWords(vocab_size, max_sequences));
  arena_.Add(&adjusted_, max_sequences * vocab_size);
  arena_.Add(&maxima_, 2 * max_sequences * chunks);
  arena_.Add(&sums_, 2 * max_sequences * chunks);
}

Status TokenSampler::Allocate() {
  ERNE_RETURN_IF_CUDA_ERROR(PrepareSampling(), "preparing the kernels");
  ERNE_RETURN_IF_ERROR(arena_.Allocate("sampling"));
  const auto pin = [](uint64_t bytes) {
    return Memory::Allocate(Memory::Place::kPinned, bytes, "sampling");
  };
  const auto rows = static_cast<size_t>(max_sequences_);
  const auto words = static_cast<size_t>(SamplingPlan::MostWords(vocab_size_, max_sequences_));
  ERNE_ASSIGN_OR_RETURN(pinned_tasks_, pin(rows * sizeof(RowTask)));
  ERNE_ASSIGN_OR_RETURN(pinned_words_, pin(words * sizeof(uint32_t)));
  ERNE_ASSIGN_OR_RETURN(pinned_results_, pin(rows * sizeof(RowResult)));
  plan_.emplace(vocab_size_, std::span(reinterpret_cast<RowTask*>(pinned_tasks_.data()), rows),
                std::span(reinterpret_cast<uint32_t*>(pinned_words_.data()), words));
  return {};
}

cudaError_t TokenSampler::Plan(const Batch& batch, const Stream& stream) {
  plan_->Clear();
  rows_.clear();
  int64_t logit_row = 0;
  for (size_t s = 0; s < batch.size(); ++s) {
    if (batch[s].logits == SequenceRows::Logits::kToken) {
      Row row{.sequence = static_cast<int32_t>(s), .logit_row = static_cast<int32_t>(logit_row)};
      const auto task = static_cast<int32_t>(plan_->num_tasks());
      if (plan_->Add(row.logit_row, batch[s].choice)) row.task = task;
      rows_.push_back(row);
    }
    logit_row += LogitRows(batch[s]);
  }
  const auto copy = [&](void* to, const Memory& from, size_t bytes) {
    if (bytes == 0) return cudaSuccess;
    return cudaMemcpyAsync(to, from.data(), bytes, cudaMemcpyHostToDevice, stream.stream);
  };
  const cudaError_t error =
      copy(tasks_, pinned_tasks_, static_cast<size_t>(plan_->num_tasks()) * sizeof(RowTask));
  if (error != cudaSuccess) return error;
  return copy(words_, pinned_words_, static_cast<size_t>(plan_->num_words()) * sizeof(uint32_t));
}

cudaError_t TokenSampler::Launch(Stream& stream, const float* logits) {
  if (plan_->num_tasks() == 0) return cudaSuccess;
  SampleArgs args;
  args.tasks = tasks_;
  args.words = words_;
  args.rows = static_cast<int>(plan_->num_tasks());
  args.weighs = plan_->weighs();
  args.logits = logits;
  args.vocab = static_cast<int>(vocab_size_);
  args.adjusted = adjusted_;
  args.maxima = maxima_;
  args.sums = sums_;
  args.results = reinterpret_cast<RowResult*>(pinned_results_.data());
  stream.follows_kernel = false;  // a graph may be last
  return LaunchSample(stream, args);
}

cudaError_t TokenSampler::Finish(const Batch& batch, const float* logits,
                                 std::span<float> host_row) {
  const auto* const results = reinterpret_cast<const RowResult*>(pinned_results_.data());
  for (const Row& row : rows_) {
    const auto sequence = static_cast<size_t>(row.sequence);
    const TokenChoice& choice = batch[sequence].choice;
    if (row.task >= 0 && results[row.task].token >= 0) {
      chosen_[sequence] = ToSampledToken(results[row.task], choice.sampler->params());
      continue;
    }
    const auto vocab = static_cast<size_t>(vocab_size_);
    const cudaError_t error =
        cudaMemcpy(host_row.data(), logits + int64_t{row.logit_row} * vocab_size_,
                   vocab * sizeof(float), cudaMemcpyDeviceToHost);
    if (error != cudaSuccess) return error;
    chosen_[sequence] = choice.sampler->Sample(host_row.first(vocab), choice.point, scratch_);
  }
  return cudaSuccess;
}

Result<SampledToken> TokenSampler::Take(size_t sequence) {
  ERNE_CHECK(chosen_[sequence].has_value()) << "sequence " << sequence << " asked for no token";
  Result<SampledToken> taken = *std::move(chosen_[sequence]);
  chosen_[sequence].reset();
  return taken;
}

uint64_t SamplerBytes(int64_t vocab_size, int64_t max_sequences) {
  return SamplesVocab(vocab_size) ? TokenSampler(vocab_size, max_sequences).bytes() : 0;
}

}  // namespace erne::cuda
