// Judges one answer of a server as it arrives: whether it is what was asked for, whole and well
// formed. A load test counts nothing that has not passed here.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/json.h"

namespace erne::load {

struct Expectation {
  bool stream = true;
  int64_t max_tokens = 0;    // asked for
  bool fixed_length = true;  // with ignore_eos: exactly max_tokens must come
  bool logprobs = false;     // asked for: entries are counted, and their bytes are the text
};

// One answer of /v1/chat/completions with one choice. The first fault is kept, and nothing is
// looked at after it.
class AnswerCheck {
 public:
  explicit AnswerCheck(const Expectation& expected) : expected_(expected) {}

  // The next bytes of a body with HTTP status 200. Returns how many pieces of text they brought (0
  // when the answer is not streamed).
  int64_t Add(std::string_view bytes);
  // The body has ended.
  void End();
  // Instead of the above: the whole body of another status. 429 and 503 say when to come back.
  void Refusal(int status, std::string_view body, bool has_retry_after);

  const std::string& fault() const { return fault_; }  // "": none
  int64_t pieces() const { return pieces_; }           // of text, in a stream
  int64_t prompt_tokens() const { return prompt_tokens_; }
  int64_t cached_tokens() const { return cached_tokens_; }
  int64_t completion_tokens() const { return completion_tokens_; }
  // U+FFFD in the text. The right answer of a model that wrote bytes that are no UTF-8 (`logprobs`
  // tells), and otherwise the mark of a server that cut characters.
  int64_t broken_characters() const { return broken_characters_; }

 private:
  void Fault(std::string what);
  void Line(std::string_view line);
  void Event(std::string_view data);
  void Chunk(const Json& chunk);
  void Delta(const Json& choice);
  void Whole();
  void Text(const Json* text);
  void Logprobs(const Json* logprobs);
  void Finish(const Json& reason);
  void Usage(const Json& usage);
  void Totals();

  const Expectation expected_;
  std::string fault_;
  std::string rest_;  // of the body: an unfinished line, or all of it when not streamed
  std::string data_;  // of the event that is being read
  std::string id_;
  bool begun_ = false;     // the role has come
  bool finished_ = false;  // a finish_reason has come
  bool has_usage_ = false;
  bool done_ = false;  // [DONE] has come
  int64_t pieces_ = 0;
  int64_t scored_ = 0;  // entries of logprobs
  std::string text_;    // kept with logprobs alone
  std::string scored_bytes_;
  int64_t prompt_tokens_ = 0;
  int64_t cached_tokens_ = 0;
  int64_t completion_tokens_ = 0;
  int64_t broken_characters_ = 0;
};

}  // namespace erne::load
