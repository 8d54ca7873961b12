// One request in flight: token ids of all its choices come in, text goes out.
//
//   TokenStream -> AnswerText -> AnswerFormat -> ResponseWriter
//
// The engine's loop thread only wakes the session; all work happens on the writer's strand: the
// connection's, or that of a stream which outlives it (resumable_stream.h). The session is kept
// alive by the writer's callbacks (so it goes when the answer is complete or the client is gone),
// and everything else holds it weakly.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "api/answer_format.h"
#include "api/answer_text.h"
#include "api/completion_prompt.h"
#include "api/expert_trace.h"
#include "api/http_types.h"
#include "base/status.h"
#include "chat/answer_parser.h"
#include "engine/request.h"
#include "text/tokenizer.h"

namespace erne {

struct ChoicePlan {
  int64_t prompt_tokens = 0;
  std::shared_ptr<const Echo> echo = nullptr;        // what the answer begins with; null: nothing
  std::shared_ptr<const ToldPrompt> told = nullptr;  // what is told of the prompt; null: nothing
  bool counts_prompt = true;  // false: another choice tells of the same prompt
};

struct AnswerSessionOptions {
  std::vector<ChoicePlan> choices = {};
  // Of so many choices in a row, which share a prompt, the `sent` with the most probable tokens are
  // the answer. Streams send all.
  int64_t drawn = 1;
  int64_t sent = 1;
  int64_t prompt_tokens = 0;  // of the request: choices may share a prompt
  std::vector<std::string> stop = {};
  int64_t min_tokens = 0;          // stop strings count behind so many tokens
  bool include_stop = false;       // what ended the answer is shown
  int32_t primary_end_token = -1;  // ends without a stop_reason
  bool skip_special_tokens = true;
  std::vector<int32_t> markers = {};  // control tokens that are shown to the parser all the same
  // Beside each token its log-probability, and in an echo those of so many most probable ones (the
  // engine's tokens bring theirs); -1: none are told.
  int32_t logprobs = -1;
  int32_t prompt_logprobs = -1;       // and beside each of the prompt's list; -1: no list
  bool token_ids = false;             // told beside the text
  const ModelSpec* traced = nullptr;  // of the model whose expert_trace is told; null: it is not
  bool prompt_only = false;           // the answer's first token is not wanted: it ends before it
  bool stream = false;
  bool include_usage = false;
  bool continuous_usage = false;
  int64_t stream_interval = 1;  // tokens in one chunk, but for the first
  // How reasoning and tool calls are read out of the answers; nullopt: all of them is content.
  std::optional<AnswerParserOptions> parser = {};
  bool hides_reasoning = false;
  bool one_call = false;  // of a choice's calls only the first is told
};

// Pumped on the strand of `writer`; made and started there too, or before anything runs on it.
class AnswerSession : public std::enable_shared_from_this<AnswerSession> {
 public:
  // Beyond this many bytes that the client has not taken, tokens are left in the TokenStream (where
  // max_tokens bounds them) until it has.
  static constexpr size_t kMaxPendingBytes = 1024 * 1024;

  // `keep_alive` owns `tokenizer`.
  static std::shared_ptr<AnswerSession> Create(std::shared_ptr<ResponseWriter> writer,
                                               std::unique_ptr<const AnswerFormat> format,
                                               const Tokenizer& tokenizer,
                                               std::shared_ptr<const void> keep_alive,
                                               const AnswerSessionOptions& options);
  AnswerSession(const AnswerSession&) = delete;
  AnswerSession& operator=(const AnswerSession&) = delete;
  ~AnswerSession();  // cancels what still runs

  // Where the engine is to put the tokens of choice `index`.
  std::shared_ptr<TokenStream> stream(int64_t index) const { return choices_[index].tokens; }

  // Once the engine has accepted all choices: hooks the session to the writer and, when streaming,
  // sends `head`. The session then lives as long as the writer's callbacks.
  void Start(HttpResponse head);

  // Nobody waits for the answer: the engine drops the work with its next step.
  void Cancel();

 private:
  struct Choice {
    std::shared_ptr<TokenStream> tokens;
    AnswerText text;
    bool begun = false;  // its first event has come
    int64_t cached_tokens = 0;
    AnswerDelta answer = {};  // the answer so far; in a stream, what is not sent yet
    int64_t next_chunk = 0;   // in a stream: when so many tokens have come
    double logprob_sum = 0;   // of its tokens, when the best answers are wanted
    std::optional<PromptScores> prompt_scores = {};
    std::optional<AnswerParser> parser = {};
    int64_t calls = 0;  // that were told
    int64_t reasoning_tokens = 0;
  };

  AnswerSession(std::shared_ptr<ResponseWriter> writer, std::unique_ptr<const AnswerFormat> format,
                std::shared_ptr<const void> keep_alive, const AnswerSessionOptions& options);

  void Wake();  // any thread; does not throw
  void PostPump();
  void Pump();
  void TakeEvents();
  void Begin(std::string& out);
  void BeginChoice(size_t index, TokenEvent& event, std::string& out);
  void Consume(size_t index, TokenEvent& event, std::string& out);
  void Parse(Choice& choice, AnswerDelta& delta) const;
  void Emit(size_t index, AnswerDelta delta, std::string& out);
  void SendChunk(size_t index, std::string& out);
  std::vector<size_t> BestChoices() const;
  void EndChoice(size_t index, std::string& out);
  static ChoiceEnd End(const Choice& choice);
  void Complete(std::string out);
  void Fail(const Status& error, std::string out);
  std::optional<Usage> ChunkUsage(size_t index) const;

  const std::shared_ptr<ResponseWriter> writer_;
  const std::unique_ptr<const AnswerFormat> format_;
  const std::shared_ptr<const void> keep_alive_;
  const AnswerSessionOptions options_;
  HttpResponse head_;
  std::vector<Choice> choices_;
  std::vector<TokenEvent> events_;  // scratch of Pump
  size_t running_;                  // choices that have not ended
  std::optional<ExpertTrace> trace_;
  bool begun_ = false;
  bool done_ = false;
  std::atomic<bool> wake_posted_{false};
};

}  // namespace erne
