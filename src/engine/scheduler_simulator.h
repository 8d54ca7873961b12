// The life of a scheduler, without a model: sequences arrive, share beginnings, guess, are
// cancelled and end, as a source of choices decides, and every promise of scheduler.h is checked in
// every step. Shared by the property test (choices at random) and the fuzzer (choices by bytes).
//
// What an executor would write as keys and values of a position is here a hash of the salt and of
// all tokens up to it. Whoever runs must find, at every position before its rows, the hash of its
// own tokens: a block that is shared wrongly, overwritten while somebody needs it, or offered
// before it is computed, is seen at once.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "engine/scheduler.h"

namespace erne {

class SchedulerSimulator : private BlockListener {
 public:
  // A number in [low, high]. Where choices run out it answers `low`, and the life ends soon.
  using Choose = std::function<int64_t(int64_t low, int64_t high)>;

  explicit SchedulerSimulator(Choose choose);
  SchedulerSimulator(const SchedulerSimulator&) = delete;
  SchedulerSimulator& operator=(const SchedulerSimulator&) = delete;
  ~SchedulerSimulator() override;

  // Lives until every sequence has ended. An error says which promise was broken.
  Status Run();

  // How often the life came to the interesting places.
  struct Counts {
    int64_t steps = 0;
    int64_t chunks = 0;  // rows that did not reach the end
    int64_t preemptions = 0;
    int64_t hits = 0;        // admissions that began with cached blocks
    int64_t hits_again = 0;  // after a preemption
    int64_t evictions = 0;
    int64_t right_guesses = 0;
    int64_t wrong_guesses = 0;
    int64_t dropped_guesses = 0;
    int64_t overtaken = 0;  // admissions before a running sequence, by priority
    int64_t prompt_logits = 0;
    int64_t failed_steps = 0;
    int64_t cancelled = 0;
    int64_t ended = 0;
  };
  const Counts& counts() const { return counts_; }

 private:
  struct Life;  // a sequence, and what it has to look like

  void OnTaken(BlockId block) override;
  void OnReused(BlockId block) override;
  void OnReleased(BlockId block) override;
  void OnEvicted(BlockId block) override;

  bool OneIn(int64_t n) { return choose_(0, n - 1) == n - 1; }  // never when choices have run out
  void Arrive();
  std::vector<int32_t> MakePrompt(int64_t length);
  void Cancel();
  void Guess();
  Status Step();

  // After Schedule.
  Status CheckQueue(std::span<const ScheduledRows> step);
  Status CheckRows(const ScheduledRows& rows);
  Status CheckAdmission(Life& life);
  Status CheckBudgets(std::span<const ScheduledRows> step, int64_t max_prompt_rows);
  Status CheckGuesses(const Life& life);
  Status CheckBlocks();
  int64_t SpareBlocks() const;
  const Life* NextInQueue() const;

  // What an executor does.
  Status Read(const ScheduledRows& rows);
  Status Write(const ScheduledRows& rows);
  // What an engine does with its logits.
  Status EndRows(const ScheduledRows& rows);
  Status EndPass(Life& life);
  void RememberFullBlocks(const Life& life, int64_t start);
  void Fail(std::span<const ScheduledRows> step);

  void Hear(bool makes_sense, const char* what, BlockId block);
  void Remove(Life* life);
  uint64_t& Slot(const Sequence& sequence, int64_t position);

  Choose choose_;
  SchedulerOptions options_;
  std::unique_ptr<Scheduler> scheduler_;
  std::vector<std::unique_ptr<Life>> lives_;     // in order: priority, then arrival
  std::vector<std::vector<int32_t>> histories_;  // of some that have ended
  std::vector<uint64_t> memory_;                 // [num_blocks * kKvBlockSize]
  // Full blocks that are there to be found, by the hash of their last position.
  std::map<uint64_t, BlockId> findable_;
  bool out_of_guess_rows_ = false;  // the step in hand could not take one more

  // What the listener heard.
  std::vector<bool> held_;   // [num_blocks]
  BlockId evicted_ = -1;     // just now: OnTaken has to follow
  std::string heard_wrong_;  // the first contradiction
  int64_t taken_ = 0;
  int64_t reused_ = 0;

  int64_t arrivals_left_ = 0;
  int64_t steps_left_ = 0;
  Counts counts_;
};

}  // namespace erne
