#include "api/tokenize.h"

#include <optional>
#include <utility>
#include <vector>

#include "api/chat_request.h"
#include "api/request_options.h"
#include "api/schema.h"
#include "base/strings.h"
#include "base/utf8.h"

namespace erne {
namespace {

Result<std::vector<int32_t>> EncodeBody(const Json& body, const ServedModel& model,
                                        const ModelFacts& facts) {
  const Json* prompt = Given(body, "prompt");
  const bool is_chat = Given(body, "messages") != nullptr;
  if (is_chat == (prompt != nullptr)) {
    return FieldFault(is_chat ? "messages" : "prompt",
                      "or the other is needed: one of `prompt` and `messages`");
  }
  const bool add_special = FlagMember(body, "add_special_tokens", !is_chat);
  if (!is_chat) {
    const TextPiece piece{prompt->AsString(), /*trusted=*/true};
    const PromptLimit limit{.prompt_field = "prompt", .completion_field = "prompt"};
    return EncodePrompt(std::span(&piece, 1), add_special, limit, model, facts);
  }
  ERNE_ASSIGN_OR_RETURN(const Conversation conversation, ReadConversation(body));
  ERNE_ASSIGN_OR_RETURN(const std::vector<TextPiece> pieces,
                        RenderConversation(conversation, model));
  const PromptLimit limit{.prompt_field = "messages", .completion_field = "messages"};
  return EncodePrompt(pieces, add_special, limit, model, facts);
}

}  // namespace

Result<Json> Tokenize(const Json& body, const ServedModel& model, const ModelFacts& facts) {
  ERNE_ASSIGN_OR_RETURN(const std::vector<int32_t> tokens, EncodeBody(body, model, facts));
  Json ids = Json::MakeArray();
  Json texts;
  if (FlagMember(body, "return_token_strs", false)) texts = Json::MakeArray();
  for (const int32_t token : tokens) {
    ids.Push(token);
    if (texts.is_array()) texts.Push(SanitizeUtf8(model.tokenizer->TokenBytes(token)));
  }
  return Json::Of({{"count", tokens.size()},
                   {"max_model_len", model.engine->max_context()},
                   {"tokens", std::move(ids)},
                   {"token_strs", std::move(texts)}});
}

Result<Json> Detokenize(const Json& body, const ServedModel& model) {
  const Json* ids = Given(body, "tokens");
  if (ids == nullptr) return FieldFault("tokens", "is missing");
  const int64_t vocab_size = model.engine->spec().vocab_size;
  std::vector<int32_t> tokens;
  tokens.reserve(ids->AsArray().size());
  for (size_t i = 0; i < ids->AsArray().size(); ++i) {
    const Json& id = ids->AsArray()[i];
    const std::optional<int32_t> token = TokenId(id);
    if (!token || *token >= vocab_size) {
      return FieldFault(StrCat("tokens[", i, "]"),
                        StrCat("must be a token id below ", vocab_size, ", not ", Shown(id)));
    }
    tokens.push_back(*token);
  }
  return Json::Of({{"prompt", model.tokenizer->Decode(tokens, /*skip_special=*/false)}});
}

}  // namespace erne
