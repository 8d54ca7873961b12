// Which rows of which sequences run in the next step. Pure bookkeeping: no threads, no model, no
// clock, so it is tested over millions of steps without any of them.
//
// There is no prefill phase and no decode phase. A sequence has tokens (prompt, generated, guessed)
// and a count of those whose keys and values are computed; each step spends a budget of rows so
// that computed catches up. A long prompt takes what the budget leaves and goes on in the next step
// (chunked prefill); a sequence that lacks only its newest token takes one row (decode), or several
// when it has guesses to be checked (speculation); one whose beginning is in the prefix cache
// starts behind it; one that lost its blocks starts over (recompute). A sequence whose last known
// token is among the rows of a step gets its next token sampled from it.
//
// Order is by priority, then by arrival, everywhere. Each running sequence gets at least one row in
// every step; what is left of the budget goes to them in order, then to those who wait, the first
// in order first, and nobody overtakes. Blocks for all known tokens are taken at admission, so a
// prompt never stalls half-way; each block that generation needs after that is taken when it is
// needed. When none is free the running sequence that is last in order is preempted: it gives its
// blocks back, keeps its tokens, and waits in its place. The first running sequence can thus always
// go on, so every sequence ends (no starvation among equals), given that each fits the pool alone.
#pragma once

#include <array>
#include <cstdint>
#include <set>
#include <span>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "kv/block_pool.h"
#include "kv/prefix_cache.h"

namespace erne {

// A sequence as the scheduler sees it. Owned by the caller; the scheduler holds a pointer from Add
// to Remove. The caller writes the first group, between steps; the scheduler writes the second.
struct Sequence {
  std::vector<int32_t> tokens;  // prompt, what was generated, then guesses; never empty
  // The last `drafts` of tokens are guesses at what comes next. Only where computed + 1 + drafts ==
  // tokens.size(); the scheduler drops them (from `tokens` too) when they do not fit a step.
  int64_t drafts = 0;
  int64_t max_total = 0;  // tokens that are no guesses: never more; guesses: less than that many
  int64_t priority = 0;   // lower goes first; like root, fixed from Add on
  PrefixKey root = {};    // Scheduler::Root of its salt
  // Every row needs logits, not only the newest token's and the guesses': the prompt's own
  // log-probabilities are wanted. Such a sequence takes nothing from the prefix cache. The caller
  // sets it to false once it has them.
  bool prompt_logits = false;

  int64_t computed = 0;         // positions in the KV cache, counting those of the step in hand
  int64_t cached = 0;           // of them found in the prefix cache when it was last admitted
  std::vector<BlockId> blocks;  // covers `computed`; empty while waiting
  std::vector<PrefixKey> keys;  // of its full blocks, as far as they were needed
  enum class State { kNew, kWaiting, kRunning, kRemoved } state = State::kNew;
  uint64_t arrival = 0;  // order of Add
  int64_t preemptions = 0;

  int64_t known() const { return static_cast<int64_t>(tokens.size()) - drafts; }
};

// Rows [start, start + count) of a sequence.
struct ScheduledRows {
  Sequence* sequence = nullptr;
  int64_t start = 0;
  int64_t count = 0;
  int64_t logits = 0;  // the last so many rows have logits: none, the last one or all
  // The rows of known tokens end with the newest one: the next token is sampled. Guesses, if any,
  // follow.
  bool reaches_end = false;
};

struct SchedulerOptions {
  int64_t max_num_seqs = 1;  // running sequences
  int64_t max_num_batched_tokens =
      1;  // rows of a step; at least max_num_seqs, so that each running one moves
  int64_t max_logit_rows = 1;  // at least max_num_seqs
  int64_t num_blocks = 1;      // of the KV pool
  bool prefix_caching = true;
  std::array<uint64_t, 2> secret = {};  // of the prefix cache's hash
};

struct SchedulerCounters {
  int64_t preemptions = 0;
  int64_t prefix_queries = 0;  // tokens of full prompt blocks that were looked up
  int64_t prefix_hits = 0;     // and found
  int64_t blocks_taken = 0;    // by sequences, found ones included
  int64_t blocks_reused = 0;   // found ones
};

// Hears what happens to blocks, to time it. Allocates nothing, calls nothing back.
class BlockListener {
 public:
  virtual ~BlockListener() = default;
  virtual void OnTaken(BlockId block) = 0;     // for a new content
  virtual void OnReused(BlockId block) = 0;    // found in the prefix cache
  virtual void OnReleased(BlockId block) = 0;  // by the last who held it
  virtual void OnEvicted(BlockId block) = 0;   // its cached content is lost; OnTaken follows
};

// Used by one thread. A step that admits nobody allocates nothing.
class Scheduler {
 public:
  // `listener` may be null and outlives the scheduler.
  explicit Scheduler(const SchedulerOptions& options, BlockListener* listener = nullptr);
  Scheduler(const Scheduler&) = delete;
  Scheduler& operator=(const Scheduler&) = delete;

  // Tokens that a sequence may have in all so that it can end even if it has to run alone.
  int64_t max_total() const { return pool_.num_blocks() * kKvBlockSize; }

  // Where in the prefix cache sequences of that salt begin. Any thread.
  PrefixKey Root(std::string_view salt) const { return cache_.Root(salt); }

  // Puts a new sequence in the queue. CHECKs 0 < known <= max_total <= max_total(), no guesses.
  void Add(Sequence* sequence);

  // Plans the next step and counts its rows as computed. Valid until the next call. Empty only when
  // there is no sequence. `max_prompt_rows` bounds the rows beyond the first of each sequence
  // (guesses aside), so that those who decode are not held up; at least one such row runs when one
  // waits and the budget has room. Nobody is admitted to a step in which they are used up. CHECKs
  // that each running sequence lacks a token: who was at its end in the last step has got one.
  std::span<const ScheduledRows> Schedule(int64_t max_prompt_rows);
  // What can be said of the queue before a step, to choose max_prompt_rows.
  int64_t num_prefilling() const;      // running sequences that lack more than their newest token
  int64_t longest_prefilling() const;  // the most known tokens among them; 0: there are none

  // The rows ran well: their keys and values are in place, but for the last `rejected` ones, which
  // were wrong guesses. Called once for each ScheduledRows of a step that did not fail (the
  // sequences of one that did are removed), when the caller has dropped the guesses from `tokens`
  // (all of them that were wrong; right ones are known tokens now). The next token may be there
  // already. Full blocks enter the prefix cache; blocks that only guesses needed are free again.
  void Commit(const ScheduledRows& rows, int64_t rejected);

  // Forgets a sequence, running or waiting, and frees its blocks at once. Between steps.
  void Remove(Sequence* sequence);
  // The keys and values of a running sequence have turned out not to be numbers: nobody is to find
  // its blocks in the cache.
  void Distrust(const Sequence& sequence);

  int64_t num_running() const { return static_cast<int64_t>(running_.size()); }
  int64_t num_waiting() const { return static_cast<int64_t>(waiting_.size()); }
  const SchedulerCounters& counters() const { return counters_; }
  const BlockPool& pool() const { return pool_; }

  // Every invariant of this class, of its pool and of its cache; for tests and the idle engine.
  Status CheckIntegrity() const;

 private:
  struct Before {
    bool operator()(const Sequence* a, const Sequence* b) const {
      return a->priority != b->priority ? a->priority < b->priority : a->arrival < b->arrival;
    }
  };
  using Queue = std::set<Sequence*, Before>;

  // What is left of the step in hand.
  struct Budget {
    int64_t rows = 0;
    int64_t prompt_rows = 0;
    int64_t logit_rows = 0;
  };

  // The steps of Schedule, in order.
  void ReserveKnownTokens();
  void PlanRunning();
  void AdmitWaiting();
  void PlanGuesses();

  // Takes the rows of known tokens of a sequence whose first row was paid already.
  ScheduledRows Plan(Sequence& sequence);
  // How many of its guesses the step has rows and blocks for.
  int64_t GuessesThatFit(const Sequence& sequence) const;

  // Finds the cached blocks that the sequence can begin with (in found_); false: there is no room
  // for it.
  bool CanAdmit(Sequence& sequence);
  void FindCachedBlocks(Sequence& sequence);
  void Admit(Sequence& sequence);
  void PreemptLast();

  // The key of a full block of known tokens, computed once.
  const PrefixKey& Key(Sequence& sequence, int64_t block) const;
  const PrefixKey& Parent(const Sequence& sequence, int64_t block) const;
  void TakeBlock(Sequence& sequence);
  void ShareBlock(Sequence& sequence, BlockId block);
  // Frees the sequence's blocks but for the first `keep`, from the last one on: the beginnings of
  // chains are found again longest.
  void ReleaseBlocks(Sequence& sequence, int64_t keep);

  Status CheckRunning(const Sequence& sequence) const;
  Status CheckCachedBlocks(const Sequence& sequence) const;
  Status CheckReferences() const;

  SchedulerOptions options_;
  BlockListener* listener_;
  BlockPool pool_;
  PrefixCache cache_;
  std::vector<Sequence*> running_;  // in order
  Queue waiting_;
  // The queue's nodes of those who run: a preempted one goes back without an allocation.
  std::vector<Queue::node_type> nodes_;
  std::vector<ScheduledRows> step_;  // one entry for each of running_, in the same order
  std::vector<BlockId> found_;       // by FindCachedBlocks
  Budget budget_;
  uint64_t next_arrival_ = 0;
  SchedulerCounters counters_;
};

}  // namespace erne
