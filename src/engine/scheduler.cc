#include "engine/scheduler.h"

#include <algorithm>

#include "base/check.h"
#include "base/strings.h"

namespace erne {

Scheduler::Scheduler(const SchedulerOptions& options)
    : options_(options), pool_(options.num_blocks) {
  ERNE_CHECK(options.max_num_seqs > 0 && options.num_blocks > 0);
  ERNE_CHECK(options.max_num_batched_tokens >= options.max_num_seqs)
      << options.max_num_batched_tokens << " rows do not move " << options.max_num_seqs
      << " sequences";
  running_.reserve(static_cast<size_t>(options.max_num_seqs));
  step_.reserve(static_cast<size_t>(options.max_num_seqs));
}

void Scheduler::Add(Sequence* sequence) {
  ERNE_CHECK(sequence->state == Sequence::State::kNew);
  ERNE_CHECK(sequence->total() > 0 && sequence->total() <= sequence->max_total &&
             sequence->max_total <= max_total())
      << sequence->total() << " of " << sequence->max_total << " tokens, limit " << max_total();
  sequence->state = Sequence::State::kWaiting;
  sequence->arrival = next_arrival_++;
  waiting_.push_back(sequence);
}

std::span<const ScheduledRows> Scheduler::Schedule() {
  step_.clear();
  int64_t budget = options_.max_num_batched_tokens;
  // Preemption removes from the end of running_, never what is already in this step.
  for (size_t i = 0; i < running_.size() && budget > 0; ++i) {
    if (!ReserveBlocks(*running_[i])) break;
    budget -= Take(*running_[i], budget);
  }
  AdmitWaiting(budget);
  return step_;
}

int64_t Scheduler::Take(Sequence& sequence, int64_t budget) {
  const int64_t count = std::min(sequence.total() - sequence.computed, budget);
  if (count == 0) return 0;
  const int64_t start = sequence.computed;
  sequence.computed += count;
  step_.push_back({&sequence, start, count, sequence.computed == sequence.total()});
  return count;
}

bool Scheduler::ReserveBlocks(Sequence& sequence) {
  const int64_t missing =
      BlocksForTokens(sequence.total()) - static_cast<int64_t>(sequence.blocks.size());
  if (missing <= 0) return true;
  while (!pool_.Allocate(missing, sequence.blocks)) {
    if (running_.back() == &sequence) return false;
    PreemptNewest();
  }
  return true;
}

void Scheduler::PreemptNewest() {
  Sequence* victim = running_.back();
  running_.pop_back();
  pool_.Release(victim->blocks);
  victim->computed = 0;
  victim->state = Sequence::State::kWaiting;
  waiting_.push_front(victim);  // it arrived before everyone who waits
  ++num_preemptions_;
}

bool Scheduler::CanAdmit(const Sequence& sequence) const {
  if (num_running() >= options_.max_num_seqs) return false;
  const int64_t left = pool_.num_free() - BlocksForTokens(sequence.total());
  // Each running sequence asks for at most one block in the next kKvBlockSize steps: leaving that
  // many free keeps the newcomer from being preempted right away. When nobody runs, fitting is
  // enough.
  return left >= num_running();
}

void Scheduler::AdmitWaiting(int64_t budget) {
  while (!waiting_.empty() && budget > 0 && CanAdmit(*waiting_.front())) {
    Sequence& sequence = *waiting_.front();
    waiting_.pop_front();
    running_.push_back(&sequence);
    sequence.state = Sequence::State::kRunning;
    sequence.blocks.reserve(static_cast<size_t>(BlocksForTokens(sequence.max_total)));
    ERNE_CHECK(ReserveBlocks(sequence));
    budget -= Take(sequence, budget);
  }
}

void Scheduler::Remove(Sequence* sequence) {
  if (sequence->state == Sequence::State::kRunning) {
    ERNE_CHECK(std::erase(running_, sequence) == 1);
  } else {
    ERNE_CHECK(sequence->state == Sequence::State::kWaiting && std::erase(waiting_, sequence) == 1);
  }
  pool_.Release(sequence->blocks);
  sequence->state = Sequence::State::kRemoved;
}

Status Scheduler::CheckIntegrity() const {
  ERNE_RETURN_IF_ERROR(pool_.CheckIntegrity());
  int64_t held = 0;
  uint64_t next = 0;  // arrivals rise through running_, then waiting_
  const auto in_order = [&next](const Sequence& sequence) {
    const bool ok = sequence.arrival >= next;
    next = sequence.arrival + 1;
    return ok;
  };
  for (const Sequence* sequence : running_) {
    const int64_t blocks = static_cast<int64_t>(sequence->blocks.size());
    if (sequence->state != Sequence::State::kRunning || !in_order(*sequence)) {
      return Internal(StrCat("running sequence ", sequence->arrival, " is out of place"));
    }
    if (sequence->computed > sequence->total() || BlocksForTokens(sequence->computed) > blocks ||
        blocks > BlocksForTokens(sequence->max_total)) {
      return Internal(StrCat("sequence ", sequence->arrival, ": ", sequence->computed, " of ",
                             sequence->total(), " tokens computed, ", blocks, " blocks"));
    }
    held += blocks;
  }
  for (const Sequence* sequence : waiting_) {
    if (sequence->state != Sequence::State::kWaiting || !in_order(*sequence)) {
      return Internal(StrCat("waiting sequence ", sequence->arrival, " is out of place"));
    }
    if (sequence->computed != 0 || !sequence->blocks.empty()) {
      return Internal(StrCat("waiting sequence ", sequence->arrival, " holds blocks"));
    }
  }
  if (held != pool_.num_used()) {
    return Internal(StrCat(pool_.num_used(), " blocks in use, ", held, " of them by sequences"));
  }
  return {};
}

}  // namespace erne
