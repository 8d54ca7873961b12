// The conversation behind `erne chat`: what was said, how answers are drawn, and what the model is
// asked next. It speaks to a model as the API does: each question is a chat request.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "api/answer_text.h"
#include "api/generation.h"
#include "api/served_model.h"
#include "base/json.h"
#include "base/status.h"
#include "engine/request.h"

namespace erne {

// A field of the API's chat requests that shapes answers, and its value out of what was typed:
// {"temperature", 0.7}. Dashes stand for underscores; "default" gives null, the model's own.
// Faults: no such field (the nearest is named), a value that the field does not take.
Result<Json::Member> ParseChatSetting(const std::string& name, const std::string& value);

// Not thread-safe.
class ChatConversation {
 public:
  explicit ChatConversation(std::shared_ptr<const ServedModel> model);

  // A field as ParseChatSetting gives it; null takes it away. Faults, such as token ids that the
  // model does not know, change nothing.
  Status Set(const Json::Member& setting);
  const Json& settings() const { return settings_; }
  void SetSystem(std::string text) { system_ = std::move(text); }  // "": none
  const std::string& system() const { return system_; }
  // Forgets what was said, but not the system message.
  void Clear() { turns_.clear(); }

  struct Question {
    GenerationRequest generation;
    AnswerTextOptions text;
    int64_t dropped = 0;  // turns that had to go
  };
  // Asks `message`. When the context cannot hold everything and some room to answer, the oldest
  // turns go, for good. Faults, and then the conversation is as it was: the message alone is too
  // long, or the template does not take it.
  Result<Question> Ask(const std::string& message);
  // Asks the last message again. A seed that was set is counted up, else the answer were the same.
  Result<Question> AskAgain();
  // The answer to the last question, perhaps a part of one. "": there is none; a new question is
  // then forgotten, one that was asked again keeps the answer it had.
  void SetAnswer(const std::string& text);

  // As the body of a chat request, a message a line.
  std::string Save() const;

 private:
  struct Turn {
    std::string user;
    std::optional<std::string> assistant;
  };

  // Messages from turn `first` on, up to the last turn's question.
  Json Messages(size_t first) const;
  Result<Question> Build(size_t first) const;
  // The question at the end of turns_, which loses its oldest turns where they do not fit.
  Result<Question> Fit();

  const std::shared_ptr<const ServedModel> model_;
  const ModelFacts facts_;
  Json settings_ = Json::MakeObject();
  std::string system_;
  std::vector<Turn> turns_;
  uint64_t repeats_ = 0;  // how often the last message was asked again
};

}  // namespace erne
