// How much a step takes on beside the sequences that decode, from the times that steps were
// measured to take. What it decides changes when tokens come, never which.
//
// Prompts. While sequences decode, each row of a prompt in their step makes all of them wait longer
// for their next token. One prompt gets so many rows that a step takes kPromptStretch of its time
// longer; for each further prompt that waits it is twice that, so that a crowd is let in quickly.
// The longest prompt at hand gets a kPromptSteps-th of its length in any case: who waits for a
// first token has a claim, too, and fewer rows than the executor computes at next to no cost help
// nobody. When nobody decodes nobody waits: a step is as large as the budget.
//
// Guesses. Rows of guesses make a step longer and, where they are right, bring more than one token
// a sequence. They are worth it when tokens come faster with them than without, and that is what is
// measured: while it holds they go on; when it does not they pause, for longer each time, and are
// tried again.
#pragma once

#include <cstdint>
#include <vector>

namespace erne {

// What ran in a step.
struct StepShape {
  int64_t decoding = 0;     // rows that are the newest token of a sequence
  int64_t prompt_rows = 0;  // rows of prompts
  int64_t drafted = 0;      // rows of guesses
  int64_t accepted = 0;     // guesses that were right
};

// Used by the loop thread. Allocates nothing after construction. Reads no clock.
class StepPacer {
 public:
  // A stream among others then still gets its tokens at two thirds of its pace.
  static constexpr double kPromptStretch = 0.45;
  // Alone, a prompt is computed in so many steps at most, whatever was measured.
  static constexpr int64_t kPromptSteps = 64;
  // More sequences than these fill a step by themselves, and even intervals matter more.
  static constexpr int64_t kMaxGuessing = 4;
  // Guessing must bring this much more tokens in the same time.
  static constexpr double kLeastGain = 1.05;

  // least_prompt_rows: as Executor::least_prompt_rows.
  StepPacer(int64_t max_sequences, int64_t max_rows, int64_t least_prompt_rows = 1);

  // Rows of prompts for the next step. decoding: sequences that decode. prompts: those whose prompt
  // is not computed yet, running or waiting. longest: tokens of the longest one that is running.
  int64_t MaxPromptRows(int64_t decoding, int64_t prompts, int64_t longest) const;
  // Whether guesses are welcome in the next step. Counts the steps of a pause.
  bool WantsGuesses(int64_t decoding, int64_t prompts);
  // A step that ran well.
  void Add(const StepShape& step, double seconds);

 private:
  // Seconds of a step that decodes so many sequences and does nothing else; 0: not known.
  double DecodeSeconds(int64_t decoding) const;
  void AddGuesses(const StepShape& step, double seconds);

  int64_t max_rows_;
  int64_t least_prompt_rows_;
  std::vector<double> decode_seconds_;  // [max_sequences + 1], 0: not measured
  double prompt_row_seconds_ = 0;       // beside decoding sequences, at the present chunk size

  double gain_ = 1;             // tokens per second with guesses / without
  int64_t gain_samples_ = 0;    // since the last pause
  int64_t pause_ = 0;           // steps left without guesses
  int64_t next_pause_;          // how long the next pause is
  int64_t steps_in_a_row_ = 0;  // with guesses
};

}  // namespace erne
