#include "api/completion_prompt.h"

#include <algorithm>
#include <variant>

#include "base/text_piece.h"
#include "base/utf8.h"
#include "text/detokenizer.h"

namespace erne {
namespace {

// How many of `tokens` stand before the text because the tokenizer puts them there.
size_t PrefixTokens(std::string_view text, std::span<const int32_t> tokens,
                    const ServedModel& model) {
  const std::vector<int32_t>& prefix = model.prompt_prefix;
  const bool has_prefix =
      tokens.size() >= prefix.size() && std::equal(prefix.begin(), prefix.end(), tokens.begin());
  if (!has_prefix) return 0;
  const bool written = text.starts_with(model.tokenizer->Decode(prefix, /*skip_special=*/false));
  return written ? 0 : prefix.size();
}

}  // namespace

Result<std::vector<int32_t>> EncodeCompletionPrompt(const CompletionRequest& request, size_t index,
                                                    const PromptLimit& limit,
                                                    const ServedModel& model,
                                                    const ModelFacts& facts) {
  const CompletionPrompt& prompt = request.prompts[index];
  if (const auto* tokens = std::get_if<std::vector<int32_t>>(&prompt)) return *tokens;
  // Whoever completes writes the whole prompt, control tokens included.
  const TextPiece piece{std::get<std::string>(prompt), /*trusted=*/true};
  return EncodePrompt(std::span(&piece, 1), request.add_special_tokens, limit, model, facts);
}

Echo MakeEcho(const CompletionRequest& request, size_t index, std::span<const int32_t> tokens,
              bool truncated, const ServedModel& model) {
  const Tokenizer& tokenizer = *model.tokenizer;
  const auto* given = truncated ? nullptr : std::get_if<std::string>(&request.prompts[index]);
  // A text shows the control tokens that were written in it.
  const bool skip_special = given == nullptr && request.options.skip_special_tokens;
  Echo echo;
  echo.text =
      given != nullptr ? *given : tokenizer.Decode({tokens.begin(), tokens.end()}, skip_special);
  if (request.options.logprobs < 0) return echo;

  const size_t unseen = given != nullptr ? PrefixTokens(*given, tokens, model) : 0;
  const auto end = static_cast<int64_t>(CountUtf8(echo.text));
  Detokenizer detokenizer(tokenizer, skip_special);
  // The space that Encode puts before a text is not in it: characters are counted from behind it.
  int64_t characters = 0;
  bool began = !tokenizer.adds_prefix_space();
  for (size_t i = 0; i < tokens.size(); ++i) {
    echo.tokens.push_back({tokens[i], std::min(characters, end)});
    if (i < unseen || (skip_special && tokenizer.IsSpecial(tokens[i]))) continue;
    const std::string text = detokenizer.Add(tokens[i]);
    characters += static_cast<int64_t>(CountUtf8(text));
    if (began || text.empty()) continue;
    began = true;
    if (text.front() == ' ') --characters;
  }
  return echo;
}

}  // namespace erne
