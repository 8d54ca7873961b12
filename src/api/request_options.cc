#include "api/request_options.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "api/request_id.h"
#include "base/strings.h"

namespace erne {
namespace {

// Texts that are compared with every piece of an answer have bounds; OpenAI allows 4 stops, vLLM
// any number.
constexpr size_t kMaxStops = 64;
constexpr size_t kMaxBadWords = 128;
constexpr size_t kMaxTextBytes = 16 * 1024;
constexpr size_t kMaxStopTokens = 1024;
// Each is told with every token.
constexpr size_t kMaxLogprobTokens = 128;
// Every answer of a request has a copy of its biases.
constexpr size_t kMaxBiases = 4096;
// OpenAI's limits; beyond them a bias is a ban or a command anyway.
constexpr double kMaxBias = 100;
// It is kept with every request.
constexpr size_t kMaxSaltBytes = 256;

std::optional<float> Number(const Json& body, std::string_view name) {
  const Json* value = Given(body, name);
  if (value == nullptr) return std::nullopt;
  return static_cast<float>(value->AsDouble());
}

int32_t SmallInteger(const Json& value) {
  return static_cast<int32_t>(std::clamp<int64_t>(
      WholeValue(value), std::numeric_limits<int32_t>::min(), std::numeric_limits<int32_t>::max()));
}

// A string or an array of strings, none empty.
Status ReadTexts(const Json& body, std::string_view field, size_t most,
                 std::vector<std::string>& out) {
  const Json* value = Given(body, field);
  if (value == nullptr) return {};
  const Json::Array one = {*value};
  const Json::Array& texts = value->is_array() ? value->AsArray() : one;
  if (texts.size() > most) {
    return FieldFault(field, StrCat("must hold at most ", most, " strings, not ", texts.size()));
  }
  size_t bytes = 0;
  for (const Json& text : texts) {
    if (!text.is_string()) {
      return FieldFault(field, StrCat("must hold strings only, not ", text.KindName()));
    }
    if (text.AsString().empty()) return FieldFault(field, "must not hold an empty string");
    bytes += text.AsString().size();
    out.push_back(text.AsString());
  }
  if (bytes > kMaxTextBytes) {
    return FieldFault(field,
                      StrCat("must be at most ", kMaxTextBytes, " bytes together, not ", bytes));
  }
  return {};
}

// An array of token ids, in any number.
Status ReadTokens(const Json& body, std::string_view field, std::vector<int32_t>& out) {
  const Json* value = Given(body, field);
  if (value == nullptr) return {};
  for (const Json& id : value->AsArray()) {
    const std::optional<int32_t> token = TokenId(id);
    if (!token) return FieldFault(field, StrCat("must hold token ids only, not ", Shown(id)));
    out.push_back(*token);
  }
  return {};
}

Status ReadLogitBias(const Json& body, std::vector<LogitBias>& out) {
  const Json* biases = Given(body, "logit_bias");
  if (biases == nullptr) return {};
  if (biases->AsObject().size() > kMaxBiases) {
    return FieldFault("logit_bias", StrCat("must name at most ", kMaxBiases, " tokens, not ",
                                           biases->AsObject().size()));
  }
  std::set<int32_t> seen;
  for (const auto& [name, value] : biases->AsObject()) {
    const std::optional<int32_t> token = ParseNumber<int32_t>(name);
    if (!token || *token < 0) {
      return FieldFault("logit_bias",
                        StrCat("must have token ids as names, not ", Shown(Json(name))));
    }
    if (!value.is_number() || !(std::abs(value.AsDouble()) <= kMaxBias)) {
      return FieldFault("logit_bias", StrCat("must hold numbers from -100 to 100, not ",
                                             Shown(value), " for token ", *token));
    }
    if (!seen.insert(*token).second) {
      return FieldFault("logit_bias", StrCat("names token ", *token, " twice"));
    }
    out.push_back({*token, static_cast<float>(value.AsDouble())});
  }
  return {};
}

Status ReadSampling(const Json& body, RequestOptions& options) {
  options.temperature = Number(body, "temperature");
  options.min_p = Number(body, "min_p");
  // A positive double may be no positive float; the smallest one keeps it within its limits.
  constexpr float kSmallest = std::numeric_limits<float>::min();
  if (const auto top_p = Number(body, "top_p")) options.top_p = std::max(*top_p, kSmallest);
  if (const auto penalty = Number(body, "repetition_penalty")) {
    options.repetition_penalty = std::max(*penalty, kSmallest);
  }
  options.presence_penalty = Number(body, "presence_penalty").value_or(0);
  options.frequency_penalty = Number(body, "frequency_penalty").value_or(0);
  // More than any vocabulary holds is all of it.
  if (const Json* top_k = Given(body, "top_k")) options.top_k = SmallInteger(*top_k);
  if (const Json* seed = Given(body, "seed")) {
    options.seed = static_cast<uint64_t>(WholeValue(*seed));
  }
  ERNE_RETURN_IF_ERROR(ReadLogitBias(body, options.logit_bias));
  ERNE_RETURN_IF_ERROR(ReadTexts(body, "bad_words", kMaxBadWords, options.bad_words));
  ERNE_RETURN_IF_ERROR(ReadTokens(body, "allowed_token_ids", options.allowed_token_ids));
  std::vector<int32_t>& allowed = options.allowed_token_ids;
  if (Given(body, "allowed_token_ids") != nullptr && allowed.empty()) {
    return FieldFault("allowed_token_ids", "must not be empty: no token could be drawn");
  }
  // Each once, so that there are no more than the vocabulary has.
  std::sort(allowed.begin(), allowed.end());
  allowed.erase(std::unique(allowed.begin(), allowed.end()), allowed.end());
  return {};
}

// Chat says whether, and how many more, in two fields; completions in one.
Status ReadLogprobs(const Json& body, Endpoint endpoint, RequestOptions& options) {
  if (const Json* count = Given(body, "prompt_logprobs")) {
    if (FlagMember(body, "stream", false)) {
      return FieldFault("prompt_logprobs", "is not for `stream`: true");  // as in vLLM
    }
    options.prompt_logprobs = SmallInteger(*count);
  }
  if (endpoint == Endpoint::kCompletions) {
    const Json* count = Given(body, "logprobs");
    if (count != nullptr) options.logprobs = SmallInteger(*count);
    return {};
  }
  const Json* top = Given(body, "top_logprobs");
  const int32_t count = top == nullptr ? 0 : SmallInteger(*top);
  if (FlagMember(body, "logprobs", false)) {
    options.logprobs = count;
  } else if (count > 0) {
    return FieldFault("top_logprobs", "needs `logprobs`: true");
  }
  return {};
}

// Behind ReadLogprobs.
Status ReadLogprobTokens(const Json& body, RequestOptions& options) {
  std::vector<int32_t>& tokens = options.logprob_token_ids;
  ERNE_RETURN_IF_ERROR(ReadTokens(body, "logprob_token_ids", tokens));
  if (tokens.size() > kMaxLogprobTokens) {
    return FieldFault("logprob_token_ids",
                      StrCat("must hold at most ", kMaxLogprobTokens, " ids, not ", tokens.size()));
  }
  if (tokens.empty() || options.logprobs >= 0) return {};
  return FieldFault("logprob_token_ids", "needs `logprobs`");
}

// Members of repetition_detection; the ranges are ValidateRepetition's.
Status ReadRepetition(const Json& body, RequestOptions& options) {
  const Json* object = Given(body, "repetition_detection");
  if (object == nullptr) return {};
  RepetitionRule rule{.max_period = 0, .min_period = 0, .min_count = 0};
  for (const auto& [name, value] : object->AsObject()) {
    int32_t* to = nullptr;
    if (name == "max_pattern_size") to = &rule.max_period;
    if (name == "min_pattern_size") to = &rule.min_period;
    if (name == "min_count") to = &rule.min_count;
    if (to == nullptr) {
      return FieldFault("repetition_detection",
                        StrCat("has no member ", Shown(Json(name)),
                               ", only max_pattern_size, min_pattern_size and min_count"));
    }
    if (!value.is_null()) *to = SmallInteger(value);
  }
  if (rule.min_period == 0) rule.min_period = 1;  // vLLM's default
  ERNE_RETURN_IF_ERROR(ValidateRepetition(rule));
  options.repetition = rule;
  return {};
}

Status ReadEnds(const Json& body, RequestOptions& options) {
  for (const char* field : {"max_tokens", "max_completion_tokens"}) {
    if (const Json* value = Given(body, field)) {
      options.max_tokens = WholeValue(*value);
      options.max_tokens_field = field;
    }
  }
  if (const Json* least = Given(body, "min_tokens")) options.min_tokens = WholeValue(*least);
  options.ignore_eos = FlagMember(body, "ignore_eos", false);
  options.include_stop = FlagMember(body, "include_stop_str_in_output", false);
  ERNE_RETURN_IF_ERROR(ReadTexts(body, "stop", kMaxStops, options.stop));
  ERNE_RETURN_IF_ERROR(ReadTokens(body, "stop_token_ids", options.stop_token_ids));
  if (options.stop_token_ids.size() > kMaxStopTokens) {
    return FieldFault("stop_token_ids", StrCat("must hold at most ", kMaxStopTokens, " ids, not ",
                                               options.stop_token_ids.size()));
  }
  return ReadRepetition(body, options);
}

Status ReadStreaming(const Json& body, RequestOptions& options) {
  options.stream = FlagMember(body, "stream", false);
  if (const Json* tokens = Given(body, "stream_interval")) {
    options.stream_interval = WholeValue(*tokens);
  }
  const Json* members = Given(body, "stream_options");
  if (members == nullptr) return {};
  if (!options.stream) return FieldFault("stream_options", "is for `stream`: true only");
  if (const Json* seconds = Given(*members, "resumable_seconds")) {
    options.resumable_seconds = WholeValue(*seconds);
  }
  options.include_usage = FlagMember(*members, "include_usage", false);
  options.continuous_usage =
      options.include_usage && FlagMember(*members, "continuous_usage_stats", false);
  return {};
}

// How many answers are drawn, and how many of them are sent.
Status ReadChoices(const Json& body, RequestOptions& options) {
  if (const Json* n = Given(body, "n")) options.choices = WholeValue(*n);
  options.best_of = options.choices;
  const Json* best_of = Given(body, "best_of");
  if (best_of == nullptr) return {};
  options.best_of = WholeValue(*best_of);
  if (options.best_of < options.choices) {
    return FieldFault(
        "best_of", StrCat("must be at least `n` (", options.choices, "), not ", options.best_of));
  }
  if (options.best_of > options.choices && FlagMember(body, "stream", false)) {
    return FieldFault("best_of", "above `n` is not for `stream`: true: the choice comes last");
  }
  return {};
}

Status ReadTruncation(const Json& body, RequestOptions& options) {
  if (const Json* most = Given(body, "truncate_prompt_tokens")) {
    if (WholeValue(*most) == 0) {
      return FieldFault("truncate_prompt_tokens", "must be -1 or at least 1, not 0");
    }
    options.truncate_prompt_tokens = WholeValue(*most);
  }
  const std::string side = TextMember(body, "truncation_side");
  if (side != "" && side != "left" && side != "right") {
    return FieldFault("truncation_side",
                      StrCat("must be \"left\" or \"right\", not ", Shown(Json(side))));
  }
  options.truncate_end = side == "right";
  return {};
}

// What an answer tells beside its text.
void ReadDetails(const Json& body, RequestOptions& options) {
  options.skip_special_tokens = FlagMember(body, "skip_special_tokens", true);
  options.return_token_ids = FlagMember(body, "return_token_ids", false);
  options.return_tokens_as_token_ids = FlagMember(body, "return_tokens_as_token_ids", false);
  options.return_prompt_text = FlagMember(body, "return_prompt_text", false);
  options.show_expert_trace = FlagMember(body, "show_expert_trace", false);
}

Status ReadScheduling(const Json& body, RequestOptions& options) {
  if (const Json* priority = Given(body, "priority")) options.priority = WholeValue(*priority);
  if (const Json* timeout = Given(body, "timeout")) {
    // Rounded up: no time is too short to be a time.
    options.timeout_ms = static_cast<int64_t>(std::ceil(timeout->AsDouble() * 1000));
  }
  if (const Json* salt = Given(body, "cache_salt")) {
    options.cache_salt = salt->AsString();
    if (options.cache_salt.empty() || options.cache_salt.size() > kMaxSaltBytes) {
      return FieldFault("cache_salt", StrCat("must have 1 to ", kMaxSaltBytes, " bytes, not ",
                                             options.cache_salt.size()));
    }
  }
  return {};
}

}  // namespace

Status FieldFault(std::string_view field, std::string_view what) {
  return InvalidArgument(StrCat("`", field, "` ", what), std::string(field));
}

bool FlagMember(const Json& body, std::string_view name, bool fallback) {
  const Json* value = Given(body, name);
  return value == nullptr ? fallback : value->AsBool();
}

std::string TextMember(const Json& body, std::string_view name) {
  const Json* value = Given(body, name);
  return value == nullptr ? std::string() : value->AsString();
}

Result<RequestOptions> ReadRequestOptions(const Json& body, Endpoint endpoint) {
  RequestOptions options;
  options.model = TextMember(body, "model");
  options.request_id = TextMember(body, "request_id");
  if (Given(body, "request_id") != nullptr && !IsUsableId(options.request_id)) {
    return FieldFault("request_id", "must be 1 to 128 letters, digits, '-', '_', '.' or ':'");
  }
  ERNE_RETURN_IF_ERROR(ReadChoices(body, options));
  ERNE_RETURN_IF_ERROR(ReadTruncation(body, options));
  ERNE_RETURN_IF_ERROR(ReadSampling(body, options));
  ERNE_RETURN_IF_ERROR(ReadLogprobs(body, endpoint, options));
  ERNE_RETURN_IF_ERROR(ReadLogprobTokens(body, options));
  ERNE_RETURN_IF_ERROR(ReadEnds(body, options));
  ERNE_RETURN_IF_ERROR(ReadScheduling(body, options));
  ERNE_RETURN_IF_ERROR(ReadStreaming(body, options));
  ReadDetails(body, options);
  ERNE_ASSIGN_OR_RETURN(options.form, ReadAnswerForm(body));
  return options;
}

}  // namespace erne
