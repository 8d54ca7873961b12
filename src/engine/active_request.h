// A request from Submit to its last event.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "engine/observer.h"
#include "engine/prompt_lookup.h"
#include "engine/request.h"
#include "engine/scheduler.h"
#include "executor/executor.h"
#include "grammar/matcher.h"
#include "sampling/sampler.h"

namespace erne {

// Made by the submitting thread, then the loop thread's alone.
class ActiveRequest : public Sequence {
 public:
  // `request` is valid. now: seconds of the steady clock.
  ActiveRequest(GenerationRequest request, std::shared_ptr<TokenStream> to, int64_t vocab_size,
                double now);

  TokenStream& stream() const { return *stream_; }
  const std::shared_ptr<TokenStream>& shared_stream() const { return stream_; }
  int64_t prompt_length() const { return record.prompt_tokens; }
  bool has_output() const { return known() > prompt_length(); }
  bool route_trace() const { return route_trace_; }
  bool overdue(double now) const { return deadline_ > 0 && now >= deadline_; }
  int64_t timeout_ms() const { return timeout_ms_; }

  // Room for the whole answer, so that its tokens allocate nothing; at the first of them, because a
  // request that waits needs to hold its prompt only.
  void ReserveAnswer(int64_t max_drafts);

  // Appends guesses of what comes next.
  void Guess(const PromptLookupRule& rule, int64_t max_drafts);
  // Takes them out of the sequence, into `guesses`.
  void TakeGuesses(std::vector<int32_t>& guesses);
  // How the last ones fared: right ones make the next ones longer.
  void JudgeGuesses(int64_t drafted, int64_t accepted);

  // How the next token is chosen; good until the sequence changes.
  TokenChoice Choice() const;
  // Chooses the next token from its logits [vocab].
  Result<SampledToken> Sample(std::span<const float> logits, SamplerScratch& scratch) const;
  // Appends it. What makes the answer end with it; nothing when it goes on. With a grammar, makes
  // the mask of the next one.
  std::optional<FinishReason> Accept(int32_t token);

  // The row of prompt position `position` was computed: what it says of the token behind it.
  // Rows of a recomputation say nothing new. An error: the logits are not numbers.
  Status CollectPromptLogprobs(int64_t position, std::span<const float> logits,
                               SamplerScratch& scratch);

  // With the first token.
  std::vector<std::vector<TokenLogprob>> TakePromptLogprobs() {
    return std::move(prompt_logprobs_);
  }

  RequestRecord record;
  int64_t prompt_counted = 0;  // prompt tokens that the statistics have
  size_t index = 0;            // in the engine's list

 private:
  // What was generated so far; guesses are none of it.
  std::span<const int32_t> output() const {
    return std::span(tokens).subspan(static_cast<size_t>(prompt_length()),
                                     static_cast<size_t>(known() - prompt_length()));
  }

  RequestSampler sampler_;
  std::vector<int32_t> stop_tokens_;
  int64_t min_tokens_;
  RepetitionDetector repetition_;
  std::optional<grammar::Matcher> form_;  // of the answer, when the request has a grammar
  std::shared_ptr<TokenStream> stream_;
  bool route_trace_;
  int64_t timeout_ms_;
  double deadline_ = 0;       // seconds of the steady clock; 0: none
  int64_t draft_length_ = 0;  // 0: as many as are allowed
  int32_t num_prompt_logprobs_;
  std::vector<std::vector<TokenLogprob>> prompt_logprobs_;
};

}  // namespace erne
