#include "sampling/params.h"

#include <cmath>
#include <string>

#include "base/strings.h"

namespace erne {
namespace {

// [low, high]; NaN fails.
Status InRange(const char* field, float value, float low, float high) {
  if (value >= low && value <= high) return {};
  return InvalidArgument(StrCat(field, " must be in [", low, ", ", high, "], got ", value), field);
}

Status InVocabulary(const char* field, const std::vector<int32_t>& tokens, int64_t vocab_size) {
  for (const int32_t token : tokens) {
    if (token >= 0 && token < vocab_size) continue;
    return InvalidArgument(
        StrCat(field, " names token ", token, ", outside the vocabulary of ", vocab_size), field);
  }
  return {};
}

Status ValidateTokenLists(const SamplingParams& params, int64_t vocab_size) {
  std::vector<bool> biased(static_cast<size_t>(vocab_size), false);
  for (const auto& [token, bias] : params.logit_bias) {
    if (token < 0 || token >= vocab_size) {
      return InvalidArgument(
          StrCat("logit_bias names token ", token, ", outside the vocabulary of ", vocab_size),
          "logit_bias");
    }
    if (!std::isfinite(bias)) {
      return InvalidArgument(StrCat("the bias of token ", token, " is not finite"), "logit_bias");
    }
    if (biased[static_cast<size_t>(token)]) {
      return InvalidArgument(StrCat("logit_bias names token ", token, " twice"), "logit_bias");
    }
    biased[static_cast<size_t>(token)] = true;
  }
  for (const std::vector<int32_t>& word : params.bad_words) {
    if (word.empty()) return InvalidArgument("bad_words holds an empty word", "bad_words");
    ERNE_RETURN_IF_ERROR(InVocabulary("bad_words", word, vocab_size));
  }
  return {};
}

}  // namespace

Status ValidateSampling(const SamplingParams& params, int64_t vocab_size) {
  // Written so that NaN fails every test.
  if (!(params.temperature >= 0.0F) || !std::isfinite(params.temperature)) {
    return InvalidArgument(StrCat("temperature must be 0 or more, got ", params.temperature),
                           "temperature");
  }
  if (!(params.top_p > 0.0F && params.top_p <= 1.0F)) {
    return InvalidArgument(StrCat("top_p must be in (0, 1], got ", params.top_p), "top_p");
  }
  if (params.top_k < -1) {
    return InvalidArgument(
        StrCat("top_k must be -1 or 0 (all tokens) or positive, got ", params.top_k), "top_k");
  }
  if (!(params.repetition_penalty > 0.0F) || !std::isfinite(params.repetition_penalty)) {
    return InvalidArgument(
        StrCat("repetition_penalty must be above 0, got ", params.repetition_penalty),
        "repetition_penalty");
  }
  ERNE_RETURN_IF_ERROR(InRange("min_p", params.min_p, 0, 1));
  ERNE_RETURN_IF_ERROR(InRange("presence_penalty", params.presence_penalty, -2, 2));
  ERNE_RETURN_IF_ERROR(InRange("frequency_penalty", params.frequency_penalty, -2, 2));
  if (params.logprobs < -1 || params.logprobs > vocab_size) {
    return InvalidArgument(
        StrCat("logprobs must be -1 (none) to ", vocab_size, ", got ", params.logprobs),
        "logprobs");
  }
  ERNE_RETURN_IF_ERROR(InVocabulary("allowed_token_ids", params.allowed_tokens, vocab_size));
  ERNE_RETURN_IF_ERROR(InVocabulary("logprob_token_ids", params.logprob_tokens, vocab_size));
  if (params.logit_bias.empty() && params.bad_words.empty()) return {};
  return ValidateTokenLists(params, vocab_size);
}

}  // namespace erne
