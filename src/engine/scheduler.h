// Which rows of which sequences run in the next step. Pure bookkeeping: no threads, no model, no
// clock, so it is tested over millions of steps without any of them.
//
// There is no prefill phase and no decode phase. A sequence has tokens (prompt and generated) and a
// count of those whose keys and values are computed; each step spends a budget of rows so that
// computed catches up. A long prompt takes what the budget leaves and goes on in the next step
// (chunked prefill); a sequence that lacks only its newest token takes one row (decode); one that
// lost its blocks starts over from 0 (recompute). A sequence whose last token is among the rows of
// a step gets its next token sampled from it.
//
// Order is first come, first served, everywhere: running sequences before waiting ones, the longest
// waiting first, and nobody overtakes. Blocks for all known tokens are taken at admission, so a
// prompt never stalls half-way; each block that generation needs after that is taken when it is
// needed. When none is free the newest running sequence is preempted: it gives its blocks back,
// keeps its tokens, and waits at the front. The oldest sequence can thus always go on, so every
// sequence ends (no starvation), given that each fits the pool alone.
#pragma once

#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include "base/status.h"
#include "kv/block_pool.h"

namespace erne {

// A sequence as the scheduler sees it. Owned by the caller; the scheduler holds a pointer from Add
// to Remove. The caller appends sampled tokens to `tokens` between steps and reads the rest; the
// scheduler writes the rest.
struct Sequence {
  std::vector<int32_t> tokens;  // prompt, then what was generated; never empty
  int64_t max_total = 0;        // tokens.size() never exceeds it

  int64_t computed = 0;         // positions in the KV cache, counting those of the step in hand
  std::vector<BlockId> blocks;  // covers `computed`; empty while waiting
  enum class State { kNew, kWaiting, kRunning, kRemoved } state = State::kNew;
  uint64_t arrival = 0;  // order of Add

  int64_t total() const { return static_cast<int64_t>(tokens.size()); }
};

// Rows [start, start + count) of a sequence.
struct ScheduledRows {
  Sequence* sequence = nullptr;
  int64_t start = 0;
  int64_t count = 0;
  bool reaches_end = false;  // the last row is the sequence's last token: sample the next
};

struct SchedulerOptions {
  int64_t max_num_seqs = 1;  // running sequences
  int64_t max_num_batched_tokens =
      1;                   // rows of a step; at least max_num_seqs, so that each running one moves
  int64_t num_blocks = 1;  // of the KV pool
};

// Used by one thread. A step that admits nobody allocates nothing.
class Scheduler {
 public:
  explicit Scheduler(const SchedulerOptions& options);
  Scheduler(const Scheduler&) = delete;
  Scheduler& operator=(const Scheduler&) = delete;

  // Tokens that a sequence may have in all so that it can end even if it has to run alone.
  int64_t max_total() const { return pool_.num_blocks() * kKvBlockSize; }

  // Puts a new sequence at the end of the queue. CHECKs 0 < total <= max_total <= max_total().
  void Add(Sequence* sequence);
  // Plans the next step and counts its rows as computed. Valid until the next call. Empty only when
  // there is no sequence.
  std::span<const ScheduledRows> Schedule();
  // Forgets a sequence, running or waiting, and frees its blocks at once. Between steps.
  void Remove(Sequence* sequence);

  int64_t num_running() const { return static_cast<int64_t>(running_.size()); }
  int64_t num_waiting() const { return static_cast<int64_t>(waiting_.size()); }
  int64_t num_preemptions() const { return num_preemptions_; }
  const BlockPool& pool() const { return pool_; }

  // Every invariant of this class and of its pool; for tests and the idle engine.
  Status CheckIntegrity() const;

 private:
  // Makes sure that the sequence holds blocks for all its tokens, preempting newer ones if need be.
  // False: it is the newest itself and has to sit this step out.
  bool ReserveBlocks(Sequence& sequence);
  void PreemptNewest();
  bool CanAdmit(const Sequence& sequence) const;
  void AdmitWaiting(int64_t budget);
  // Adds up to `budget` rows of the sequence to the step; returns how many.
  int64_t Take(Sequence& sequence, int64_t budget);

  SchedulerOptions options_;
  BlockPool pool_;
  std::vector<Sequence*> running_;  // by arrival; all of them arrived before all of waiting_
  std::deque<Sequence*> waiting_;   // by arrival
  std::vector<ScheduledRows> step_;
  uint64_t next_arrival_ = 0;
  int64_t num_preemptions_ = 0;
};

}  // namespace erne
