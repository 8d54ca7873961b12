#include "chat/answer_parser.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/json.h"
#include "base/strings.h"

namespace erne {
namespace {

constexpr std::string_view kSpace = " \t\r\n";
constexpr std::string_view kThink = "<think>";
constexpr std::string_view kEndThink = "</think>";
constexpr std::string_view kResponse = "<response>";
constexpr std::string_view kEndResponse = "</response>";
constexpr std::string_view kHermesCall = "<tool_call>";
constexpr std::string_view kEndHermesCall = "</tool_call>";
constexpr std::string_view kLlamaCall = "<|python_tag|>";
constexpr std::string_view kMistralCall = "[TOOL_CALLS]";
constexpr std::string_view kMistralArguments = "[ARGS]";
constexpr std::string_view kMistralId = "[CALL_ID]";

// A name and its marks in front of Mistral's arguments are shorter.
constexpr size_t kMostNameBytes = 256;

// How much of `text`'s end may be the beginning of `marker`, and not the whole of it.
size_t OpenTail(std::string_view text, std::string_view marker) {
  for (size_t size = std::min(text.size(), marker.size() - 1); size > 0; --size) {
    if (text.ends_with(marker.substr(0, size))) return size;
  }
  return 0;
}

std::string_view CallMarker(ToolCallForm form) {
  switch (form) {
    case ToolCallForm::kHermes:
      return kHermesCall;
    case ToolCallForm::kLlama:
      return kLlamaCall;
    case ToolCallForm::kMistral:
      return kMistralCall;
    case ToolCallForm::kNone:
    case ToolCallForm::kJson:
      return "";
  }
  return "";
}

bool IsBare(ToolCallForm form) {
  return form == ToolCallForm::kLlama || form == ToolCallForm::kJson;
}

// The arguments of a call as the text of a JSON object; "" when they are none. Some models write
// that text as a JSON string.
std::string ArgumentsText(const Json& arguments) {
  if (arguments.is_object()) return arguments.Dump();
  if (!arguments.is_string()) return "";
  const Result<Json> inner = Json::Parse(arguments.AsString());
  return inner.ok() && inner->is_object() ? arguments.AsString() : "";
}

// {"name":..., "arguments":...} or with "parameters". Without `marked`, both must be there.
bool ReadCall(const Json& json, bool marked, ParsedCall& call) {
  const Json* name = json.Find("name");
  if (name == nullptr || !name->is_string() || name->AsString().empty()) return false;
  const Json* arguments = json.Find("arguments");
  if (arguments == nullptr) arguments = json.Find("parameters");
  if (arguments == nullptr && !marked) return false;
  call.name = name->AsString();
  call.arguments = arguments == nullptr || arguments->is_null() ? "{}" : ArgumentsText(*arguments);
  return !call.arguments.empty();
}

// The name in front of Mistral's arguments: `name[CALL_ID]id[ARGS]`, the marks if they are there.
std::string MistralName(std::string_view text) {
  text = Strip(text);
  if (text.ends_with(kMistralArguments)) text.remove_suffix(kMistralArguments.size());
  text = text.substr(0, text.find(kMistralId));
  const bool is_name = std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-' || c == '.';
  });
  return is_name ? std::string(text) : "";
}

}  // namespace

AnswerParser::AnswerParser(AnswerParserOptions options)
    : options_(std::move(options)), state_(State::kContentStart) {
  const std::string_view call = CallMarker(options_.markup.tool_calls);
  if (!call.empty()) content_markers_.push_back(call);
  if (options_.markup.response_tags) content_markers_.push_back(kEndResponse);
  if (!options_.markup.reasoning) return;
  state_ = options_.in_reasoning ? State::kReasoning : State::kStart;
  trim_ = options_.in_reasoning;
}

ParsedPiece AnswerParser::Add(std::string_view text) {
  pending_ += text;
  while (Step()) {
  }
  return std::exchange(out_, {});
}

ParsedPiece AnswerParser::Finish() {
  finishing_ = true;
  while (Step()) {
  }
  // White space behind content is part of it; behind a marker, and in reasoning, it is not.
  if (state_ != State::kReasoning) out_.content += space_;
  space_.clear();
  return std::exchange(out_, {});
}

bool AnswerParser::Step() {
  switch (state_) {
    case State::kStart:
      return StepStart();
    case State::kReasoning:
      return StepReasoning();
    case State::kContentStart:
      return StepContentStart();
    case State::kContent:
      return StepContent();
    case State::kCallStart:
      return StepCallStart();
    case State::kCall:
      return StepCall();
    case State::kAfterCall:
      return StepAfterCall();
  }
  return false;
}

std::string AnswerParser::Take(size_t size) {
  std::string taken = pending_.substr(0, size);
  pending_.erase(0, size);
  return taken;
}

void AnswerParser::Emit(std::string& to, std::string_view text) {
  if (trim_) {
    text.remove_prefix(std::min(text.find_first_not_of(kSpace), text.size()));
    if (text.empty()) return;
    trim_ = false;
  }
  const size_t last = text.find_last_not_of(kSpace);
  const size_t body = last == text.npos ? 0 : last + 1;
  if (body > 0) {
    to += space_;
    to += text.substr(0, body);
    space_.clear();
  }
  space_ += text.substr(body);
}

void AnswerParser::DropSpace() {
  space_.clear();
  trim_ = true;
}

bool AnswerParser::TakeMarker(std::string_view marker) {
  if (!pending_.starts_with(marker)) return false;
  pending_.erase(0, marker.size());
  return true;
}

bool AnswerParser::MayBecome(std::string_view marker) const {
  return !finishing_ && pending_.size() < marker.size() && marker.starts_with(pending_);
}

bool AnswerParser::StepStart() {
  Emit(out_.content, Take(std::min(pending_.find_first_not_of(kSpace), pending_.size())));
  if (TakeMarker(kThink)) {
    state_ = State::kReasoning;
    DropSpace();
    return true;
  }
  if (MayBecome(kThink)) return false;
  state_ = State::kContentStart;
  return true;
}

bool AnswerParser::StepReasoning() {
  const size_t end = pending_.find(kEndThink);
  if (end != pending_.npos) {
    Emit(out_.reasoning, Take(end));
    TakeMarker(kEndThink);
    DropSpace();
    state_ = State::kContentStart;
    return true;
  }
  const size_t held = finishing_ ? 0 : OpenTail(pending_, kEndThink);
  Emit(out_.reasoning, Take(pending_.size() - held));
  return false;
}

bool AnswerParser::StepContentStart() {
  Emit(out_.content, Take(std::min(pending_.find_first_not_of(kSpace), pending_.size())));
  if (pending_.empty()) return false;
  if (options_.markup.response_tags) {
    if (TakeMarker(kResponse)) {
      in_response_ = true;
      DropSpace();
      state_ = State::kContent;
      return true;
    }
    if (MayBecome(kResponse)) return false;
  }
  const bool is_json = pending_.front() == '{' || pending_.front() == '[';
  state_ = State::kContent;
  if (is_json && IsBare(options_.markup.tool_calls)) BeginCall("");
  return true;
}

bool AnswerParser::StepContent() {
  size_t first = pending_.npos;
  std::string_view found;
  size_t held = 0;
  for (const std::string_view marker : content_markers_) {
    const size_t at = pending_.find(marker);
    if (at < first) {
      first = at;
      found = marker;
    }
    if (!finishing_) held = std::max(held, OpenTail(pending_, marker));
  }
  if (found.empty()) {
    Emit(out_.content, Take(pending_.size() - held));
    return false;
  }
  Emit(out_.content, Take(first));
  TakeMarker(found);
  if (found != kEndResponse) {
    BeginCall(found);
  } else if (in_response_) {
    in_response_ = false;
    DropSpace();
  } else {
    Emit(out_.content, found);
  }
  return true;
}

void AnswerParser::BeginCall(std::string_view marker) {
  opened_ = marker;
  call_name_.clear();
  scanned_ = 0;
  depth_ = 0;
  in_string_ = false;
  escaped_ = false;
  state_ = State::kCallStart;
}

bool AnswerParser::StepCallStart() {
  opened_ += Take(std::min(pending_.find_first_not_of(kSpace), pending_.size()));
  if (pending_.empty()) {
    if (finishing_) RejectCall(0);
    return finishing_;
  }
  if (pending_.front() == '{' || pending_.front() == '[') {
    state_ = State::kCall;
    return true;
  }
  if (options_.markup.tool_calls == ToolCallForm::kMistral) return StepNamedCall();
  RejectCall(0);
  return true;
}

bool AnswerParser::StepNamedCall() {
  const size_t brace = pending_.find('{');
  if (brace > kMostNameBytes) {
    if (brace == pending_.npos && pending_.size() <= kMostNameBytes && !finishing_) return false;
    RejectCall(0);
    return true;
  }
  call_name_ = MistralName(std::string_view(pending_).substr(0, brace));
  if (call_name_.empty()) {
    RejectCall(0);
    return true;
  }
  opened_ += Take(brace);
  state_ = State::kCall;
  return true;
}

bool AnswerParser::StepCall() {
  while (scanned_ < pending_.size()) {
    const char c = pending_[scanned_++];
    if (in_string_) {
      // No string of JSON holds a line break: the quote that opened it was none.
      if (c == '\n') {
        RejectCall(scanned_);
        return true;
      }
      in_string_ = escaped_ || c != '"';
      escaped_ = !escaped_ && c == '\\';
    } else if (c == '"') {
      in_string_ = true;
    } else if (c == '{' || c == '[') {
      ++depth_;
    } else if ((c == '}' || c == ']') && --depth_ == 0) {
      EndCall(scanned_);
      return true;
    }
  }
  if (finishing_) RejectCall(pending_.size());
  return finishing_;
}

bool AnswerParser::ReadCalls(std::string_view text, std::vector<ParsedCall>& calls) const {
  const Result<Json> json = Json::Parse(text);
  if (!json.ok()) return false;
  if (!call_name_.empty()) {
    if (!json->is_object()) return false;
    calls.push_back({call_name_, std::string(text)});
    return true;
  }
  const bool marked = !opened_.empty();
  const Json::Array one = {*json};
  for (const Json& described : json->is_array() ? json->AsArray() : one) {
    ParsedCall call;
    if (!ReadCall(described, marked, call)) return false;
    const bool known =
        std::find(options_.tools.begin(), options_.tools.end(), call.name) != options_.tools.end();
    if (!marked && !known) return false;
    calls.push_back(std::move(call));
  }
  return !calls.empty();
}

void AnswerParser::EndCall(size_t size) {
  std::vector<ParsedCall> calls;
  if (!ReadCalls(std::string_view(pending_).substr(0, size), calls)) return RejectCall(size);
  pending_.erase(0, size);
  std::move(calls.begin(), calls.end(), std::back_inserter(out_.calls));
  DropSpace();
  state_ = State::kAfterCall;
}

void AnswerParser::RejectCall(size_t size) {
  Emit(out_.content, opened_);
  Emit(out_.content, Take(size));
  state_ = State::kContent;
}

bool AnswerParser::StepAfterCall() {
  Take(std::min(pending_.find_first_not_of(kSpace), pending_.size()));
  if (pending_.empty()) return false;
  if (options_.markup.tool_calls == ToolCallForm::kHermes) {
    if (MayBecome(kEndHermesCall)) return false;
    TakeMarker(kEndHermesCall);
  } else if (IsBare(options_.markup.tool_calls) && pending_.front() == ';') {
    const size_t next = pending_.find_first_not_of(kSpace, 1);
    if (next == pending_.npos && !finishing_) return false;
    if (next != pending_.npos && pending_[next] == '{') {
      BeginCall(Take(next));
      return true;
    }
  }
  state_ = State::kContentStart;
  return true;
}

}  // namespace erne
