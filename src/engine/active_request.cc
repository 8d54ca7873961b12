#include "engine/active_request.h"

#include <algorithm>
#include <utility>

namespace erne {

ActiveRequest::ActiveRequest(GenerationRequest request, std::shared_ptr<TokenStream> to,
                             int64_t vocab_size, double now)
    : sampler_(std::move(request.sampling), vocab_size, request.prompt),
      stop_tokens_(std::move(request.stop_tokens)),
      min_tokens_(request.min_tokens),
      repetition_(request.repetition),
      stream_(std::move(to)),
      route_trace_(request.route_trace),
      timeout_ms_(request.timeout_ms),
      num_prompt_logprobs_(request.prompt_logprobs) {
  std::erase_if(stop_tokens_, [&](int32_t token) { return token < 0 || token >= vocab_size; });
  record.id = std::move(request.id);
  record.arrived = now;
  record.prompt_tokens = static_cast<int64_t>(request.prompt.size());
  record.max_tokens = request.max_tokens;
  if (timeout_ms_ > 0) deadline_ = now + static_cast<double>(timeout_ms_) / 1000;
  tokens = std::move(request.prompt);
  max_total = prompt_length() + request.max_tokens;
  if (request.grammar != nullptr) {
    form_.emplace(std::move(request.grammar), stop_tokens_, request.max_tokens);
  }
  priority = request.priority;
  if (num_prompt_logprobs_ >= 0) {
    prompt_logits = true;
    prompt_logprobs_.reserve(tokens.size());
  }
}

void ActiveRequest::ReserveAnswer(int64_t max_drafts) {
  tokens.reserve(static_cast<size_t>(max_total + max_drafts));
  sampler_.Reserve(record.max_tokens);
}

void ActiveRequest::Guess(const PromptLookupRule& rule, int64_t max_drafts) {
  // The last token of all is sampled, never guessed.
  int64_t count = std::min(max_drafts, max_total - known() - 1);
  if (draft_length_ > 0) count = std::min(count, draft_length_);
  const std::span<const int32_t> next = LookUpNext(tokens, rule, count);
  // By index: the guesses are tokens of the vector that they are appended to (which has the room).
  const int64_t begin = next.data() - tokens.data();
  for (size_t i = 0; i < next.size(); ++i) {
    tokens.push_back(tokens[static_cast<size_t>(begin) + i]);
  }
  drafts = static_cast<int64_t>(next.size());
}

void ActiveRequest::TakeGuesses(std::vector<int32_t>& guesses) {
  guesses.assign(tokens.end() - drafts, tokens.end());
  tokens.resize(static_cast<size_t>(known()));
  drafts = 0;
}

void ActiveRequest::JudgeGuesses(int64_t drafted, int64_t accepted) {
  draft_length_ = accepted == drafted ? 2 * drafted : accepted + 1;
}

TokenChoice ActiveRequest::Choice() const {
  SamplePoint point{.position = static_cast<uint64_t>(known()), .output = output()};
  if (form_) point.bans.allowed = form_->mask();
  if (known() - prompt_length() < min_tokens_) point.bans.banned = stop_tokens_;
  return {.sampler = &sampler_, .point = point};
}

Result<SampledToken> ActiveRequest::Sample(std::span<const float> logits,
                                           SamplerScratch& scratch) const {
  return sampler_.Sample(logits, Choice().point, scratch);
}

std::optional<FinishReason> ActiveRequest::Accept(int32_t token) {
  tokens.push_back(token);
  sampler_.Accept(token);
  ++record.generated_tokens;
  const bool repeats = repetition_.Add(output());
  if (std::find(stop_tokens_.begin(), stop_tokens_.end(), token) != stop_tokens_.end()) {
    return FinishReason::kStop;
  }
  const bool ends_circle = repeats && record.generated_tokens >= min_tokens_;
  if (form_) {
    form_->Accept(token, max_total - known());
    if (ends_circle) form_->BeginEnd();
    if (form_->complete()) return FinishReason::kComplete;
  } else if (ends_circle) {
    return FinishReason::kRepetition;
  }
  if (known() == max_total) return FinishReason::kLength;
  return std::nullopt;
}

Status ActiveRequest::CollectPromptLogprobs(int64_t position, std::span<const float> logits,
                                            SamplerScratch& scratch) {
  const int64_t next = position + 1;
  if (next >= prompt_length() || next != static_cast<int64_t>(prompt_logprobs_.size()) + 1) {
    return {};
  }
  ERNE_ASSIGN_OR_RETURN(
      std::vector<TokenLogprob> logprobs,
      TokenLogprobs(logits, tokens[static_cast<size_t>(next)], num_prompt_logprobs_, scratch));
  prompt_logprobs_.push_back(std::move(logprobs));
  return {};
}

}  // namespace erne
