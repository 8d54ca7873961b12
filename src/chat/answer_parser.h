// Reads reasoning and tool calls out of an answer while it comes.
//
// A pure state machine over text: however the text is cut into pieces, what it gives adds up to the
// same. Nothing of it is lost: what begins as a call and is none comes back as content, markers and
// all. White space beside markers is dropped.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "chat/answer_markup.h"

namespace erne {

struct ParsedCall {
  std::string name;
  std::string arguments;  // a JSON object

  bool operator==(const ParsedCall& other) const = default;
};

struct ParsedPiece {
  std::string reasoning = {};
  std::string content = {};
  std::vector<ParsedCall> calls = {};

  bool operator==(const ParsedPiece& other) const = default;
};

struct AnswerParserOptions {
  AnswerMarkup markup = {};
  bool in_reasoning = false;  // the prompt has opened <think>
  // Names of the tools. JSON without a marker is a call only when it names one of them.
  std::vector<std::string> tools = {};
};

// One per answer; not thread-safe.
class AnswerParser {
 public:
  explicit AnswerParser(AnswerParserOptions options);

  // What is known of the answer with `text` behind what came before. What may be part of a marker
  // or of a call waits until that is known; a call comes when it is whole.
  ParsedPiece Add(std::string_view text);

  // At the end of the answer: what waits.
  ParsedPiece Finish();

  bool in_reasoning() const { return state_ == State::kReasoning; }

 private:
  enum class State {
    kStart,         // <think> may come
    kReasoning,     // until </think>
    kContentStart,  // <response>, or a call without a marker, may come
    kContent,
    kCallStart,  // behind a marker
    kCall,       // in the JSON of a call
    kAfterCall,  // a closing marker, or another call, may come
  };

  // One step of the machine over pending_; false: more text is needed.
  bool Step();
  bool StepStart();
  bool StepReasoning();
  bool StepContentStart();
  bool StepContent();
  bool StepCallStart();
  bool StepNamedCall();
  bool StepCall();
  bool StepAfterCall();

  void BeginCall(std::string_view marker);
  // The first `size` bytes of pending_ are a call's JSON: takes it, or gives it back as content.
  void EndCall(size_t size);
  // What began as a call is none: its marker and `size` bytes of pending_ are content.
  void RejectCall(size_t size);
  bool ReadCalls(std::string_view text, std::vector<ParsedCall>& calls) const;

  std::string Take(size_t size);  // off the front of pending_
  void Emit(std::string& to, std::string_view text);
  void DropSpace();  // beside a marker
  // Whether `marker` is in front of pending_ (then it is taken).
  bool TakeMarker(std::string_view marker);
  // Whether more text may make the front of pending_ a marker.
  bool MayBecome(std::string_view marker) const;

  const AnswerParserOptions options_;
  std::vector<std::string_view> content_markers_;  // that end a run of content
  State state_;
  std::string pending_;     // not understood yet
  std::string space_;       // white space that waits for what follows it
  bool trim_ = false;       // white space that follows is dropped
  bool finishing_ = false;  // no more text will come
  bool in_response_ = false;
  ParsedPiece out_;
  // Of the call that is being read.
  std::string opened_;     // what came before its JSON: a marker and a name
  std::string call_name_;  // "": it is in the JSON
  size_t scanned_ = 0;     // bytes of pending_
  int depth_ = 0;
  bool in_string_ = false;
  bool escaped_ = false;
};

}  // namespace erne
