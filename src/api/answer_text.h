// From the tokens of one answer to its text and how it ended, the same for whoever shows it.
//
//   TokenEvent -> Detokenizer -> StopMatcher -> text
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "api/answer_format.h"
#include "engine/request.h"
#include "text/detokenizer.h"
#include "text/stop_matcher.h"
#include "text/tokenizer.h"

namespace erne {

struct AnswerTextOptions {
  std::vector<std::string> stop = {};
  int64_t min_tokens = 0;          // stop strings count behind so many tokens
  bool include_stop = false;       // what ended the answer is shown
  int32_t primary_end_token = -1;  // ends without a stop_reason
  bool skip_special_tokens = true;
  std::vector<int32_t> markers = {};  // control tokens that are not skipped
};

// One per choice; not thread-safe.
class AnswerText {
 public:
  // `tokenizer` must outlive this. `characters`: of text that is shown before the answer.
  AnswerText(const Tokenizer& tokenizer, const AnswerTextOptions& options, int64_t characters = 0);

  struct Step {
    std::string text;         // that may be shown now
    bool shown = false;       // whether the event's token is part of the text, now or later
    int64_t text_offset = 0;  // characters before that token
  };
  // The next event, which is not an error; none after the end.
  Step Add(const TokenEvent& event);

  // Ends it before its first token.
  void EndEmpty(FinishReason reason);

  // By the engine, or by a stop string, and then the engine need not go on.
  bool ended() const { return ended_; }
  const ChoiceEnd& end() const { return end_; }
  int64_t tokens() const { return tokens_; }  // that were generated

 private:
  bool IsSkipped(int32_t token) const;

  const Tokenizer& tokenizer_;
  const AnswerTextOptions options_;
  Detokenizer detokenizer_;
  StopMatcher matcher_;
  int64_t characters_;
  int64_t tokens_ = 0;
  bool ended_ = false;
  ChoiceEnd end_;
};

}  // namespace erne
