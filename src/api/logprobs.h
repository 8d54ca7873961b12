// Log-probabilities in OpenAI's two forms: chat's list of tokens, and the parallel lists of
// completions.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "sampling/sampler.h"
#include "text/tokenizer.h"

namespace erne {

// What the model thought of a prompt's tokens at 1, 2, ...: each as SampledToken::logprobs.
using PromptScores = std::vector<std::vector<TokenLogprob>>;

// A token of an answer or an echo, and what the model thought of it.
struct ScoredToken {
  // The token, then the most probable ones (SampledToken::logprobs); not empty.
  std::vector<TokenLogprob> logprobs;
  bool scored = true;       // false: nothing stood before it that could tell; its logprob is null
  bool shown = true;        // false: its text is left out, as that of an end token
  int64_t text_offset = 0;  // characters of the choice's text before it
};

// Writes ScoredTokens. A token is told by its text; where that is no whole characters, by its bytes
// as \xe4\xbd. Logarithms below -9999 are written as -9999 (as vLLM and OpenAI do): JSON knows no
// infinity.
class LogprobWriter {
 public:
  // `tokenizer` must outlive this. `as_ids`: a token is told as "token_id:5".
  LogprobWriter(const Tokenizer& tokenizer, bool skip_special, bool as_ids = false)
      : tokenizer_(tokenizer), skip_special_(skip_special), as_ids_(as_ids) {}

  // {"content":[{"token":...,"logprob":...,"bytes":[...],"top_logprobs":[...]},...],"refusal":null}.
  // `bytes` together are the answer: null for a token that is not shown.
  void AppendChat(std::span<const ScoredToken> tokens, std::string& out) const;

  // {"text_offset":[...],"token_logprobs":[...],"tokens":[...],"top_logprobs":[{...},...]}. The
  // objects hold the most probable tokens and the token itself.
  void AppendCompletion(std::span<const ScoredToken> tokens, std::string& out) const;

  // [null,{"ID":{"logprob":...,"rank":...,"decoded_token":...},...},...]: vLLM's prompt_logprobs,
  // the prompt's own token first. The rank of one that is not among the most probable ones is null.
  void AppendPrompt(const PromptScores& scores, std::string& out) const;

 private:
  void AppendChatToken(const TokenLogprob& token, bool shown, std::string& out) const;
  // `mark` stands before the bytes of a text that is no whole characters.
  std::string Told(int32_t token, const char* mark) const;

  const Tokenizer& tokenizer_;
  bool skip_special_;
  bool as_ids_;
};

}  // namespace erne
