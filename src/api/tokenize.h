// POST /tokenize and POST /detokenize, in vLLM's form.
#pragma once

#include "api/generation.h"
#include "api/served_model.h"
#include "base/json.h"
#include "base/status.h"

namespace erne {

// The answer to a body that CheckFields has passed:
// {"count":...,"max_model_len":...,"tokens":[...],"token_strs":[...]|null}. The body has either
// prompt or messages. token_strs are the texts of the tokens: together they are the prompt, but for
// characters that span several tokens, which show as U+FFFD.
Result<Json> Tokenize(const Json& body, const ServedModel& model, const ModelFacts& facts);

// {"prompt":...}: the text of `tokens`, control tokens included.
Result<Json> Detokenize(const Json& body, const ServedModel& model);

}  // namespace erne
