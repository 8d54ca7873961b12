// One chat request in flight: token ids come in, text goes out.
//
//   TokenStream -> Detokenizer -> StopMatcher -> ChatResponse -> ResponseWriter
//
// The engine's loop thread only wakes the session; all work happens on the connection's strand. The
// session is kept alive by the writer's callbacks (so it goes when the answer is complete or the
// client is gone), and everything else holds it weakly.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "api/chat_response.h"
#include "api/http_types.h"
#include "base/status.h"
#include "engine/request.h"
#include "text/detokenizer.h"
#include "text/stop_matcher.h"
#include "text/tokenizer.h"

namespace erne {

struct ChatSessionOptions {
  int64_t choices = 1;
  int64_t prompt_tokens = 0;
  std::vector<std::string> stop = {};
  bool include_stop = false;       // what ended the answer is shown
  int32_t primary_end_token = -1;  // ends without a stop_reason
  bool skip_special_tokens = true;
  bool stream = false;
  bool include_usage = false;
  bool continuous_usage = false;
};

// Made, started and pumped on the strand of `writer`.
class ChatSession : public std::enable_shared_from_this<ChatSession> {
 public:
  // Beyond this many bytes that the client has not taken, tokens are left in the TokenStream (where
  // max_tokens bounds them) until it has.
  static constexpr size_t kMaxPendingBytes = 1024 * 1024;

  // `keep_alive` owns `tokenizer`.
  static std::shared_ptr<ChatSession> Create(std::shared_ptr<ResponseWriter> writer,
                                             ChatResponse response, const Tokenizer& tokenizer,
                                             std::shared_ptr<const void> keep_alive,
                                             const ChatSessionOptions& options);
  ChatSession(const ChatSession&) = delete;
  ChatSession& operator=(const ChatSession&) = delete;
  ~ChatSession();  // cancels what still runs

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
    Detokenizer detokenizer;
    StopMatcher matcher;
    int64_t completion_tokens = 0;
    std::string text = {};  // not streaming: the answer so far
    ChoiceEnd end = {};
    bool ended = false;
  };

  ChatSession(std::shared_ptr<ResponseWriter> writer, ChatResponse response,
              std::shared_ptr<const void> keep_alive, const ChatSessionOptions& options);

  void Wake();  // any thread
  void Pump();
  void Consume(size_t index, const TokenEvent& event, std::string& out);
  void Emit(size_t index, std::string text, std::string& out);
  void EndChoice(size_t index, const TokenEvent& event, std::string& out);
  void Complete(std::string out);
  void Fail(const Status& error, std::string out);
  std::optional<Usage> ChunkUsage(size_t index) const;

  const std::shared_ptr<ResponseWriter> writer_;
  const ChatResponse response_;
  const std::shared_ptr<const void> keep_alive_;
  const ChatSessionOptions options_;
  HttpResponse head_;
  std::vector<Choice> choices_;
  std::vector<TokenEvent> events_;  // scratch of Pump
  size_t running_;                  // choices that have not ended
  bool role_sent_ = false;
  bool done_ = false;
  std::atomic<bool> wake_posted_{false};
};

}  // namespace erne
