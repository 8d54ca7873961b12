#include "api/answer_session.h"

#include <algorithm>
#include <iterator>
#include <new>
#include <utility>

#include "api/errors.h"
#include "base/utf8.h"

namespace erne {
namespace {

// `entry` (SampledToken::logprobs) with no more than `most` of the most probable tokens.
std::vector<TokenLogprob> Shortened(std::vector<TokenLogprob> entry, int32_t most) {
  entry.resize(std::min(entry.size(), static_cast<size_t>(most) + 1));
  return entry;
}

AnswerDelta EchoDelta(const Echo& echo, const PromptScores& scores, int32_t most) {
  AnswerDelta delta{.text = echo.text, .tokens = {}};
  for (size_t i = 0; i < echo.tokens.size(); ++i) {
    ScoredToken token{.logprobs = {{echo.tokens[i].id}},
                      .scored = i > 0 && i <= scores.size() && !scores[i - 1].empty(),
                      .text_offset = echo.tokens[i].text_offset};
    if (token.scored) token.logprobs = Shortened(scores[i - 1], most);
    delta.tokens.push_back(std::move(token));
  }
  return delta;
}

}  // namespace

AnswerSession::AnswerSession(std::shared_ptr<ResponseWriter> writer,
                             std::unique_ptr<const AnswerFormat> format,
                             std::shared_ptr<const void> keep_alive,
                             const AnswerSessionOptions& options)
    : writer_(std::move(writer)),
      format_(std::move(format)),
      keep_alive_(std::move(keep_alive)),
      options_(options),
      running_(options.choices.size()) {}

std::shared_ptr<AnswerSession> AnswerSession::Create(std::shared_ptr<ResponseWriter> writer,
                                                     std::unique_ptr<const AnswerFormat> format,
                                                     const Tokenizer& tokenizer,
                                                     std::shared_ptr<const void> keep_alive,
                                                     const AnswerSessionOptions& options) {
  std::shared_ptr<AnswerSession> session(
      new AnswerSession(std::move(writer), std::move(format), std::move(keep_alive), options));
  const auto wake = [weak = std::weak_ptr<AnswerSession>(session)] {
    if (const auto self = weak.lock()) self->Wake();
  };
  const AnswerTextOptions text = {.stop = options.stop,
                                  .min_tokens = options.min_tokens,
                                  .include_stop = options.include_stop,
                                  .primary_end_token = options.primary_end_token,
                                  .skip_special_tokens = options.skip_special_tokens};
  for (const ChoicePlan& plan : options.choices) {
    const size_t characters = plan.echo == nullptr ? 0 : CountUtf8(plan.echo->text);
    session->choices_.push_back(
        {.tokens = std::make_shared<TokenStream>(wake),
         .text = AnswerText(tokenizer, text, static_cast<int64_t>(characters))});
  }
  return session;
}

AnswerSession::~AnswerSession() { Cancel(); }

void AnswerSession::Start(HttpResponse head) {
  // Each callback holds a reference of its own while it runs: completing the answer drops the
  // callbacks.
  writer_->OnDisconnect([self = shared_from_this()] {
    const auto keep = self;
    keep->done_ = true;
    keep->Cancel();
  });
  writer_->OnDrained([self = shared_from_this()] {
    const auto keep = self;
    keep->Pump();
  });
  head_ = std::move(head);
  if (options_.stream) writer_->BeginStream(head_);
}

void AnswerSession::Cancel() {
  for (const Choice& choice : choices_) {
    if (!choice.text.ended()) choice.tokens->Cancel();
  }
}

void AnswerSession::Wake() {
  // One posted pump at a time takes all that has arrived until it runs.
  if (wake_posted_.exchange(true)) return;
  try {
    PostPump();
  } catch (const std::bad_alloc&) {
    wake_posted_ = false;  // the next event tries again; the engine's thread must not end for it
  }
}

void AnswerSession::PostPump() {
  writer_->Post([weak = weak_from_this()] {
    const auto self = weak.lock();
    if (self == nullptr) return;
    self->wake_posted_ = false;  // before the events are taken: a later one posts anew
    self->Pump();
  });
}

// An exception (there is no memory) may have lost events that were taken: better an answer that
// ends with an error than one with a hole.
void AnswerSession::Pump() try { TakeEvents(); } catch (const std::bad_alloc&) {
  if (!done_) Fail(ResourceExhausted("the server has no memory left for this answer"), "");
}

void AnswerSession::TakeEvents() {
  if (done_ || writer_->pending_bytes() > kMaxPendingBytes) return;
  std::string out;
  for (size_t i = 0; i < choices_.size(); ++i) {
    events_.clear();
    if (choices_[i].text.ended() || !choices_[i].tokens->Take(events_)) continue;
    for (TokenEvent& event : events_) {
      if (!event.error.ok()) return Fail(event.error, std::move(out));
      Consume(i, event, out);
      if (choices_[i].text.ended()) break;
    }
  }
  if (running_ == 0) return Complete(std::move(out));
  if (!out.empty()) writer_->Write(std::move(out));
}

// With the first token and not before, so that whoever times the first chunk times the model.
void AnswerSession::Begin(std::string& out) {
  begun_ = true;
  if (!options_.stream) return;
  for (size_t i = 0; i < choices_.size(); ++i) {
    out += format_->BeginFrame(static_cast<int64_t>(i), ChunkUsage(i));
  }
}

// With its first event come the echo and what is told of the prompt.
void AnswerSession::BeginChoice(size_t index, TokenEvent& event, std::string& out) {
  Choice& choice = choices_[index];
  choice.begun = true;
  choice.cached_tokens = event.cached_tokens;
  if (const auto& echo = options_.choices[index].echo) {
    Emit(index, EchoDelta(*echo, event.prompt_logprobs, options_.logprobs), out);
  }
  if (options_.prompt_logprobs < 0) return;
  choice.prompt_scores = std::move(event.prompt_logprobs);
  for (std::vector<TokenLogprob>& entry : *choice.prompt_scores) {
    entry = Shortened(std::move(entry), options_.prompt_logprobs);
  }
}

void AnswerSession::Consume(size_t index, TokenEvent& event, std::string& out) {
  if (!begun_) Begin(out);
  Choice& choice = choices_[index];
  if (!choice.begun) BeginChoice(index, event, out);
  if (options_.prompt_only) {
    choice.text.EndEmpty(FinishReason::kLength);
    if (!event.finish) choice.tokens->Cancel(FinishReason::kLength);
    return EndChoice(index, out);
  }
  AnswerText::Step step = choice.text.Add(event);
  AnswerDelta delta{.text = std::move(step.text), .tokens = {}};
  if (!event.logprobs.empty()) {
    delta.tokens.push_back({.logprobs = std::move(event.logprobs),
                            .shown = step.shown,
                            .text_offset = step.text_offset});
  }
  Emit(index, std::move(delta), out);
  if (!choice.text.ended()) return;
  if (!event.finish) choice.tokens->Cancel(FinishReason::kStop);
  EndChoice(index, out);
}

void AnswerSession::Emit(size_t index, AnswerDelta delta, std::string& out) {
  if (delta.empty()) return;
  if (options_.stream) {
    out += format_->DeltaFrame(static_cast<int64_t>(index), delta, ChunkUsage(index));
    return;
  }
  AnswerDelta& answer = choices_[index].answer;
  answer.text += delta.text;
  std::move(delta.tokens.begin(), delta.tokens.end(), std::back_inserter(answer.tokens));
}

void AnswerSession::EndChoice(size_t index, std::string& out) {
  --running_;
  if (options_.stream) {
    out += format_->FinishFrame(static_cast<int64_t>(index), choices_[index].text.end(),
                                ChunkUsage(index));
  }
}

void AnswerSession::Complete(std::string out) {
  done_ = true;
  Usage usage{.prompt_tokens = options_.prompt_tokens, .cached_tokens = 0};
  for (size_t i = 0; i < choices_.size(); ++i) {
    usage.completion_tokens += choices_[i].text.tokens();
    if (options_.choices[i].counts_prompt) *usage.cached_tokens += choices_[i].cached_tokens;
  }
  if (options_.stream) {
    if (options_.include_usage) out += format_->UsageFrame(usage);
    out += AnswerFormat::DoneFrame();
    writer_->Write(std::move(out));
    writer_->EndStream();
    return;
  }
  std::vector<WholeChoice> whole;
  whole.reserve(choices_.size());
  for (Choice& choice : choices_) {
    whole.push_back({std::move(choice.answer), choice.text.end(), std::move(choice.prompt_scores)});
  }
  head_.body = format_->Whole(whole, usage);
  writer_->Send(std::move(head_));
}

void AnswerSession::Fail(const Status& error, std::string out) {
  done_ = true;
  Cancel();
  if (options_.stream) {
    writer_->Write(out + AnswerFormat::ErrorFrame(error) + AnswerFormat::DoneFrame());
    writer_->EndStream();
    return;
  }
  HttpResponse response = ErrorResponse(error);
  response.headers.insert(response.headers.end(), head_.headers.begin(), head_.headers.end());
  writer_->Send(std::move(response));
}

std::optional<Usage> AnswerSession::ChunkUsage(size_t index) const {
  if (!options_.continuous_usage) return std::nullopt;
  return Usage{.prompt_tokens = options_.choices[index].prompt_tokens,
               .completion_tokens = choices_[index].text.tokens()};
}

}  // namespace erne
