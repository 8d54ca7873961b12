#include "api/chat_session.h"

#include <utility>

#include "api/errors.h"

namespace erne {

ChatSession::ChatSession(std::shared_ptr<ResponseWriter> writer, ChatResponse response,
                         std::shared_ptr<const void> keep_alive, const ChatSessionOptions& options)
    : writer_(std::move(writer)),
      response_(std::move(response)),
      keep_alive_(std::move(keep_alive)),
      options_(options),
      running_(static_cast<size_t>(options.choices)) {}

std::shared_ptr<ChatSession> ChatSession::Create(std::shared_ptr<ResponseWriter> writer,
                                                 ChatResponse response, const Tokenizer& tokenizer,
                                                 std::shared_ptr<const void> keep_alive,
                                                 const ChatSessionOptions& options) {
  std::shared_ptr<ChatSession> session(
      new ChatSession(std::move(writer), std::move(response), std::move(keep_alive), options));
  const auto wake = [weak = std::weak_ptr<ChatSession>(session)] {
    if (const auto self = weak.lock()) self->Wake();
  };
  for (int64_t i = 0; i < options.choices; ++i) {
    session->choices_.push_back({.tokens = std::make_shared<TokenStream>(wake),
                                 .detokenizer = Detokenizer(tokenizer, options.skip_special_tokens),
                                 .matcher = StopMatcher(options.stop, options.include_stop)});
  }
  return session;
}

ChatSession::~ChatSession() { Cancel(); }

void ChatSession::Start(HttpResponse head) {
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

void ChatSession::Cancel() {
  for (const Choice& choice : choices_) {
    if (!choice.ended) choice.tokens->Cancel();
  }
}

void ChatSession::Wake() {
  // One posted pump at a time takes all that has arrived until it runs.
  if (wake_posted_.exchange(true)) return;
  writer_->Post([weak = weak_from_this()] {
    const auto self = weak.lock();
    if (self == nullptr) return;
    self->wake_posted_ = false;  // before the events are taken: a later one posts anew
    self->Pump();
  });
}

void ChatSession::Pump() {
  if (done_ || writer_->pending_bytes() > kMaxPendingBytes) return;
  std::string out;
  for (size_t i = 0; i < choices_.size(); ++i) {
    events_.clear();
    if (choices_[i].ended || !choices_[i].tokens->Take(events_)) continue;
    for (const TokenEvent& event : events_) {
      if (!event.error.ok()) return Fail(event.error, std::move(out));
      Consume(i, event, out);
      if (choices_[i].ended) break;
    }
  }
  if (running_ == 0) return Complete(std::move(out));
  if (!out.empty()) writer_->Write(std::move(out));
}

void ChatSession::Consume(size_t index, const TokenEvent& event, std::string& out) {
  Choice& choice = choices_[index];
  if (options_.stream && !role_sent_) {
    // With the first token and not before, so that whoever times the first chunk times the model.
    for (size_t i = 0; i < choices_.size(); ++i) {
      out += response_.RoleChunk(static_cast<int64_t>(i), ChunkUsage(i));
    }
    role_sent_ = true;
  }
  const bool stopped_by_token = event.finish == FinishReason::kStop && event.stop_token >= 0;
  const int32_t token = stopped_by_token ? event.stop_token : event.token;
  std::string text;
  if (token >= 0) {
    ++choice.completion_tokens;
    if (!stopped_by_token || options_.include_stop) text = choice.detokenizer.Add(token);
  }
  std::string released = choice.matcher.Add(text);
  if (event.finish) released += choice.matcher.Flush();
  Emit(index, std::move(released), out);
  if (event.finish || choice.matcher.matched()) EndChoice(index, event, out);
}

void ChatSession::Emit(size_t index, std::string text, std::string& out) {
  if (text.empty()) return;
  if (options_.stream) {
    out += response_.ContentChunk(static_cast<int64_t>(index), text, ChunkUsage(index));
  } else {
    choices_[index].text += text;
  }
}

void ChatSession::EndChoice(size_t index, const TokenEvent& event, std::string& out) {
  Choice& choice = choices_[index];
  if (choice.matcher.matched()) {
    if (!event.finish) choice.tokens->Cancel();
    choice.end = {FinishReason::kStop, *choice.matcher.matched()};
  } else {
    choice.end.reason = *event.finish;
    if (event.finish == FinishReason::kStop && event.stop_token >= 0 &&
        event.stop_token != options_.primary_end_token) {
      choice.end.stop_reason = static_cast<int64_t>(event.stop_token);
    }
    if (event.finish == FinishReason::kRepetition) choice.end.stop_reason = "repetition";
  }
  choice.ended = true;
  --running_;
  if (options_.stream) {
    out += response_.FinishChunk(static_cast<int64_t>(index), choice.end, ChunkUsage(index));
  }
}

void ChatSession::Complete(std::string out) {
  done_ = true;
  Usage usage{options_.prompt_tokens, 0};
  for (const Choice& choice : choices_) usage.completion_tokens += choice.completion_tokens;
  if (options_.stream) {
    if (options_.include_usage) out += response_.UsageChunk(usage);
    out += ChatResponse::DoneFrame();
    writer_->Write(std::move(out));
    writer_->EndStream();
    return;
  }
  std::vector<WholeChoice> whole;
  for (Choice& choice : choices_) whole.push_back({std::move(choice.text), choice.end});
  head_.body = response_.Whole(whole, usage);
  writer_->Send(std::move(head_));
}

void ChatSession::Fail(const Status& error, std::string out) {
  done_ = true;
  Cancel();
  if (options_.stream) {
    writer_->Write(out + ChatResponse::ErrorFrame(error) + ChatResponse::DoneFrame());
    writer_->EndStream();
    return;
  }
  HttpResponse response = ErrorResponse(error);
  response.headers.insert(response.headers.end(), head_.headers.begin(), head_.headers.end());
  writer_->Send(std::move(response));
}

std::optional<Usage> ChatSession::ChunkUsage(size_t index) const {
  if (!options_.continuous_usage) return std::nullopt;
  return Usage{options_.prompt_tokens, choices_[index].completion_tokens};
}

}  // namespace erne
