#include "executor/batch_check.h"

#include <limits>

#include "base/check.h"
#include "base/strings.h"

namespace erne {

int64_t LogitRows(const SequenceRows& sequence) {
  switch (sequence.logits) {
    case SequenceRows::Logits::kNone:
      return 0;
    case SequenceRows::Logits::kLast:
    case SequenceRows::Logits::kToken:
      return sequence.tokens.empty() ? 0 : 1;
    case SequenceRows::Logits::kAll:
      return static_cast<int64_t>(sequence.tokens.size());
  }
  return 0;
}

BatchSize CheckBatch(const Batch& batch, int64_t vocab_size, const ExecutorLimits& limits) {
  ERNE_CHECK(static_cast<int64_t>(batch.size()) <= limits.max_sequences)
      << batch.size() << " sequences, at most " << limits.max_sequences;
  BatchSize size;
  for (size_t s = 0; s < batch.size(); ++s) {
    const SequenceRows& sequence = batch[s];
    const auto count = static_cast<int64_t>(sequence.tokens.size());
    ERNE_CHECK(count > 0) << "sequence " << s << " has no rows";
    ERNE_CHECK(sequence.start >= 0 && sequence.start <= limits.max_context - count)
        << "sequence " << s << " has rows " << sequence.start << " + " << count
        << ", the context is " << limits.max_context;
    ERNE_CHECK(sequence.logits != SequenceRows::Logits::kToken ||
               sequence.choice.sampler != nullptr)
        << "sequence " << s << " asks for a token without saying how to choose it";
    for (const int32_t token : sequence.tokens) {
      ERNE_CHECK(token >= 0 && token < vocab_size)
          << "token " << token << " of sequence " << s << ", the vocabulary has " << vocab_size;
    }
    ERNE_CHECK(static_cast<int64_t>(sequence.blocks.size()) >=
               BlocksForTokens(sequence.start + count))
        << "sequence " << s << " has " << sequence.blocks.size() << " blocks for "
        << sequence.start + count << " positions";
    for (const BlockId block : sequence.blocks) {
      ERNE_CHECK(block >= 0 && block < limits.num_blocks)
          << "block " << block << " of sequence " << s << ", the pool has " << limits.num_blocks;
    }
    size.rows += count;
    size.logit_rows += LogitRows(sequence);
  }
  ERNE_CHECK(size.rows <= limits.max_rows) << size.rows << " rows, at most " << limits.max_rows;
  ERNE_CHECK(size.logit_rows <= limits.max_logit_rows)
      << size.logit_rows << " rows with logits, at most " << limits.max_logit_rows;
  return size;
}

Status CheckLimits(const ExecutorLimits& limits) {
  const struct {
    const char* name;
    int64_t value;
  } fields[] = {{"max_rows", limits.max_rows},
                {"max_logit_rows", limits.max_logit_rows},
                {"max_sequences", limits.max_sequences},
                {"max_context", limits.max_context},
                {"num_blocks", limits.num_blocks}};
  for (const auto& field : fields) {
    // Indices are products of these with widths of the model: 31 bits keep them within 64.
    if (field.value < 1 || field.value > std::numeric_limits<int32_t>::max()) {
      return InvalidArgument(
          StrCat("the executor's ", field.name, " is ", field.value, ", not within 1..2147483647"));
    }
  }
  return {};
}

}  // namespace erne
