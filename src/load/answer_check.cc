#include "load/answer_check.h"

#include <utility>

#include "base/strings.h"
#include "base/utf8.h"

namespace erne::load {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD

// For messages.
std::string Cut(std::string_view text) {
  constexpr size_t kMost = 160;
  return text.size() <= kMost ? std::string(text) : StrCat(text.substr(0, kMost), "...");
}

const Json* Member(const Json* object, std::string_view name) {
  const Json* value = object == nullptr ? nullptr : object->Find(name);
  return value == nullptr || value->is_null() ? nullptr : value;
}

bool IsText(const Json* value) { return value != nullptr && value->is_string(); }

// The only choice of an answer; nullptr when there is not exactly one.
const Json* OnlyChoice(const Json& answer) {
  const Json* choices = Member(&answer, "choices");
  if (choices == nullptr || !choices->is_array() || choices->AsArray().size() != 1) return nullptr;
  return &choices->AsArray()[0];
}

}  // namespace

void AnswerCheck::Fault(std::string what) {
  if (fault_.empty()) fault_ = std::move(what);
}

int64_t AnswerCheck::Add(std::string_view bytes) {
  rest_ += bytes;
  if (!expected_.stream) return 0;
  const int64_t before = pieces_;
  size_t at = 0;
  for (size_t end; fault_.empty() && (end = rest_.find('\n', at)) != std::string::npos;
       at = end + 1) {
    Line(std::string_view(rest_).substr(at, end - at));
  }
  rest_.erase(0, at);
  return pieces_ - before;
}

// WHATWG HTML, 9.2.6: fields, comments, and a blank line that ends the event.
void AnswerCheck::Line(std::string_view line) {
  constexpr std::string_view kData = "data: ";
  if (line.empty()) {
    const std::string data = std::exchange(data_, {});
    if (!data.empty()) Event(data);
  } else if (line.starts_with(kData)) {
    if (!data_.empty()) return Fault("an event with two lines of data");
    data_ = line.substr(kData.size());
    if (data_.empty()) Fault("an event without data");
  } else if (!line.starts_with(':') && !line.starts_with("id: ")) {
    Fault(StrCat("no line of server-sent events: ", Cut(line)));
  }
}

void AnswerCheck::Event(std::string_view data) {
  if (done_) return Fault("an event after [DONE]");
  if (data == "[DONE]") {
    done_ = true;
    return;
  }
  const Result<Json> chunk = Json::Parse(data);  // takes well-formed UTF-8 alone
  if (!chunk.ok()) return Fault(StrCat(chunk.status().message(), " in the event ", Cut(data)));
  Chunk(*chunk);
}

void AnswerCheck::Chunk(const Json& chunk) {
  if (const Json* error = Member(&chunk, "error")) {
    return Fault(StrCat("an error in the stream: ", Cut(error->Dump())));
  }
  const Json* id = Member(&chunk, "id");
  if (!IsText(id) || (!id_.empty() && id->AsString() != id_)) {
    return Fault(StrCat("a chunk with another id: ", Cut(chunk.Dump())));
  }
  id_ = id->AsString();
  const Json* object = Member(&chunk, "object");
  if (!IsText(object) || object->AsString() != "chat.completion.chunk") {
    return Fault(StrCat("no chat.completion.chunk: ", Cut(chunk.Dump())));
  }
  const Json* usage = Member(&chunk, "usage");
  const Json* choices = Member(&chunk, "choices");
  if (choices == nullptr || !choices->is_array()) {
    return Fault(StrCat("a chunk without choices: ", Cut(chunk.Dump())));
  }
  if (choices->AsArray().empty()) {
    if (usage == nullptr) return Fault("a chunk with neither choice nor usage");
    if (!finished_) return Fault("usage before the answer was finished");
    return Usage(*usage);
  }
  const Json* choice = OnlyChoice(chunk);
  choice == nullptr ? Fault("more choices than were asked for") : Delta(*choice);
}

void AnswerCheck::Delta(const Json& choice) {
  const Json* delta = Member(&choice, "delta");
  if (delta == nullptr || !delta->is_object()) return Fault("a choice without a delta");
  if (finished_) return Fault("a delta after the finish_reason");
  if (Member(delta, "role") != nullptr && std::exchange(begun_, true)) {
    return Fault("the role came twice");
  }
  if (!begun_) return Fault("text before the role");
  Text(Member(delta, "reasoning_content"));
  Text(Member(delta, "content"));
  Logprobs(Member(&choice, "logprobs"));
  if (const Json* reason = Member(&choice, "finish_reason")) Finish(*reason);
}

void AnswerCheck::Text(const Json* text) {
  if (text == nullptr) return;
  if (!text->is_string()) return Fault(StrCat("text that is no string: ", Cut(text->Dump())));
  const std::string& bytes = text->AsString();
  if (!bytes.empty()) ++pieces_;
  if (expected_.logprobs) text_ += bytes;
  for (size_t at = bytes.find(kReplacement); at != std::string::npos;
       at = bytes.find(kReplacement, at + kReplacement.size())) {
    ++broken_characters_;
  }
}

void AnswerCheck::Logprobs(const Json* logprobs) {
  const Json* content = Member(logprobs, "content");
  if (!expected_.logprobs || content == nullptr || !content->is_array()) return;
  for (const Json& entry : content->AsArray()) {
    ++scored_;
    const Json* bytes = Member(&entry, "bytes");  // null: not shown
    if (bytes == nullptr || !bytes->is_array()) continue;
    for (const Json& byte : bytes->AsArray()) {
      if (byte.is_int()) scored_bytes_ += static_cast<char>(byte.AsInt());
    }
  }
}

void AnswerCheck::Finish(const Json& reason) {
  finished_ = true;
  const std::string name = reason.is_string() ? reason.AsString() : reason.Dump();
  const bool known = name == "length" || (name == "stop" && !expected_.fixed_length);
  if (!known) Fault(StrCat("finish_reason ", Cut(name)));
}

void AnswerCheck::Usage(const Json& usage) {
  if (std::exchange(has_usage_, true)) return Fault("usage came twice");
  const auto number = [&](const char* name) {
    const Json* value = Member(&usage, name);
    return value != nullptr && value->is_int() ? value->AsInt() : int64_t{-1};
  };
  prompt_tokens_ = number("prompt_tokens");
  completion_tokens_ = number("completion_tokens");
  if (prompt_tokens_ < 1 || completion_tokens_ < 0 ||
      number("total_tokens") != prompt_tokens_ + completion_tokens_) {
    Fault(StrCat("usage that does not add up: ", Cut(usage.Dump())));
  }
  const Json* cached = Member(Member(&usage, "prompt_tokens_details"), "cached_tokens");
  cached_tokens_ = cached != nullptr && cached->is_int() ? cached->AsInt() : 0;
  if (cached_tokens_ > prompt_tokens_) Fault("more cached tokens than the prompt has");
}

void AnswerCheck::End() {
  if (!expected_.stream) {
    Whole();
  } else if (fault_.empty()) {
    if (!rest_.empty() || !data_.empty()) Fault("the stream ended in the middle of an event");
    if (!done_) Fault("the stream ended without [DONE]");
    if (!finished_) Fault("no finish_reason came");
    if (!has_usage_) Fault("no usage came");
  }
  if (fault_.empty()) Totals();
}

void AnswerCheck::Whole() {
  const Result<Json> answer = Json::Parse(rest_);
  if (!answer.ok()) return Fault(StrCat(answer.status().message(), " in ", Cut(rest_)));
  const Json* choice = OnlyChoice(*answer);
  const Json* usage = Member(&*answer, "usage");
  if (choice == nullptr || usage == nullptr) return Fault(StrCat("no answer: ", Cut(rest_)));
  const Json* text = Member(Member(choice, "message"), "content");
  if (text == nullptr) return Fault("an answer without text");
  Text(text);
  Logprobs(Member(choice, "logprobs"));
  const Json* reason = Member(choice, "finish_reason");
  reason == nullptr ? Fault("no finish_reason") : Finish(*reason);
  Usage(*usage);
}

// Usage says as many tokens as came.
void AnswerCheck::Totals() {
  const bool right = expected_.fixed_length ? completion_tokens_ == expected_.max_tokens
                                            : completion_tokens_ <= expected_.max_tokens;
  if (!right) {
    Fault(StrCat("usage counts ", completion_tokens_, " tokens, ", expected_.max_tokens,
                 " were asked for"));
  }
  if (pieces_ > completion_tokens_) {
    Fault(StrCat(pieces_, " pieces of text, and usage counts ", completion_tokens_, " tokens"));
  }
  if (!expected_.logprobs) return;
  if (scored_ != completion_tokens_) {
    Fault(StrCat(scored_, " log-probabilities, and usage counts ", completion_tokens_, " tokens"));
  }
  // A character that the last token leaves unfinished is not shown.
  scored_bytes_.resize(CompleteUtf8Prefix(scored_bytes_));
  if (text_ != SanitizeUtf8(scored_bytes_)) Fault("the text is not what its tokens say");
}

void AnswerCheck::Refusal(int status, std::string_view body, bool has_retry_after) {
  const Result<Json> json = Json::Parse(body);
  const Json* error = json.ok() ? Member(&*json, "error") : nullptr;
  const Json* code = Member(error, "code");
  if (!IsText(Member(error, "message")) || !IsText(Member(error, "type")) || code == nullptr ||
      *code != Json(status)) {
    return Fault(StrCat("HTTP ", status, " with a body that is no error: ", Cut(body)));
  }
  if ((status == 429 || status == 503) && !has_retry_after) {
    return Fault(StrCat("HTTP ", status, " without Retry-After"));
  }
  if (status != 429 && status != 503) {
    Fault(StrCat("HTTP ", status, ": ", Cut(Member(error, "message")->AsString())));
  }
}

}  // namespace erne::load
