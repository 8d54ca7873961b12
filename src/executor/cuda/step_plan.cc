#include "executor/cuda/step_plan.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "executor/batch_check.h"

namespace erne::cuda {
namespace {

// A sequence with more tiles than this walks: its rows share keys and values then.
constexpr int kMostSplitTiles = 4;
constexpr int kRangeWords = sizeof(QueryRange) / sizeof(int32_t);
constexpr int kWalkQueries = kWalkTiles * kTileQueries;

int64_t CeilDivide(int64_t a, int64_t b) { return (a + b - 1) / b; }

}  // namespace

StepLayout LayoutOf(const StepShape& shape) {
  StepLayout layout;
  layout.positions = layout.tokens + shape.rows;
  layout.slots = layout.positions + shape.rows;
  layout.logit_rows = layout.slots + shape.rows;
  layout.split_ranges = layout.logit_rows + shape.logit_rows;
  layout.walked_ranges = layout.split_ranges + int64_t{kRangeWords} * shape.split_ranges;
  layout.tables = layout.walked_ranges + int64_t{kRangeWords} * shape.walked_ranges;
  return layout;
}

int64_t StepPlanner::MostWords(const ExecutorLimits& limits, int64_t rows, int64_t split_ranges,
                               int group) {
  const int64_t walked = CeilDivide(rows * group, kWalkQueries) + limits.max_sequences;
  return 4 * rows + kRangeWords * (split_ranges + walked) +
         limits.max_sequences * BlocksForTokens(limits.max_context) + rows;
}

// 0: it walks.
int StepPlanner::SplitTiles(const SequenceRows& sequence) const {
  if (!limits_.split) return 0;
  const auto rows = static_cast<int64_t>(sequence.tokens.size());
  const int64_t tiles = CeilDivide(rows * limits_.group, kTileQueries);
  // One row splits whatever its heads are: nothing is shared by walking.
  return tiles <= kMostSplitTiles || rows == 1 ? static_cast<int>(tiles) : 0;
}

// States of all tiles of a sequence, from above: as if all ended with the last row.
int64_t StepPlanner::SplitStates(const SequenceRows& sequence) const {
  const int64_t last = sequence.start + static_cast<int64_t>(sequence.tokens.size()) - 1;
  return int64_t{SplitTiles(sequence)} * SpansOf(last);
}

void StepPlanner::ChooseShape(const Batch& batch, int pad_to) {
  shape_ = {};
  shape_.all_have_logits = true;
  bool single_rows = true;
  int64_t states = 0;
  for (const SequenceRows& sequence : batch) {
    const auto rows = static_cast<int>(sequence.tokens.size());
    const auto logits = static_cast<int>(LogitRows(sequence));
    shape_.rows += rows;
    shape_.logit_rows += logits;
    shape_.all_have_logits &= logits == rows;
    single_rows &= rows == 1;
    const int tiles = SplitTiles(sequence);
    const int64_t wanted = SplitStates(sequence);
    if (tiles > 0 && states + wanted <= limits_.max_states &&
        shape_.split_ranges + tiles <= limits_.max_split_ranges) {
      states += wanted;
      shape_.split_ranges += tiles;
    } else {
      shape_.walked_ranges +=
          static_cast<int>(CeilDivide(int64_t{rows} * limits_.group, kWalkQueries));
    }
  }
  padding_ = 0;
  if (!single_rows || !shape_.all_have_logits || shape_.walked_ranges > 0) return;
  const int64_t padding = pad_to - shape_.rows;
  const int64_t tiles = CeilDivide(limits_.group, kTileQueries);
  if (padding < 0 || states + padding * tiles > limits_.max_states ||
      shape_.split_ranges + padding * tiles > limits_.max_split_ranges) {
    return;
  }
  padding_ = static_cast<int>(padding);
  shape_.rows += padding_;
  shape_.logit_rows += padding_;
  shape_.split_ranges += static_cast<int>(padding * tiles);
}

void StepPlanner::Write(const Batch& batch, std::span<int32_t> out) {
  const StepLayout at = LayoutOf(shape_);
  int64_t row = 0;
  int64_t logit_row = 0;
  int64_t table = at.tables;
  int64_t split = at.split_ranges;
  int64_t walked = at.walked_ranges;
  int64_t states = 0;
  int64_t split_ranges = 0;
  const auto put = [&](int64_t& to, const QueryRange& range) {
    std::memcpy(out.data() + to, &range, sizeof(range));
    to += kRangeWords;
  };
  const auto add = [&](const SequenceRows& sequence) {
    const auto count = static_cast<int64_t>(sequence.tokens.size());
    const int64_t first_with_logits = count - LogitRows(sequence);
    QueryRange range;
    range.first_row = static_cast<int32_t>(row);
    range.position = static_cast<int32_t>(sequence.start);
    range.table = static_cast<int32_t>(table - at.tables);
    for (int64_t i = 0; i < count; ++i, ++row) {
      out[at.tokens + row] = sequence.tokens[static_cast<size_t>(i)];
      out[at.positions + row] = static_cast<int32_t>(sequence.start + i);
      out[at.slots + row] = static_cast<int32_t>(KvSlot(sequence.blocks, sequence.start + i));
      if (i >= first_with_logits) out[at.logit_rows + logit_row++] = static_cast<int32_t>(row);
    }
    const int64_t blocks = BlocksForTokens(sequence.start + count);
    std::copy_n(sequence.blocks.begin(), blocks, out.begin() + table);
    table += blocks;
    const auto queries = static_cast<int32_t>(count * limits_.group);
    const int tiles = SplitTiles(sequence);
    const int64_t wanted = SplitStates(sequence);
    if (tiles > 0 && states + wanted <= limits_.max_states &&
        split_ranges + tiles <= limits_.max_split_ranges) {
      for (int t = 0; t < tiles; ++t) {
        range.begin = t * kTileQueries;
        range.end = std::min(queries, range.begin + kTileQueries);
        range.first_state = static_cast<int32_t>(states + t * (wanted / tiles));
        put(split, range);
      }
      states += wanted;
      split_ranges += tiles;
      return;
    }
    for (int32_t begin = 0; begin < queries; begin += kWalkQueries) {
      range.begin = begin;
      range.end = std::min(queries, begin + kWalkQueries);
      put(walked, range);
    }
  };
  for (const SequenceRows& sequence : batch) add(sequence);
  const int32_t token = 0;
  for (int i = 0; i < padding_; ++i) {
    add({0, {&token, 1}, {&limits_.spare_block, 1}, SequenceRows::Logits::kLast});
  }
  words_ = table;
}

void StepPlanner::Plan(const Batch& batch, int pad_to, std::span<int32_t> out) {
  ChooseShape(batch, pad_to);
  ERNE_CHECK(static_cast<int64_t>(out.size()) >= limits_.max_words);
  Write(batch, out);
}

}  // namespace erne::cuda
