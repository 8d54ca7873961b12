#include "api/schema.h"

#include <cmath>

#include "base/strings.h"
#include "base/utf8.h"

namespace erne {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
using enum FieldKind;
using enum FieldUse;

// Names, kinds and limits are those of OpenAI's API and vLLM's extensions to it.
constexpr RequestField kChatFields[] = {
    {"model", kString, kHonoured, "",
     "A served model's name, in any letter case. Absent: the one that is served."},
    {"messages", kArray, kHonoured, "",
     "The conversation. Roles: system, developer (the same as system), user, assistant, tool."},
    {"stream", kBoolean, kHonoured, "false",
     "Send the answer as server-sent events, token by token."},
    {"stream_options", kObject, kHonoured, "",
     "include_usage: a last chunk with the usage. continuous_usage_stats: usage in every chunk."},
    {"max_tokens", kInteger, kHonoured, "",
     "Most tokens to answer with. Absent: the rest of the context.", 1},
    {"max_completion_tokens", kInteger, kHonoured, "",
     "The newer name of max_tokens; wins when both are given.", 1},
    {"n", kInteger, kHonoured, "1", "Number of answers; answer i is drawn with seed + i.", 1, 64},
    {"temperature", kNumber, kHonoured, "1",
     "0: always the most probable token. Default: the model's, else 1.", 0, 1e6},
    {"top_p", kNumber, kHonoured, "1",
     "Draw from the most probable tokens with this mass. Default: the model's, else 1.", 0, 1,
     true},
    {"top_k", kInteger, kHonoured, "0", "Draw from this many most probable tokens; 0 or -1: all.",
     -1},
    {"repetition_penalty", kNumber, kHonoured, "1",
     "Above 1: tokens that occurred become less probable.", 0, 1e6, true},
    {"seed", kInteger, kHonoured, "",
     "The same seed, request and model give the same answer. Absent: drawn anew."},
    {"stop", kStringOrArray, kHonoured, "",
     "Up to 64 texts (16 KiB together) that end the answer; not shown."},
    {"stop_token_ids", kArray, kHonoured, "", "Up to 1024 token ids that end the answer."},
    {"include_stop_str_in_output", kBoolean, kHonoured, "false", "Show what ended the answer."},
    {"ignore_eos", kBoolean, kHonoured, "false", "Go on past the model's own end tokens."},
    {"skip_special_tokens", kBoolean, kHonoured, "true", "Leave control tokens out of the text."},
    {"add_generation_prompt", kBoolean, kHonoured, "true",
     "End the prompt with the beginning of an assistant turn."},
    {"chat_template_kwargs", kObject, kHonoured, "", "More variables for the chat template."},
    {"documents", kArray, kHonoured, "", "Documents for the chat template (retrieval)."},
    {"reasoning_effort", kString, kHonoured, "", "Handed to the chat template."},
    {"tools", kArray, kHonoured, "[]",
     "Handed to the chat template; calls by the model (tool_choice other than none) are not "
     "supported."},
    {"tool_choice", kStringOrObject, kHonoured, "", "Only none, or auto without tools."},
    {"response_format", kObject, kHonoured, "", "Only {\"type\":\"text\"}."},
    {"request_id", kString, kHonoured, "",
     "Becomes part of the answer's id; the header X-Request-Id wins."},

    {"user", kString, kAccepted, "", "Not used."},
    {"safety_identifier", kString, kAccepted, "", "Not used."},
    {"metadata", kObject, kAccepted, "", "Not used."},
    {"store", kBoolean, kAccepted, "", "Nothing is ever stored."},
    {"service_tier", kString, kAccepted, "", "There is one tier."},
    {"prompt_cache_key", kString, kAccepted, "", "Not used."},
    {"prompt_cache_retention", kString, kAccepted, "", "Not used."},
    {"cache_salt", kString, kAccepted, "", "Not used."},
    {"prediction", kObject, kAccepted, "", "A hint that changes no answer."},
    {"session_id", kString, kAccepted, "", "Not used."},
    {"parallel_tool_calls", kBoolean, kAccepted, "", "There are no tool calls yet."},
    {"spaces_between_special_tokens", kBoolean, kAccepted, "", "No spaces are ever added."},

    {"logprobs", kAny, kUnsupported, "false", "Probabilities of the tokens."},
    {"top_logprobs", kInteger, kUnsupported, "0", "Probabilities of the tokens."},
    {"logit_bias", kObject, kUnsupported, "{}", "Per-token bias."},
    {"presence_penalty", kNumber, kUnsupported, "0",
     "Penalty for tokens that occurred in the answer.", -2, 2},
    {"frequency_penalty", kNumber, kUnsupported, "0",
     "Penalty by how often a token occurred in the answer.", -2, 2},
    {"min_p", kNumber, kUnsupported, "0", "Least probability relative to the most probable token.",
     0, 1},
    {"min_tokens", kInteger, kUnsupported, "0", "Least number of tokens.", 0},
    {"best_of", kInteger, kUnsupported, "1", "Candidates to choose from.", 1},
    {"use_beam_search", kBoolean, kUnsupported, "false", "Beam search."},
    {"length_penalty", kNumber, kUnsupported, "1", "Beam search."},
    {"bad_words", kArray, kUnsupported, "[]", "Texts that must not occur."},
    {"allowed_token_ids", kArray, kUnsupported, "", "The only tokens to draw from."},
    {"logprob_token_ids", kArray, kUnsupported, "", "Tokens to give probabilities of."},
    {"prompt_logprobs", kInteger, kUnsupported, "", "Probabilities of the prompt's tokens."},
    {"guided_json", kAny, kUnsupported, "", "Answers of a JSON schema."},
    {"guided_regex", kString, kUnsupported, "", "Answers of a regular expression."},
    {"guided_choice", kArray, kUnsupported, "", "One of several answers."},
    {"guided_grammar", kString, kUnsupported, "", "Answers of a grammar."},
    {"structured_outputs", kObject, kUnsupported, "", "Answers of a given form."},
    {"functions", kArray, kUnsupported, "[]", "The old form of tools."},
    {"function_call", kStringOrObject, kUnsupported, "\"none\"", "The old form of tool_choice."},
    {"echo", kBoolean, kUnsupported, "false", "Begin the answer with the last message."},
    {"continue_final_message", kBoolean, kUnsupported, "false", "Go on with the last message."},
    {"add_special_tokens", kBoolean, kUnsupported, "false",
     "Tokens before those that the chat template writes."},
    {"chat_template", kString, kUnsupported, "", "A template of the request's own."},
    {"truncate_prompt_tokens", kInteger, kUnsupported, "",
     "Cut the prompt. Nothing is ever cut silently here."},
    {"truncation_side", kString, kUnsupported, "", "Cut the prompt."},
    {"priority", kInteger, kUnsupported, "0", "Place in the queue."},
    {"include_reasoning", kBoolean, kUnsupported, "true", "Reasoning is not split off yet."},
    {"thinking_token_budget", kInteger, kUnsupported, "", "Most tokens of reasoning."},
    {"return_token_ids", kBoolean, kUnsupported, "false", "Token ids beside the text."},
    {"return_tokens_as_token_ids", kBoolean, kUnsupported, "false",
     "Token ids in the probabilities."},
    {"return_prompt_text", kBoolean, kUnsupported, "false", "The rendered prompt in the answer."},
    {"kv_transfer_params", kObject, kUnsupported, "", "Prefill on another server."},
    {"vllm_xargs", kObject, kUnsupported, "{}", "Arguments of vLLM's plugins."},
    {"repetition_detection", kObject, kUnsupported, "", "Ending loops."},
    {"stream_interval", kInteger, kUnsupported, "1", "Tokens in one chunk.", 1},
    {"modalities", kArray, kUnsupported, "[\"text\"]", "Answers are text."},
    {"audio", kObject, kUnsupported, "", "Answers are text."},
    {"web_search_options", kObject, kUnsupported, "", "There is no web search."},
};

bool IsOfKind(const Json& value, FieldKind kind) {
  switch (kind) {
    case kBoolean:
      return value.is_bool();
    case kInteger:
      return IsWhole(value);
    case kNumber:
      return value.is_number();
    case kString:
      return value.is_string();
    case kArray:
      return value.is_array();
    case kObject:
      return value.is_object();
    case kStringOrArray:
      return value.is_string() || value.is_array();
    case kStringOrObject:
      return value.is_string() || value.is_object();
    case kAny:
      return true;
  }
  return false;
}

const char* Wanted(FieldKind kind) {
  switch (kind) {
    case kBoolean:
      return "true or false";
    case kInteger:
      return "an integer";
    case kNumber:
      return "a number";
    case kString:
      return "a string";
    case kArray:
      return "an array";
    case kObject:
      return "an object";
    case kStringOrArray:
      return "a string or an array of strings";
    case kStringOrObject:
      return "a string or an object";
    case kAny:
      return "any value";
  }
  return "";
}

Status CheckRange(const RequestField& field, const Json& value) {
  const double number = value.AsDouble();
  const bool too_small = field.above_min ? number <= field.min : number < field.min;
  if (!too_small && number <= field.max) return {};
  // The limits in the table are whole numbers.
  std::string limits;
  if (field.min != -kInf) {
    limits =
        StrCat(field.above_min ? "greater than " : "at least ", static_cast<int64_t>(field.min));
  }
  if (field.max != kInf) {
    limits += StrCat(limits.empty() ? "" : " and ", "at most ", static_cast<int64_t>(field.max));
  }
  return InvalidArgument(StrCat("`", field.name, "` must be ", limits, ", not ", Shown(value)),
                         std::string(field.name));
}

// Whether `value` says what an absent field says, so that nothing is asked for.
bool IsNeutral(const RequestField& field, const Json& value) {
  if (field.neutral.empty()) return false;
  const Result<Json> neutral = Json::Parse(field.neutral);
  ERNE_CHECK(neutral.ok()) << field.name << ": " << field.neutral;
  if (neutral->is_number() && value.is_number()) return neutral->AsDouble() == value.AsDouble();
  return *neutral == value;
}

Status CheckField(const RequestField& field, const Json& value) {
  if (!IsOfKind(value, field.kind)) {
    return InvalidArgument(
        StrCat("`", field.name, "` must be ", Wanted(field.kind), ", not ",
               value.is_double() && field.kind == kInteger ? Shown(value) : value.KindName()),
        std::string(field.name));
  }
  if (field.kind == kInteger || field.kind == kNumber)
    ERNE_RETURN_IF_ERROR(CheckRange(field, value));
  if (field.use == kUnsupported && !IsNeutral(field, value)) {
    return InvalidArgument(StrCat("`", field.name, "` is not supported yet: leave it out"),
                           std::string(field.name));
  }
  return {};
}

}  // namespace

std::span<const RequestField> ChatRequestFields() { return kChatFields; }

Status CheckFields(const Json& body, std::span<const RequestField> fields,
                   std::vector<std::string>& unknown) {
  for (const auto& [name, value] : body.AsObject()) {
    const RequestField* known = nullptr;
    for (const RequestField& field : fields) {
      if (field.name == name) known = &field;
    }
    if (known == nullptr) {
      unknown.push_back(name);
    } else if (!value.is_null()) {
      ERNE_RETURN_IF_ERROR(CheckField(*known, value));
    }
  }
  return {};
}

const Json* Given(const Json& body, std::string_view name) {
  const Json* value = body.Find(name);
  return value == nullptr || value->is_null() ? nullptr : value;
}

bool IsWhole(const Json& value) {
  if (value.is_int()) return true;
  // Up to 2^53 a double stands for one integer.
  return value.is_double() && std::trunc(value.AsDouble()) == value.AsDouble() &&
         std::abs(value.AsDouble()) <= 9007199254740992.0;
}

int64_t WholeValue(const Json& value) {
  return value.is_int() ? value.AsInt() : static_cast<int64_t>(value.AsDouble());
}

std::string Shown(const Json& value) {
  constexpr size_t kMost = 60;
  std::string text = value.Dump();
  if (text.size() <= kMost) return text;
  text.resize(kMost);
  text.resize(CompleteUtf8Prefix(text));
  return text + "...";
}

}  // namespace erne
