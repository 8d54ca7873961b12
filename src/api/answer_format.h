// Answers as text: one JSON object, or server-sent events. Member order, names and the members of
// each kind of chunk are those of vLLM's server. What chat and completions do alike is here;
// chat_format.h and completion_format.h say how they differ.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/logprobs.h"
#include "base/json.h"
#include "base/status.h"
#include "engine/request.h"

namespace erne {

struct Usage {
  int64_t prompt_tokens = 0;
  int64_t completion_tokens = 0;
  // Of the prompt, found in the prefix cache; told in the whole answer's usage alone.
  std::optional<int64_t> cached_tokens = {};
  // Of the completion; told likewise, where the model's answers have reasoning.
  std::optional<int64_t> reasoning_tokens = {};

  Json ToJson() const;
};

// A call of a tool. In a stream it is told when it is whole, too.
struct ToolCall {
  int64_t index = 0;  // among the calls of its choice
  std::string id;
  std::string name;
  std::string arguments;  // a JSON object
};

// A piece of one choice: text, and the tokens that came with it when log-probabilities or ids are
// asked for. A token is told when it comes; its text may come later, when it is known to be shown.
struct AnswerDelta {
  std::string text;
  std::vector<ScoredToken> tokens = {};
  std::vector<int32_t> token_ids = {};
  // Of chats whose answers are parsed.
  std::string reasoning = {};
  std::vector<ToolCall> calls = {};

  bool empty() const {
    return text.empty() && tokens.empty() && token_ids.empty() && reasoning.empty() &&
           calls.empty();
  }
  void Append(AnswerDelta more);
};

// What an answer tells of its prompt.
struct ToldPrompt {
  std::optional<std::vector<int32_t>> token_ids = {};
  std::optional<std::string> text = {};
};

// How one choice ended.
struct ChoiceEnd {
  FinishReason reason = FinishReason::kStop;
  // The stop string, the stop token id, or "repetition"; null when an end token of the model or the
  // length ended it.
  Json stop_reason;
  bool has_calls = false;  // tools are to be called: then it is no "stop"
};

struct WholeChoice {
  AnswerDelta answer;
  ChoiceEnd end;
  std::shared_ptr<const ToldPrompt> prompt = nullptr;  // null: nothing is told of it
  std::optional<PromptScores> prompt_scores = {};      // when `prompt_logprobs` asks for them

  // nullptr: they are not asked for. `return_token_ids` asks for the prompt's and the answer's.
  const std::vector<int32_t>* TokenIds() const {
    return prompt != nullptr && prompt->token_ids ? &answer.token_ids : nullptr;
  }
};

// Writes the parts of one answer. Immutable; the frames of a stream each end with the blank line.
class AnswerFormat {
 public:
  virtual ~AnswerFormat() = default;
  AnswerFormat(const AnswerFormat&) = delete;
  AnswerFormat& operator=(const AnswerFormat&) = delete;

  // With `usage`, a frame carries it (stream_options.continuous_usage_stats).
  // Before the first delta of choice `index`; may be "". `prompt` may be null.
  virtual std::string BeginFrame(int64_t index, const ToldPrompt* prompt,
                                 const std::optional<Usage>& usage) const = 0;
  virtual std::string DeltaFrame(int64_t index, const AnswerDelta& delta,
                                 const std::optional<Usage>& usage) const = 0;
  virtual std::string FinishFrame(int64_t index, const ChoiceEnd& end,
                                  const std::optional<Usage>& usage) const = 0;
  // Behind all choices; either may be missing, not both.
  std::string LastFrame(const std::optional<Usage>& usage,
                        const std::optional<Json>& expert_trace) const;
  static std::string ErrorFrame(const Status& error);
  static std::string DoneFrame();

  // The answer as one object.
  std::string Whole(const std::vector<WholeChoice>& choices, const Usage& usage,
                    const std::optional<Json>& expert_trace) const;

 protected:
  // What an answer says of itself.
  struct Head {
    std::string id;
    std::string_view object;        // of a whole answer
    std::string_view chunk_object;  // of a frame
    int64_t created = 0;            // seconds since the epoch
    std::string model;
  };
  explicit AnswerFormat(Head head);

  // `choice`: a JSON object. `members` of the frame, behind the choices, each with a comma before
  // it.
  std::string Frame(std::string_view choice, const std::optional<Usage>& usage,
                    std::string_view members = "") const;
  // `"token_ids":[5,6]` or `"token_ids":null`.
  static void AppendIds(std::string_view name, const std::vector<int32_t>* ids, std::string& out);
  virtual void AppendChoice(int64_t index, const WholeChoice& choice, std::string& out) const = 0;
  // Members of a whole answer behind those that all have, with their commas.
  virtual void AppendLastMembers(const std::vector<WholeChoice>& choices,
                                 std::string& out) const = 0;

 private:
  std::string Opened(std::string_view object) const;

  const Head head_;
  const std::string
      frame_head_;  // `data: {"id":...,"object":...,"created":...,"model":...,"choices":[`
};

// "stop", "length" or "abort".
const char* FinishReasonName(FinishReason reason);

// `"stop","stop_reason":null`: the reason as JSON with the member that follows it.
std::string FinishMembers(const ChoiceEnd& end);

}  // namespace erne
