// From checked requests to what the engine computes: templates, tokens, defaults, and the room that
// is left.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "api/chat_request.h"
#include "api/request_options.h"
#include "api/served_model.h"
#include "base/status.h"
#include "base/text_piece.h"
#include "engine/request.h"
#include "grammar/grammar_compiler.h"

namespace erne {

// What the service derives from a model once, when it becomes ready.
struct ModelFacts {
  std::vector<int32_t> end_tokens;  // the model's own, the first is the primary one
  int64_t longest_token = 1;        // bytes of the longest token
  // Makes and keeps grammars of answers' forms. The model outlives it.
  std::shared_ptr<grammar::GrammarCompiler> grammars = nullptr;
};
ModelFacts FindModelFacts(const ServedModel& model);

// The loop that ends an answer whose length the client left open (max_tokens not said, end tokens
// not ignored): without it, a small model that goes round in circles does so to the end of the
// context, perhaps for hours. It must never cut what was meant, so it asks for far more than text
// has: eight copies in a row without one different token, in 1024 tokens or more. Lists, tables,
// refrains and code differ in a number or a word before that. What is as even as this on purpose
// ("write a thousand zeros") names its length, or {"max_pattern_size": 0}.
inline constexpr RepetitionRule kOpenEndedRepetition = {
    .max_period = 512, .min_period = 1, .min_count = 8, .min_tokens = 1024};

// The conversation as the chat template writes it. Faults name messages, or the field that asks for
// what cannot be done.
Result<std::vector<TextPiece>> RenderConversation(const Conversation& conversation,
                                                  const ServedModel& model);

// Texts that are far too long for the context are refused before they are tokenized.
struct PromptLimit {
  int64_t completion = 1;  // tokens that are asked for after it
  std::string prompt_field;
  std::string completion_field;
};
// The token ids of a prompt. With `add_special`, those that the tokenizer puts before a text come
// first, unless the text brings them.
Result<std::vector<int32_t>> EncodePrompt(std::span<const TextPiece> pieces, bool add_special,
                                          const PromptLimit& limit, const ServedModel& model,
                                          const ModelFacts& facts);

// What all answers to a request share: everything but prompt and max_tokens; the seed only when the
// request names one. Faults: ids outside the vocabulary, and a form that cannot be compiled.
Result<GenerationRequest> MakeGeneration(const RequestOptions& options, const ServedModel& model,
                                         const ModelFacts& facts);

// Adds the prompt, truncated as the request allows, to what MakeGeneration made. max_tokens becomes
// what was asked for (1 for 0: the engine always computes a token), else `default_max_tokens` or
// the room that is left. Faults name `limit`'s fields: the prompt is empty or does not fit, or
// holds ids outside the vocabulary.
Status SetPrompt(std::vector<int32_t> prompt, const RequestOptions& options,
                 int64_t default_max_tokens, const PromptLimit& limit, const ServedModel& model,
                 GenerationRequest& generation);

// A whole chat request: MakeGeneration, the rendered conversation, SetPrompt. Faults name the
// request's fields.
Result<GenerationRequest> MakeChatGeneration(const ChatRequest& request, const ServedModel& model,
                                             const ModelFacts& facts);

}  // namespace erne
