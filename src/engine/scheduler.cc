#include "engine/scheduler.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/check.h"
#include "base/strings.h"

namespace erne {
namespace {

std::span<const int32_t> TokensOfBlock(const Sequence& sequence, int64_t block) {
  return std::span(sequence.tokens)
      .subspan(static_cast<size_t>(block * kKvBlockSize), static_cast<size_t>(kKvBlockSize));
}

int64_t NumBlocks(const Sequence& sequence) { return static_cast<int64_t>(sequence.blocks.size()); }

void DropGuesses(Sequence& sequence, int64_t keep) {
  sequence.tokens.resize(static_cast<size_t>(sequence.known() + keep));
  sequence.drafts = keep;
}

bool IsPrefilling(const Sequence* sequence) { return sequence->known() - sequence->computed > 1; }

// The longest beginning that may come from the cache, in full blocks. The last known token is
// computed in any case: its logits are wanted.
int64_t BlocksToLookUp(const Sequence& sequence) {
  return sequence.prompt_logits ? 0 : (sequence.known() - 1) / kKvBlockSize;
}

}  // namespace

Scheduler::Scheduler(const SchedulerOptions& options, BlockListener* listener)
    : options_(options),
      listener_(listener),
      pool_(options.num_blocks),
      cache_(options.prefix_caching ? options.num_blocks : 0, options.secret) {
  ERNE_CHECK(options.max_num_seqs > 0 && options.num_blocks > 0);
  ERNE_CHECK(options.max_num_batched_tokens >= options.max_num_seqs &&
             options.max_logit_rows >= options.max_num_seqs)
      << options.max_num_batched_tokens << " rows, " << options.max_logit_rows
      << " of them with logits, do not move " << options.max_num_seqs << " sequences";
  running_.reserve(static_cast<size_t>(options.max_num_seqs));
  nodes_.reserve(static_cast<size_t>(options.max_num_seqs));
  step_.reserve(static_cast<size_t>(options.max_num_seqs));
  found_.reserve(static_cast<size_t>(options.num_blocks));
}

void Scheduler::Add(Sequence* sequence) {
  ERNE_CHECK(sequence->state == Sequence::State::kNew && sequence->drafts == 0);
  ERNE_CHECK(sequence->known() > 0 && sequence->known() <= sequence->max_total &&
             sequence->max_total <= max_total())
      << sequence->known() << " of " << sequence->max_total << " tokens, limit " << max_total();
  sequence->state = Sequence::State::kWaiting;
  sequence->arrival = next_arrival_++;
  if (options_.prefix_caching) {
    sequence->keys.reserve(static_cast<size_t>(BlocksToLookUp(*sequence)));
  }
  waiting_.insert(sequence);
}

std::span<const ScheduledRows> Scheduler::Schedule(int64_t max_prompt_rows) {
  step_.clear();
  ReserveKnownTokens();
  // One row of each kind is kept for each running sequence.
  budget_ = {.rows = options_.max_num_batched_tokens - num_running(),
             .prompt_rows = std::max<int64_t>(max_prompt_rows, 1),
             .logit_rows = options_.max_logit_rows - num_running()};
  PlanRunning();
  AdmitWaiting();
  PlanGuesses();
  return step_;
}

// Blocks for every known token of those who run, at the cost of those who are last.
void Scheduler::ReserveKnownTokens() {
  for (size_t i = 0; i < running_.size(); ++i) {
    Sequence& sequence = *running_[i];
    ERNE_CHECK(sequence.computed < sequence.known())
        << "sequence " << sequence.arrival << " got no token after its last row";
    ERNE_CHECK(sequence.drafts == 0 ||
               (sequence.drafts > 0 && sequence.computed + 1 == sequence.known() &&
                sequence.known() + sequence.drafts < sequence.max_total))
        << sequence.drafts << " guesses behind " << sequence.known() << " tokens, of which "
        << sequence.computed << " are computed; limit " << sequence.max_total;
    while (sequence.state == Sequence::State::kRunning &&
           NumBlocks(sequence) < BlocksForTokens(sequence.known())) {
      if (pool_.num_free() > 0) {
        TakeBlock(sequence);
      } else {
        PreemptLast();  // perhaps the sequence itself: then it was the last one
      }
    }
  }
}

void Scheduler::PlanRunning() {
  // A long prompt with logits for each row leaves one for a newcomer.
  const bool newcomers = !waiting_.empty() && num_running() < options_.max_num_seqs;
  if (newcomers) --budget_.logit_rows;
  for (Sequence* sequence : running_) step_.push_back(Plan(*sequence));
  if (newcomers) ++budget_.logit_rows;
}

ScheduledRows Scheduler::Plan(Sequence& sequence) {
  const int64_t start = sequence.computed;
  const int64_t lacks = sequence.known() - start;
  int64_t more = std::min({lacks - 1, budget_.rows, budget_.prompt_rows});
  if (sequence.prompt_logits) {
    more = std::min(more, budget_.logit_rows);
    budget_.logit_rows -= more;
  }
  budget_.rows -= more;
  budget_.prompt_rows -= more;
  ScheduledRows rows{.sequence = &sequence, .start = start, .count = 1 + more};
  rows.reaches_end = rows.count == lacks;
  rows.logits = sequence.prompt_logits ? rows.count : (rows.reaches_end ? 1 : 0);
  sequence.computed += rows.count;
  return rows;
}

void Scheduler::AdmitWaiting() {
  while (!waiting_.empty() && num_running() < options_.max_num_seqs && budget_.rows > 0 &&
         budget_.prompt_rows > 0 && budget_.logit_rows > 0 && CanAdmit(**waiting_.begin())) {
    nodes_.push_back(waiting_.extract(waiting_.begin()));
    Sequence& sequence = *nodes_.back().value();
    Admit(sequence);
    --budget_.rows;
    --budget_.logit_rows;
    // Among the running, and in the step, it stands in its place: it may go before some of them.
    const auto place = std::upper_bound(running_.begin(), running_.end(), &sequence, Before());
    step_.insert(step_.begin() + (place - running_.begin()), Plan(sequence));
    running_.insert(place, &sequence);
  }
}

bool Scheduler::CanAdmit(Sequence& sequence) {
  // Each running sequence asks for at most one block in the next kKvBlockSize steps: leaving that
  // many free keeps the newcomer from being preempted right away. When nobody runs, fitting is
  // enough. At least one of its blocks is not found, so most refusals need no look at the cache.
  found_.clear();
  if (pool_.num_free() <= num_running()) return false;
  FindCachedBlocks(sequence);
  const auto is_free = [this](BlockId block) { return pool_.references(block) == 0; };
  const int64_t taken = BlocksForTokens(sequence.known()) - static_cast<int64_t>(found_.size()) +
                        std::count_if(found_.begin(), found_.end(), is_free);
  return pool_.num_free() - taken >= num_running();
}

void Scheduler::FindCachedBlocks(Sequence& sequence) {
  if (!options_.prefix_caching) return;
  const int64_t end = BlocksToLookUp(sequence);
  for (int64_t i = 0; i < end; ++i) {
    const PrefixKey& key = Key(sequence, i);
    const auto block = cache_.Find(key, Parent(sequence, i), TokensOfBlock(sequence, i));
    if (!block.has_value()) return;
    found_.push_back(*block);
  }
}

void Scheduler::Admit(Sequence& sequence) {
  sequence.state = Sequence::State::kRunning;
  // Room for what it may become: later steps allocate nothing.
  sequence.blocks.reserve(static_cast<size_t>(BlocksForTokens(sequence.max_total)));
  if (options_.prefix_caching) {
    sequence.keys.reserve(static_cast<size_t>(sequence.max_total / kKvBlockSize));
    if (sequence.preemptions == 0) {
      counters_.prefix_queries += BlocksToLookUp(sequence) * kKvBlockSize;
      counters_.prefix_hits += static_cast<int64_t>(found_.size()) * kKvBlockSize;
    }
  }
  // First those that are there, lest a free one among them is taken for another content.
  for (const BlockId block : found_) ShareBlock(sequence, block);
  sequence.cached = sequence.computed = NumBlocks(sequence) * kKvBlockSize;
  while (NumBlocks(sequence) < BlocksForTokens(sequence.known())) TakeBlock(sequence);
}

// Guesses come last, so that they cost nobody a row, a place or a block.
void Scheduler::PlanGuesses() {
  for (size_t i = 0; i < step_.size(); ++i) {
    Sequence& sequence = *running_[i];
    if (sequence.drafts == 0) continue;
    DropGuesses(sequence, GuessesThatFit(sequence));
    while (NumBlocks(sequence) * kKvBlockSize < static_cast<int64_t>(sequence.tokens.size())) {
      TakeBlock(sequence);
    }
    step_[i].count += sequence.drafts;
    step_[i].logits += sequence.drafts;
    sequence.computed += sequence.drafts;
    budget_.rows -= sequence.drafts;
    budget_.logit_rows -= sequence.drafts;
  }
}

int64_t Scheduler::GuessesThatFit(const Sequence& sequence) const {
  // A block for guesses alone must be one that neither a running sequence nor the next in the queue
  // is going to ask for soon.
  const int64_t next = waiting_.empty() ? 0 : BlocksForTokens((*waiting_.begin())->known());
  const int64_t spare = std::max<int64_t>(pool_.num_free() - num_running() - next, 0);
  const int64_t room = (NumBlocks(sequence) + spare) * kKvBlockSize - sequence.known();
  return std::min({sequence.drafts, budget_.rows, budget_.logit_rows, room});
}

int64_t Scheduler::num_prefilling() const {
  return std::count_if(running_.begin(), running_.end(), IsPrefilling);
}

int64_t Scheduler::longest_prefilling() const {
  int64_t longest = 0;
  for (const Sequence* sequence : running_) {
    if (IsPrefilling(sequence)) longest = std::max(longest, sequence->known());
  }
  return longest;
}

void Scheduler::Commit(const ScheduledRows& rows, int64_t rejected) {
  Sequence& sequence = *rows.sequence;
  ERNE_CHECK(sequence.state == Sequence::State::kRunning && sequence.drafts == 0 &&
             sequence.computed == rows.start + rows.count && rejected >= 0 &&
             rejected < rows.count && sequence.computed - rejected <= sequence.known())
      << "rows " << rows.start << " to " << rows.start + rows.count << ", " << rejected
      << " rejected, of a sequence with " << sequence.known() << " tokens and " << sequence.drafts
      << " guesses, " << sequence.computed << " computed";
  sequence.computed -= rejected;
  ReleaseBlocks(sequence, BlocksForTokens(sequence.known()));
  if (!options_.prefix_caching) return;
  for (int64_t i = rows.start / kKvBlockSize; i < sequence.computed / kKvBlockSize; ++i) {
    // Two that compute the same content at the same time: the first one's block is found later on.
    const PrefixKey& key = Key(sequence, i);
    cache_.Insert(sequence.blocks[static_cast<size_t>(i)], key, Parent(sequence, i),
                  TokensOfBlock(sequence, i));
  }
}

void Scheduler::PreemptLast() {
  Sequence* sequence = running_.back();
  running_.pop_back();
  ReleaseBlocks(*sequence, 0);
  DropGuesses(*sequence, 0);
  sequence->computed = 0;
  sequence->state = Sequence::State::kWaiting;
  ++sequence->preemptions;
  ++counters_.preemptions;
  Queue::node_type node = std::move(nodes_.back());
  nodes_.pop_back();
  node.value() = sequence;
  waiting_.insert(std::move(node));
}

void Scheduler::Remove(Sequence* sequence) {
  if (sequence->state == Sequence::State::kRunning) {
    const auto place = std::lower_bound(running_.begin(), running_.end(), sequence, Before());
    ERNE_CHECK(place != running_.end() && *place == sequence);
    running_.erase(place);
    nodes_.pop_back();
  } else {
    ERNE_CHECK(sequence->state == Sequence::State::kWaiting && waiting_.erase(sequence) == 1);
  }
  ReleaseBlocks(*sequence, 0);
  sequence->state = Sequence::State::kRemoved;
}

void Scheduler::Distrust(const Sequence& sequence) {
  if (!options_.prefix_caching) return;
  for (const BlockId block : sequence.blocks) cache_.Erase(block);
}

const PrefixKey& Scheduler::Parent(const Sequence& sequence, int64_t block) const {
  return block == 0 ? sequence.root : sequence.keys[static_cast<size_t>(block) - 1];
}

const PrefixKey& Scheduler::Key(Sequence& sequence, int64_t block) const {
  for (auto i = static_cast<int64_t>(sequence.keys.size()); i <= block; ++i) {
    const PrefixKey key = cache_.Next(Parent(sequence, i), TokensOfBlock(sequence, i));
    sequence.keys.push_back(key);
  }
  return sequence.keys[static_cast<size_t>(block)];
}

void Scheduler::TakeBlock(Sequence& sequence) {
  const BlockId block = pool_.Take();
  if (options_.prefix_caching && cache_.Has(block)) {
    cache_.Erase(block);
    if (listener_ != nullptr) listener_->OnEvicted(block);
  }
  if (listener_ != nullptr) listener_->OnTaken(block);
  ++counters_.blocks_taken;
  sequence.blocks.push_back(block);
}

void Scheduler::ShareBlock(Sequence& sequence, BlockId block) {
  pool_.Share(block);
  if (listener_ != nullptr) listener_->OnReused(block);
  ++counters_.blocks_taken;
  ++counters_.blocks_reused;
  sequence.blocks.push_back(block);
}

void Scheduler::ReleaseBlocks(Sequence& sequence, int64_t keep) {
  for (; NumBlocks(sequence) > keep; sequence.blocks.pop_back()) {
    const BlockId block = sequence.blocks.back();
    pool_.Release(block, options_.prefix_caching && cache_.Has(block));
    if (listener_ != nullptr && pool_.references(block) == 0) listener_->OnReleased(block);
  }
}

Status Scheduler::CheckIntegrity() const {
  ERNE_RETURN_IF_ERROR(pool_.CheckIntegrity());
  ERNE_RETURN_IF_ERROR(cache_.CheckIntegrity());
  if (num_running() > options_.max_num_seqs || nodes_.size() != running_.size()) {
    return Internal(StrCat(num_running(), " sequences run, at most ", options_.max_num_seqs, "; ",
                           nodes_.size(), " queue nodes are kept for them"));
  }
  for (size_t i = 0; i < running_.size(); ++i) {
    if (i > 0 && !Before()(running_[i - 1], running_[i])) {
      return Internal(StrCat("running sequence ", running_[i]->arrival, " is out of place"));
    }
    ERNE_RETURN_IF_ERROR(CheckRunning(*running_[i]));
  }
  const Sequence* previous = nullptr;
  for (const Sequence* sequence : waiting_) {
    if (sequence->state != Sequence::State::kWaiting ||
        (previous != nullptr && !Before()(previous, sequence))) {
      return Internal(StrCat("waiting sequence ", sequence->arrival, " is out of place"));
    }
    if (sequence->computed != 0 || sequence->drafts != 0 || !sequence->blocks.empty()) {
      return Internal(StrCat("waiting sequence ", sequence->arrival, " holds something"));
    }
    previous = sequence;
  }
  return CheckReferences();
}

Status Scheduler::CheckRunning(const Sequence& sequence) const {
  const auto size = static_cast<int64_t>(sequence.tokens.size());
  if (sequence.state != Sequence::State::kRunning || sequence.drafts < 0 ||
      sequence.computed < sequence.cached || sequence.computed > size ||
      BlocksForTokens(sequence.computed) > NumBlocks(sequence) ||
      NumBlocks(sequence) > BlocksForTokens(sequence.max_total)) {
    return Internal(StrCat("sequence ", sequence.arrival, ": ", sequence.computed, " of ", size,
                           " tokens computed, ", NumBlocks(sequence), " blocks"));
  }
  return CheckCachedBlocks(sequence);
}

// A block that the cache knows is full, its tokens are known and computed, and they are those of
// the entry.
Status Scheduler::CheckCachedBlocks(const Sequence& sequence) const {
  if (!options_.prefix_caching) return {};
  for (int64_t i = 0; i < NumBlocks(sequence); ++i) {
    const BlockId block = sequence.blocks[static_cast<size_t>(i)];
    if (!cache_.Has(block)) continue;
    if ((i + 1) * kKvBlockSize > std::min(sequence.computed, sequence.known()) ||
        i >= static_cast<int64_t>(sequence.keys.size()) ||
        cache_.Find(sequence.keys[static_cast<size_t>(i)], Parent(sequence, i),
                    TokensOfBlock(sequence, i)) != block) {
      return Internal(StrCat("the cache holds another content of block ", block, " than sequence ",
                             sequence.arrival));
    }
  }
  return {};
}

// Each block has as many references as tables hold it, and none holds it twice.
Status Scheduler::CheckReferences() const {
  std::vector<int32_t> held(static_cast<size_t>(pool_.num_blocks()), 0);
  std::vector<const Sequence*> last(held.size(), nullptr);
  for (const Sequence* sequence : running_) {
    for (const BlockId block : sequence->blocks) {
      const auto index = static_cast<size_t>(block);
      if (index >= held.size() || std::exchange(last[index], sequence) == sequence) {
        return Internal(StrCat("sequence ", sequence->arrival, " holds block ", block,
                               index >= held.size() ? ", which does not exist" : " twice"));
      }
      ++held[index];
    }
  }
  for (BlockId block = 0; block < pool_.num_blocks(); ++block) {
    if (pool_.references(block) == held[static_cast<size_t>(block)]) continue;
    return Internal(StrCat("block ", block, " has ", pool_.references(block), " references, ",
                           held[static_cast<size_t>(block)], " tables hold it"));
  }
  return {};
}

}  // namespace erne
