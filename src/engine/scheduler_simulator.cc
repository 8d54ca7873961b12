#include "engine/scheduler_simulator.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/strings.h"
#include "engine/test_prefix.h"

namespace erne {
namespace {

// So few that sequences often go on alike.
constexpr int64_t kVocab = 3;

uint64_t EmptyPrefix(int64_t salt) { return Mix(static_cast<uint64_t>(salt)); }
// What the model says after these tokens (whatever the salt).
int32_t NextToken(std::span<const int32_t> tokens) {
  uint64_t prefix = EmptyPrefix(0);
  for (const int32_t token : tokens) prefix = ExtendPrefix(prefix, token);
  return static_cast<int32_t>(prefix % kVocab);
}

template <typename... Args>
Status Expect(bool condition, const Args&... otherwise) {
  return condition ? Status() : Internal(StrCat(otherwise...));
}

bool GoesBefore(const Sequence& a, const Sequence& b) {
  return a.priority != b.priority ? a.priority < b.priority : a.arrival < b.arrival;
}

}  // namespace

struct SchedulerSimulator::Life : Sequence {
  int64_t salt = 0;
  int64_t target = 0;                // ends with that many tokens
  std::vector<bool> missing_logits;  // [prompt], of those that want prompt_logits

  // What is expected of the next step.
  bool was_running = false;
  int64_t seen_preemptions = 0;
  int64_t next_row = 0;
  std::vector<BlockId> table;
  std::vector<int32_t> offered;  // tokens, guesses included
  int64_t offered_known = 0;     // of them no guesses
};

SchedulerSimulator::SchedulerSimulator(Choose choose) : choose_(std::move(choose)) {
  options_.max_num_seqs = choose_(1, 6);
  options_.max_num_batched_tokens = options_.max_num_seqs + choose_(0, 40);
  options_.max_logit_rows = options_.max_num_seqs + choose_(0, 8);
  options_.num_blocks = choose_(1, 16);
  options_.prefix_caching = !OneIn(5);
  options_.secret = {static_cast<uint64_t>(choose_(0, 255)), 0};
  BlockListener* const listener = this;
  scheduler_ = std::make_unique<Scheduler>(options_, listener);
  memory_.assign(static_cast<size_t>(options_.num_blocks * kKvBlockSize), 0);
  held_.assign(static_cast<size_t>(options_.num_blocks), false);
  arrivals_left_ = choose_(1, 40);
  // The first in order moves in every step. It may change with each arrival, and who was the first
  // may then start over.
  steps_left_ = arrivals_left_ * arrivals_left_ * scheduler_->max_total();
}

SchedulerSimulator::~SchedulerSimulator() = default;

Status SchedulerSimulator::Run() {
  while (arrivals_left_ > 0 || !lives_.empty()) {
    while (arrivals_left_ > 0 && choose_(0, 3) == 0) Arrive();
    if (OneIn(50)) Cancel();
    Guess();
    ERNE_RETURN_IF_ERROR(Step());
  }
  counts_.preemptions = scheduler_->counters().preemptions;
  ERNE_RETURN_IF_ERROR(Expect(scheduler_->pool().num_used() == 0 &&
                                  scheduler_->num_running() + scheduler_->num_waiting() == 0,
                              "something is left at the end"));
  return Expect(scheduler_->counters().blocks_reused == reused_ &&
                    scheduler_->counters().blocks_taken == taken_ + reused_,
                "blocks are counted wrongly");
}

void SchedulerSimulator::Arrive() {
  auto life = std::make_unique<Life>();
  // Often short, and with a short prompt, so that many run, grow, and are preempted.
  const int64_t limit = scheduler_->max_total();
  life->max_total = choose_(2, OneIn(2) ? std::min<int64_t>(limit, 5 * kKvBlockSize) : limit);
  const int64_t prompt = choose_(1, OneIn(2) ? 1 + life->max_total / 8 : life->max_total - 1);
  life->tokens = MakePrompt(prompt);
  life->target = choose_(prompt + 1, life->max_total);
  life->salt = choose_(0, 4) / 4;
  life->root = scheduler_->Root(StrCat(life->salt));
  life->priority = choose_(0, 5) / 4;
  life->prompt_logits = OneIn(8);
  if (life->prompt_logits) life->missing_logits.assign(static_cast<size_t>(prompt), true);
  scheduler_->Add(life.get());
  const auto place = std::find_if(lives_.begin(), lives_.end(),
                                  [&](const auto& other) { return GoesBefore(*life, *other); });
  lives_.insert(place, std::move(life));
  --arrivals_left_;
}

// Like an earlier sequence for a while, then of its own.
std::vector<int32_t> SchedulerSimulator::MakePrompt(int64_t length) {
  std::vector<int32_t> prompt;
  if (!histories_.empty() && choose_(0, 3) > 0) {
    prompt =
        histories_[static_cast<size_t>(choose_(0, static_cast<int64_t>(histories_.size()) - 1))];
  }
  const int64_t alike = std::min<int64_t>(std::ssize(prompt), length);
  prompt.resize(static_cast<size_t>(OneIn(2) ? alike : choose_(0, alike)));
  auto own = static_cast<uint64_t>(choose_(0, 2));
  while (std::ssize(prompt) < length) {
    own = Mix(own);
    prompt.push_back(static_cast<int32_t>(own % kVocab));
  }
  return prompt;
}

void SchedulerSimulator::Cancel() {
  if (lives_.empty()) return;
  ++counts_.cancelled;
  Remove(lives_[static_cast<size_t>(choose_(0, std::ssize(lives_) - 1))].get());
}

void SchedulerSimulator::Guess() {
  for (const auto& life : lives_) {
    if (life->state == Sequence::State::kRunning && life->known() - life->computed == 1) {
      const int64_t guesses = std::min(choose_(0, 6), life->max_total - life->known() - 1);
      while (life->drafts < guesses) {
        const int32_t right = NextToken(life->tokens);
        life->tokens.push_back(OneIn(4) ? (right + 1) % kVocab : right);
        ++life->drafts;
      }
    }
    life->offered = life->tokens;
    life->offered_known = life->known();
  }
}

Status SchedulerSimulator::Step() {
  const int64_t max_prompt_rows = OneIn(2) ? choose_(0, 20) : 1000;
  for (const auto& life : lives_) {
    life->was_running = life->state == Sequence::State::kRunning;
    life->seen_preemptions = life->preemptions;
  }
  const std::span<const ScheduledRows> step = scheduler_->Schedule(max_prompt_rows);
  if (lives_.empty()) return Expect(step.empty(), "rows of nobody");
  ++counts_.steps;
  ERNE_RETURN_IF_ERROR(Expect(--steps_left_ >= 0, "this takes too many steps"));
  ERNE_RETURN_IF_ERROR(scheduler_->CheckIntegrity());
  ERNE_RETURN_IF_ERROR(CheckQueue(step));
  for (const ScheduledRows& rows : step) ERNE_RETURN_IF_ERROR(CheckRows(rows));
  ERNE_RETURN_IF_ERROR(CheckBudgets(step, max_prompt_rows));
  for (const auto& life : lives_) ERNE_RETURN_IF_ERROR(CheckGuesses(*life));
  ERNE_RETURN_IF_ERROR(CheckBlocks());
  for (const ScheduledRows& rows : step) ERNE_RETURN_IF_ERROR(Read(rows));
  for (const ScheduledRows& rows : step) ERNE_RETURN_IF_ERROR(Write(rows));
  if (OneIn(300)) {
    Fail(step);
  } else {
    for (const ScheduledRows& rows : step) ERNE_RETURN_IF_ERROR(EndRows(rows));
  }
  ERNE_RETURN_IF_ERROR(CheckBlocks());
  return scheduler_->CheckIntegrity();
}

// Who runs, who was preempted and who waits, in order.
Status SchedulerSimulator::CheckQueue(std::span<const ScheduledRows> step) {
  size_t running = 0;
  bool someone_waits = false;
  bool someone_stopped = false;
  for (const auto& life : lives_) {
    const bool runs = life->state == Sequence::State::kRunning;
    const bool stopped = life->was_running && life->preemptions > life->seen_preemptions;
    if (runs) {
      ERNE_RETURN_IF_ERROR(Expect(running < step.size() && step[running].sequence == life.get(),
                                  "sequence ", life->arrival, " has no rows, or not in its place"));
      ++running;
    }
    if (runs && life->was_running && !stopped) {
      ERNE_RETURN_IF_ERROR(Expect(!someone_stopped, "sequence ", life->arrival,
                                  " runs on and one before it was preempted"));
    } else if (runs) {
      ERNE_RETURN_IF_ERROR(
          Expect(!someone_waits, "sequence ", life->arrival, " was admitted before its turn"));
    } else {
      ERNE_RETURN_IF_ERROR(Expect(life->was_running == stopped, "sequence ", life->arrival,
                                  " does not run any more and was not preempted"));
    }
    someone_waits = someone_waits || !runs;
    someone_stopped = someone_stopped || stopped;
  }
  ERNE_RETURN_IF_ERROR(Expect(running == step.size(), "rows of a sequence that does not run"));
  return Expect(running > 0 && std::ssize(step) <= options_.max_num_seqs, running,
                " sequences run");
}

Status SchedulerSimulator::CheckBudgets(std::span<const ScheduledRows> step,
                                        int64_t max_prompt_rows) {
  int64_t rows_used = 0;
  int64_t prompt_rows_used = 0;
  int64_t logit_rows_used = 0;  // with one for each sequence, wanted or not
  int64_t guesses = 0;
  for (const ScheduledRows& rows : step) {
    const int64_t known = rows.count - rows.sequence->drafts;
    rows_used += known;
    prompt_rows_used += known - 1;
    logit_rows_used += std::max<int64_t>(rows.logits - rows.sequence->drafts, 1);
    guesses += rows.sequence->drafts;
  }
  const int64_t rows_left = options_.max_num_batched_tokens - rows_used;
  const int64_t prompt_rows_left = std::max<int64_t>(max_prompt_rows, 1) - prompt_rows_used;
  const int64_t logit_rows_left = options_.max_logit_rows - logit_rows_used;
  ERNE_RETURN_IF_ERROR(
      Expect(rows_left >= guesses && prompt_rows_left >= 0 && logit_rows_left >= guesses,
             "beyond the budget: left are ", rows_left, " rows, ", prompt_rows_left,
             " of prompts and ", logit_rows_left, " with logits, for ", guesses, " guesses"));
  out_of_guess_rows_ = rows_left == guesses || logit_rows_left == guesses;

  // Work is held back for want of something only, and never for guesses.
  const bool none_left = rows_left == 0 || prompt_rows_left == 0;
  for (const ScheduledRows& rows : step) {
    // One row with logits may have been left to a newcomer who could not come.
    const bool waits_for_logits = rows.sequence->prompt_logits && logit_rows_left <= 1;
    ERNE_RETURN_IF_ERROR(Expect(rows.reaches_end || none_left || waits_for_logits, "sequence ",
                                rows.sequence->arrival, " is held up for nothing"));
  }
  const Life* next = NextInQueue();
  const bool no_place = std::ssize(step) == options_.max_num_seqs;
  return Expect(
      next == nullptr || none_left || logit_rows_left == 0 || no_place || SpareBlocks() < 0,
      "the next in the queue waits for nothing");
}

// Guesses are kept, from the first one on, or dropped; nothing else happens to the tokens.
Status SchedulerSimulator::CheckGuesses(const Life& life) {
  const auto offered = life.offered.begin() + life.offered_known;
  ERNE_RETURN_IF_ERROR(Expect(
      life.known() == life.offered_known && std::ssize(life.tokens) <= std::ssize(life.offered) &&
          std::equal(life.tokens.begin(), life.tokens.end(), life.offered.begin()),
      "the tokens of sequence ", life.arrival, " have changed"));
  const int64_t dropped = life.offered.end() - offered - life.drafts;
  counts_.dropped_guesses += dropped;
  const int64_t spare = SpareBlocks();
  const bool preempted = life.preemptions > life.seen_preemptions;
  const bool full = std::ssize(life.tokens) % kKvBlockSize == 0 && spare <= 0;
  ERNE_RETURN_IF_ERROR(Expect(dropped == 0 || preempted || full || out_of_guess_rows_,
                              "guesses of sequence ", life.arrival, " were dropped for nothing"));
  const bool took_a_block =
      BlocksForTokens(std::ssize(life.tokens)) > BlocksForTokens(life.known());
  return Expect(!took_a_block || spare >= 0, "guesses of sequence ", life.arrival,
                " took a block that is needed");
}

// Free blocks beyond one for each running sequence and those of the next in the queue.
int64_t SchedulerSimulator::SpareBlocks() const {
  const int64_t spare = scheduler_->pool().num_free() - scheduler_->num_running();
  const Life* next = NextInQueue();
  return next == nullptr ? spare : spare - BlocksForTokens(next->known());
}

const SchedulerSimulator::Life* SchedulerSimulator::NextInQueue() const {
  const auto waits = [](const auto& life) { return life->state == Sequence::State::kWaiting; };
  const auto next = std::find_if(lives_.begin(), lives_.end(), waits);
  return next == lives_.end() ? nullptr : next->get();
}

Status SchedulerSimulator::CheckRows(const ScheduledRows& rows) {
  auto& life = static_cast<Life&>(*rows.sequence);
  if (!life.was_running || life.preemptions > life.seen_preemptions) {
    ERNE_RETURN_IF_ERROR(CheckAdmission(life));
  }
  const int64_t end = rows.start + rows.count;
  ERNE_RETURN_IF_ERROR(Expect(rows.count > 0 && rows.start == life.next_row &&
                                  life.computed == end && end <= std::ssize(life.tokens),
                              "rows ", rows.start, " to ", end, " of sequence ", life.arrival,
                              ", expected from ", life.next_row));
  ERNE_RETURN_IF_ERROR(Expect(rows.reaches_end == (end == std::ssize(life.tokens)) &&
                                  (rows.reaches_end || life.drafts == 0),
                              "reaches_end is wrong at ", end));
  const int64_t logits = life.prompt_logits ? rows.count : (rows.reaches_end ? 1 + life.drafts : 0);
  ERNE_RETURN_IF_ERROR(
      Expect(rows.logits == logits, rows.logits, " rows with logits, expected ", logits));
  if (!rows.reaches_end) ++counts_.chunks;
  // A table covers what is known (and guessed), and grows only: what was written stays where it
  // was.
  ERNE_RETURN_IF_ERROR(
      Expect(std::ssize(life.blocks) == BlocksForTokens(std::ssize(life.tokens)) &&
                 life.table.size() <= life.blocks.size() &&
                 std::equal(life.table.begin(), life.table.end(), life.blocks.begin()),
             "sequence ", life.arrival, " has another table"));
  return {};
}

Status SchedulerSimulator::CheckAdmission(Life& life) {
  const bool may_hit = options_.prefix_caching && !life.prompt_logits;
  ERNE_RETURN_IF_ERROR(Expect(life.cached % kKvBlockSize == 0 && life.cached < life.known() &&
                                  (life.cached == 0 || may_hit),
                              "sequence ", life.arrival, " begins with ", life.cached,
                              " cached positions"));
  // What is still there now was there at admission.
  int64_t could_hit = 0;
  uint64_t prefix = EmptyPrefix(life.salt);
  for (int64_t i = 0; may_hit && i + 1 < life.known(); ++i) {
    prefix = ExtendPrefix(prefix, life.tokens[static_cast<size_t>(i)]);
    if ((i + 1) % kKvBlockSize != 0) continue;
    if (!findable_.contains(prefix)) break;
    could_hit = i + 1;
  }
  ERNE_RETURN_IF_ERROR(Expect(life.cached >= could_hit, "sequence ", life.arrival, " begins with ",
                              life.cached, " cached positions, not ", could_hit));
  life.next_row = life.cached;
  life.table.clear();
  if (life.cached > 0) ++(life.preemptions > 0 ? counts_.hits_again : counts_.hits);
  const auto overtaken = [&](const auto& other) {
    return other->was_running && GoesBefore(life, *other);
  };
  if (std::any_of(lives_.begin(), lives_.end(), overtaken)) ++counts_.overtaken;
  return {};
}

Status SchedulerSimulator::CheckBlocks() {
  for (BlockId block = 0; block < options_.num_blocks; ++block) {
    Hear(held_[static_cast<size_t>(block)] == (scheduler_->pool().references(block) > 0), "now",
         block);
  }
  return Expect(heard_wrong_.empty(), heard_wrong_);
}

uint64_t& SchedulerSimulator::Slot(const Sequence& sequence, int64_t position) {
  const BlockId block = sequence.blocks[static_cast<size_t>(position / kKvBlockSize)];
  return memory_[static_cast<size_t>(block * kKvBlockSize + position % kKvBlockSize)];
}

Status SchedulerSimulator::Read(const ScheduledRows& rows) {
  const auto& life = static_cast<const Life&>(*rows.sequence);
  uint64_t prefix = EmptyPrefix(life.salt);
  for (int64_t i = 0; i < rows.start; ++i) {
    prefix = ExtendPrefix(prefix, life.tokens[static_cast<size_t>(i)]);
    ERNE_RETURN_IF_ERROR(Expect(Slot(life, i) == prefix, "position ", i, " of sequence ",
                                life.arrival, " holds something else"));
  }
  return {};
}

Status SchedulerSimulator::Write(const ScheduledRows& rows) {
  const auto& life = static_cast<const Life&>(*rows.sequence);
  uint64_t prefix = EmptyPrefix(life.salt);
  for (int64_t i = 0; i < rows.start + rows.count; ++i) {
    prefix = ExtendPrefix(prefix, life.tokens[static_cast<size_t>(i)]);
    if (i < rows.start) continue;
    const BlockId block = life.blocks[static_cast<size_t>(i / kKvBlockSize)];
    ERNE_RETURN_IF_ERROR(Expect(scheduler_->pool().references(block) == 1, "sequence ",
                                life.arrival, " writes into a shared block"));
    Slot(life, i) = prefix;
  }
  return {};
}

Status SchedulerSimulator::EndRows(const ScheduledRows& rows) {
  auto& life = static_cast<Life&>(*rows.sequence);
  if (life.prompt_logits) {  // the last row of a prompt may have guesses behind it
    const int64_t end = std::min(rows.start + rows.count, std::ssize(life.missing_logits));
    for (int64_t i = rows.start + rows.count - rows.logits; i < end; ++i) {
      life.missing_logits[static_cast<size_t>(i)] = false;
    }
  }
  const int64_t drafts = std::exchange(life.drafts, 0);
  auto known = std::ssize(life.tokens) - drafts;
  const auto tokens = std::span<const int32_t>(life.tokens);
  while (known < std::ssize(life.tokens) &&
         tokens[static_cast<size_t>(known)] ==
             NextToken(tokens.first(static_cast<size_t>(known)))) {
    ++known;
  }
  const int64_t rejected = std::ssize(life.tokens) - known;
  life.tokens.resize(static_cast<size_t>(known));
  counts_.right_guesses += drafts - rejected;
  counts_.wrong_guesses += rejected;
  // The next token may be there when the rows are committed, or come after that.
  const bool early = rows.reaches_end && OneIn(2);
  if (early) life.tokens.push_back(NextToken(life.tokens));
  scheduler_->Commit(rows, rejected);
  if (rows.reaches_end && !early) life.tokens.push_back(NextToken(life.tokens));
  life.next_row = rows.start + rows.count - rejected;
  life.table = life.blocks;
  const auto blocks = std::ssize(life.blocks);
  ERNE_RETURN_IF_ERROR(Expect(life.computed == life.next_row && blocks >= BlocksForTokens(known) &&
                                  blocks <= BlocksForTokens(early ? known + 1 : known),
                              "sequence ", life.arrival, " has ", life.computed,
                              " positions computed and ", blocks, " blocks for ", known,
                              " tokens"));
  RememberFullBlocks(life, rows.start);
  return rows.reaches_end ? EndPass(life) : Status();
}

// The sequence got a token.
Status SchedulerSimulator::EndPass(Life& life) {
  if (life.prompt_logits) {
    ERNE_RETURN_IF_ERROR(
        Expect(std::count(life.missing_logits.begin(), life.missing_logits.end(), true) == 0,
               "sequence ", life.arrival, " did not get the logits of its prompt"));
    ++counts_.prompt_logits;
    life.prompt_logits = false;
  }
  if (life.known() < life.target) return {};
  ++counts_.ended;
  Remove(&life);
  return {};
}

// Those that became full with the rows from `start` on.
void SchedulerSimulator::RememberFullBlocks(const Life& life, int64_t start) {
  if (!options_.prefix_caching) return;
  uint64_t prefix = EmptyPrefix(life.salt);
  for (int64_t i = 0; i < life.computed; ++i) {
    prefix = ExtendPrefix(prefix, life.tokens[static_cast<size_t>(i)]);
    if (i < start || (i + 1) % kKvBlockSize != 0) continue;
    // Where two hold the same, the first one is found.
    findable_.try_emplace(prefix, life.blocks[static_cast<size_t>(i / kKvBlockSize)]);
  }
}

void SchedulerSimulator::Fail(std::span<const ScheduledRows> step) {
  ++counts_.failed_steps;
  std::vector<Sequence*> failed;
  for (const ScheduledRows& rows : step) failed.push_back(rows.sequence);
  for (Sequence* sequence : failed) Remove(static_cast<Life*>(sequence));
}

void SchedulerSimulator::Remove(Life* life) {
  constexpr size_t kHistories = 8;
  if (histories_.size() == kHistories) histories_.erase(histories_.begin());
  histories_.push_back(life->tokens);
  scheduler_->Remove(life);
  const auto place = std::find_if(lives_.begin(), lives_.end(),
                                  [&](const auto& other) { return other.get() == life; });
  lives_.erase(place);
}

void SchedulerSimulator::Hear(bool makes_sense, const char* what, BlockId block) {
  if (makes_sense || !heard_wrong_.empty()) return;
  heard_wrong_ = StrCat("the listener heard wrong things of block ", block, ": ", what);
}

void SchedulerSimulator::OnTaken(BlockId block) {
  Hear(!held_[static_cast<size_t>(block)] && (evicted_ == -1 || evicted_ == block), "taken", block);
  const auto holds_it = [&](const auto& entry) { return entry.second == block; };
  Hear(std::none_of(findable_.begin(), findable_.end(), holds_it), "taken, not evicted", block);
  held_[static_cast<size_t>(block)] = true;
  evicted_ = -1;
  ++taken_;
}

void SchedulerSimulator::OnReused(BlockId block) {
  Hear(evicted_ == -1, "reused", block);
  held_[static_cast<size_t>(block)] = true;
  ++reused_;
}

void SchedulerSimulator::OnReleased(BlockId block) {
  Hear(held_[static_cast<size_t>(block)] && evicted_ == -1, "released", block);
  held_[static_cast<size_t>(block)] = false;
}

void SchedulerSimulator::OnEvicted(BlockId block) {
  const auto holds_it = [&](const auto& entry) { return entry.second == block; };
  const auto forgotten = std::erase_if(findable_, holds_it);
  Hear(!held_[static_cast<size_t>(block)] && evicted_ == -1 && forgotten == 1, "evicted", block);
  evicted_ = block;
  ++counts_.evictions;
}

}  // namespace erne
