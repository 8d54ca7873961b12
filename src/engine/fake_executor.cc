#include "engine/fake_executor.h"

#include <algorithm>
#include <limits>

#include "base/check.h"
#include "engine/test_prefix.h"
#include "executor/batch_check.h"

namespace erne {
namespace {

constexpr uint64_t kEmptyPrefix = 0x65726E65;

// In [-4, 4), with many distinct values and a few ties.
void FillLogits(uint64_t prefix, std::span<float> row) {
  for (size_t token = 0; token < row.size(); ++token) {
    row[token] =
        static_cast<float>(Mix(prefix + token * 0x9E3779B97F4A7C15) % 1024) / 128.0F - 4.0F;
  }
}

}  // namespace

FakeExecutor::FakeExecutor(const FakeExecutorOptions& options)
    : options_(options), pool_(options.threads) {
  spec_.architecture = "fake";
  spec_.vocab_size = options.vocab_size;
  spec_.max_positions = options.limits.max_context;
  slots_.resize(static_cast<size_t>(options.limits.num_blocks * kKvBlockSize));
  logits_.resize(static_cast<size_t>(options.limits.max_logit_rows * options.vocab_size));
}

void FakeExecutor::ForEach(int64_t count, const std::function<void(int64_t)>& body) {
  pool_.ParallelFor(count, 1, [&body](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i) body(i);
  });
}

ExecutorInfo FakeExecutor::info() const {
  ExecutorInfo info;
  info.name = "fake";
  info.weight_type = "none";
  info.activation_type = "none";
  return info;
}

std::vector<float> FakeExecutor::LogitsAfter(std::span<const int32_t> tokens, int64_t vocab_size) {
  uint64_t prefix = kEmptyPrefix;
  for (const int32_t token : tokens) prefix = ExtendPrefix(prefix, token);
  std::vector<float> row(static_cast<size_t>(vocab_size));
  FillLogits(prefix, row);
  return row;
}

// Walks all positions before the rows: each must have been written at this position, in an earlier
// run, by a sequence that had these tokens before it (perhaps another one, whose block is shared).
// A block that somebody else wrote into breaks the chain.
uint64_t FakeExecutor::ReadPrefix(const SequenceRows& rows) {
  uint64_t prefix = kEmptyPrefix;
  for (int64_t position = 0; position < rows.start; ++position) {
    Slot& slot = slots_[static_cast<size_t>(KvSlot(rows.blocks, position))];
    ERNE_CHECK(slot.position == position)
        << "position " << position << " is read from a slot that holds position " << slot.position;
    prefix = ExtendPrefix(prefix, slot.token);
    ERNE_CHECK(slot.prefix == prefix) << "position " << position << " belongs to another sequence";
    ERNE_CHECK(slot.written_in_run != runs_) << "position " << position << " is not there yet";
    slot.read_in_run = runs_;
  }
  return prefix;
}

// Fills the logits that are asked for, from row `logit_row` on; returns how many rows those are.
int64_t FakeExecutor::WriteRows(const SequenceRows& rows, uint64_t prefix, int64_t logit_row) {
  const auto vocab = static_cast<size_t>(options_.vocab_size);
  const int64_t end = rows.start + static_cast<int64_t>(rows.tokens.size());
  int64_t position = rows.start;
  int64_t written = 0;
  for (const int32_t token : rows.tokens) {
    prefix = ExtendPrefix(prefix, token);
    Slot& slot = slots_[static_cast<size_t>(KvSlot(rows.blocks, position))];
    ERNE_CHECK(slot.written_in_run != runs_) << "two rows of a step write position " << position;
    ERNE_CHECK(slot.read_in_run != runs_) << "position " << position << " is written and shared";
    slot = {position, prefix, token, runs_};
    ++position;
    const bool wanted = rows.logits == SequenceRows::Logits::kAll ||
                        (rows.logits != SequenceRows::Logits::kNone && position == end);
    if (!wanted) continue;
    const auto row = static_cast<size_t>(logit_row + written++);
    if (token != options_.nan_after_token) {
      FillLogits(prefix, std::span(logits_).subspan(row * vocab, vocab));
    }
  }
  return written;
}

Result<std::span<const float>> FakeExecutor::RunWhile(const Batch& batch,
                                                      const std::function<void()>& meanwhile) {
  if (!options_.meanwhile_last) meanwhile();
  Result<std::span<const float>> result = Run(batch);
  if (options_.meanwhile_last) meanwhile();
  return result;
}

Result<std::span<const float>> FakeExecutor::Run(const Batch& batch) {
  CheckBatch(batch, options_.vocab_size, options_.limits);
  ++runs_;
  if (options_.on_run) ERNE_RETURN_IF_ERROR(options_.on_run(batch));
  const auto vocab = static_cast<size_t>(options_.vocab_size);
  std::fill(logits_.begin(), logits_.end(), std::numeric_limits<float>::quiet_NaN());
  int64_t row = 0;
  tokens_.clear();
  for (size_t s = 0; s < batch.size(); ++s) {
    const SequenceRows& rows = batch[s];
    const int64_t written = WriteRows(rows, ReadPrefix(rows), row);
    if (rows.logits != SequenceRows::Logits::kToken) {
      row += written;
      continue;
    }
    ERNE_CHECK(options_.chooses_tokens);
    const auto logits =
        std::span<const float>(logits_).subspan(static_cast<size_t>(row) * vocab, vocab);
    SamplerScratch scratch(options_.vocab_size);
    tokens_.emplace(s, rows.choice.sampler->Sample(logits, rows.choice.point, scratch));
    // The next row overwrites it: the caller does not get it.
    std::fill_n(logits_.begin() + row * options_.vocab_size, vocab,
                std::numeric_limits<float>::quiet_NaN());
  }
  return std::span<const float>(logits_).first(static_cast<size_t>(row) * vocab);
}

}  // namespace erne
