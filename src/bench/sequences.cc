#include "bench/sequences.h"

#include <algorithm>
#include <numeric>

#include "base/strings.h"
#include "bench/agreement.h"
#include "kv/block_pool.h"

namespace erne::bench {

Sequences::Sequences(Executor& executor, int64_t count, int64_t context, uint64_t seed)
    : executor_(executor),
      context_(context),
      tokens_(RandomTokens(count * context, executor.spec().vocab_size, seed)),
      blocks_(static_cast<size_t>(Blocks(count, context))) {
  std::iota(blocks_.begin(), blocks_.end(), 0);
}

int64_t Sequences::Blocks(int64_t count, int64_t context) {
  return count * BlocksForTokens(context);
}

std::span<const int32_t> Sequences::Tokens(int64_t sequence, int64_t begin, int64_t count) const {
  return std::span(tokens_).subspan(static_cast<size_t>(sequence * context_ + begin),
                                    static_cast<size_t>(count));
}

std::span<const BlockId> Sequences::BlocksOf(int64_t sequence) const {
  const auto each = static_cast<size_t>(BlocksForTokens(context_));
  return std::span(blocks_).subspan(static_cast<size_t>(sequence) * each, each);
}

Status Sequences::Prefill(int64_t count, int64_t length) {
  const int64_t rows = executor_.limits().max_rows;
  for (int64_t sequence = 0; sequence < count; ++sequence) {
    for (int64_t start = 0; start < length; start += rows) {
      const int64_t end = std::min(length, start + rows);
      const auto logits = end == length ? SequenceRows::Logits::kLast : SequenceRows::Logits::kNone;
      batch_.assign(1, {start, Tokens(sequence, start, end - start), BlocksOf(sequence), logits});
      ERNE_RETURN_IF_ERROR(executor_.Run(batch_).status());
    }
  }
  return {};
}

Status Sequences::Decode(int64_t count, int64_t depth, int64_t steps) {
  for (int64_t step = 0; step < steps; ++step) {
    batch_.clear();
    for (int64_t sequence = 0; sequence < count; ++sequence) {
      batch_.push_back({depth + step, Tokens(sequence, depth + step, 1), BlocksOf(sequence),
                        SequenceRows::Logits::kLast});
    }
    ERNE_RETURN_IF_ERROR(executor_.Run(batch_).status());
  }
  return {};
}

Status Sequences::Rows(int64_t depth, int64_t rows, int64_t logit_rows, int64_t steps) {
  const int64_t silent = rows - logit_rows;
  batch_.clear();
  if (silent > 0) {
    batch_.push_back({depth, Tokens(0, depth, silent), BlocksOf(0), SequenceRows::Logits::kNone});
  }
  batch_.push_back({depth + silent, Tokens(0, depth + silent, logit_rows), BlocksOf(0),
                    SequenceRows::Logits::kAll});
  for (int64_t step = 0; step < steps; ++step) {
    ERNE_RETURN_IF_ERROR(executor_.Run(batch_).status());
  }
  return {};
}

Case Sequences::PrefillCase(const ModelWork& work, int64_t count, int64_t length) {
  Case made;
  made.name = count == 1 ? StrCat("prefill ", length) : StrCat("prefill ", count, " x ", length);
  made.tokens = static_cast<double>(count * length);
  const int64_t rows = executor_.limits().max_rows;
  for (int64_t start = 0; start < length; start += rows) {
    const int64_t end = std::min(length, start + rows);
    StepRows step;
    step.rows = static_cast<double>(end - start);
    step.logit_rows = end == length ? 1 : 0;
    step.attended = step.rows * static_cast<double>(start + end + 1) / 2;
    step.kv_read = static_cast<double>(end);
    made.bytes += static_cast<double>(count) * work.Bytes(step);
    made.operations += static_cast<double>(count) * work.Operations(step);
  }
  made.run = Timed([this, count, length] { return Prefill(count, length); });
  return made;
}

Case Sequences::DecodeCase(const ModelWork& work, int64_t count, int64_t depth, int64_t steps) {
  Case made;
  made.name = count == 1 ? StrCat("decode ", steps, " at depth ", depth)
                         : StrCat("decode ", count, " x ", steps, " at depth ", depth);
  made.tokens = static_cast<double>(count * steps);
  for (int64_t i = 0; i < steps; ++i) {
    StepRows step;
    step.rows = step.logit_rows = static_cast<double>(count);
    step.attended = step.kv_read = static_cast<double>(count * (depth + i + 1));
    made.bytes += work.Bytes(step);
    made.operations += work.Operations(step);
  }
  made.run = Timed([this, count, depth, steps] { return Decode(count, depth, steps); });
  return made;
}

}  // namespace erne::bench
