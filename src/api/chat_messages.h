// The messages of a chat request: checked, and brought into the form that chat templates read.
#pragma once

#include "base/json.h"
#include "base/status.h"

namespace erne {

// The template form of `messages` (an array): each an object with role and content, and name,
// tool_calls, tool_call_id, reasoning and reasoning_content where given. The role developer becomes
// system; a content array of text parts becomes one string, joined by newlines (as vLLM joins
// them); an absent content of an assistant becomes ""; the arguments of a tool call, JSON in a
// string, become the value they describe. Errors name the place: `messages[2].content[0]`.
Result<Json> TemplateMessages(const Json& messages);

}  // namespace erne
