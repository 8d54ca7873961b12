// The form that a request wants its answer to have: response_format, structured_outputs, and the
// older guided_*.
#pragma once

#include <optional>
#include <string>

#include "base/json.h"
#include "base/status.h"
#include "grammar/grammar_compiler.h"

namespace erne {

struct AnswerForm {
  grammar::Form form;
  std::string field;  // that asked for it, for messages
};

// Reads it out of a body that CheckFields has passed; nothing when any text will do. Faults are
// InvalidArguments with the field as param: a form without its text, or more than one form.
Result<std::optional<AnswerForm>> ReadAnswerForm(const Json& body);

}  // namespace erne
