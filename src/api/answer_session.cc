#include "api/answer_session.h"

#include <algorithm>
#include <iterator>
#include <new>
#include <numeric>
#include <utility>

#include "api/errors.h"
#include "api/request_id.h"
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
      running_(options.choices.size()) {
  if (options.traced != nullptr) trace_.emplace(*options.traced);
}

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
                                  .skip_special_tokens = options.skip_special_tokens,
                                  .markers = options.markers};
  for (const ChoicePlan& plan : options.choices) {
    const size_t characters = plan.echo == nullptr ? 0 : CountUtf8(plan.echo->text);
    session->choices_.push_back(
        {.tokens = std::make_shared<TokenStream>(wake),
         .text = AnswerText(tokenizer, text, static_cast<int64_t>(characters))});
    if (options.parser) session->choices_.back().parser.emplace(*options.parser);
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
    out +=
        format_->BeginFrame(static_cast<int64_t>(i), options_.choices[i].told.get(), ChunkUsage(i));
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
  AnswerDelta delta{.text = std::move(step.text)};
  if (options_.token_ids && event.token >= 0) delta.token_ids.push_back(event.token);
  if (trace_ && event.token >= 0) trace_->Add(event.experts);
  if (!event.logprobs.empty()) choice.logprob_sum += event.logprobs.front().logprob;
  if (!event.logprobs.empty() && options_.logprobs >= 0) {
    delta.tokens.push_back({.logprobs = std::move(event.logprobs),
                            .shown = step.shown,
                            .text_offset = step.text_offset});
  }
  if (choice.parser) Parse(choice, delta);
  Emit(index, std::move(delta), out);
  if (!choice.text.ended()) return;
  if (!event.finish) choice.tokens->Cancel(FinishReason::kStop);
  EndChoice(index, out);
}

// Splits the text of `delta`, which came with one token.
void AnswerSession::Parse(Choice& choice, AnswerDelta& delta) const {
  if (choice.parser->in_reasoning()) ++choice.reasoning_tokens;
  ParsedPiece piece = choice.parser->Add(delta.text);
  if (choice.text.ended()) {
    ParsedPiece rest = choice.parser->Finish();
    piece.reasoning += rest.reasoning;
    piece.content += rest.content;
    std::move(rest.calls.begin(), rest.calls.end(), std::back_inserter(piece.calls));
  }
  delta.text = std::move(piece.content);
  if (!options_.hides_reasoning) delta.reasoning = std::move(piece.reasoning);
  for (ParsedCall& call : piece.calls) {
    if (options_.one_call && choice.calls > 0) break;
    delta.calls.push_back({.index = choice.calls++,
                           .id = ToolCallId(),
                           .name = std::move(call.name),
                           .arguments = std::move(call.arguments)});
  }
}

void AnswerSession::Emit(size_t index, AnswerDelta delta, std::string& out) {
  Choice& choice = choices_[index];
  choice.answer.Append(std::move(delta));
  if (options_.stream && choice.text.tokens() >= choice.next_chunk) SendChunk(index, out);
}

void AnswerSession::SendChunk(size_t index, std::string& out) {
  Choice& choice = choices_[index];
  if (choice.answer.empty()) return;
  out += format_->DeltaFrame(static_cast<int64_t>(index), std::exchange(choice.answer, {}),
                             ChunkUsage(index));
  choice.next_chunk = choice.text.tokens() + options_.stream_interval;
}

void AnswerSession::EndChoice(size_t index, std::string& out) {
  --running_;
  if (options_.stream) {
    SendChunk(index, out);
    out +=
        format_->FinishFrame(static_cast<int64_t>(index), End(choices_[index]), ChunkUsage(index));
  }
}

ChoiceEnd AnswerSession::End(const Choice& choice) {
  ChoiceEnd end = choice.text.end();
  end.has_calls = choice.calls > 0;
  return end;
}

void AnswerSession::Complete(std::string out) {
  done_ = true;
  Usage usage{.prompt_tokens = options_.prompt_tokens, .cached_tokens = 0};
  for (size_t i = 0; i < choices_.size(); ++i) {
    usage.completion_tokens += choices_[i].text.tokens();
    if (choices_[i].parser && options_.parser->markup.reasoning) {
      usage.reasoning_tokens = usage.reasoning_tokens.value_or(0) + choices_[i].reasoning_tokens;
    }
    if (options_.choices[i].counts_prompt) *usage.cached_tokens += choices_[i].cached_tokens;
  }
  const std::optional<Json> trace = trace_ ? std::optional(trace_->ToJson()) : std::nullopt;
  if (options_.stream) {
    if (options_.include_usage || trace) {
      out +=
          format_->LastFrame(options_.include_usage ? std::optional(usage) : std::nullopt, trace);
    }
    out += AnswerFormat::DoneFrame();
    writer_->Write(std::move(out));
    writer_->EndStream();
    return;
  }
  std::vector<WholeChoice> whole;
  for (const size_t index : BestChoices()) {
    Choice& choice = choices_[index];
    // The first choice of a prompt heard of it, and need not be among the best.
    const size_t first = index - index % static_cast<size_t>(options_.drawn);
    whole.push_back({std::move(choice.answer), End(choice), options_.choices[index].told,
                     choices_[first].prompt_scores});
  }
  head_.body = format_->Whole(whole, usage, trace);
  writer_->Send(std::move(head_));
}

// Indices of the choices that are the answer, in their order: of those that share a prompt the ones
// whose tokens are the most probable on average, the earlier ones where they are alike.
std::vector<size_t> AnswerSession::BestChoices() const {
  const auto mean = [this](size_t index) {
    return choices_[index].logprob_sum /
           static_cast<double>(std::max<int64_t>(1, choices_[index].text.tokens()));
  };
  const auto drawn = static_cast<size_t>(options_.drawn);
  std::vector<size_t> best;
  for (size_t first = 0; first < choices_.size(); first += drawn) {
    std::vector<size_t> group(drawn);
    std::iota(group.begin(), group.end(), first);
    if (options_.sent < options_.drawn) {
      std::stable_sort(group.begin(), group.end(),
                       [&](size_t a, size_t b) { return mean(a) > mean(b); });
      group.resize(static_cast<size_t>(options_.sent));
    }
    best.insert(best.end(), group.begin(), group.end());
  }
  return best;
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
