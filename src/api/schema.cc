#include "api/schema.h"

#include <algorithm>
#include <cmath>
#include <iterator>

#include "base/strings.h"
#include "base/utf8.h"

namespace erne {
namespace {

// Up to 2^53 a double stands for one integer.
constexpr double kExactDouble = 9007199254740992.0;
constexpr double kInf = std::numeric_limits<double>::infinity();
using enum FieldKind;
using enum FieldUse;

// Which endpoints a row is for.
constexpr unsigned kC = static_cast<unsigned>(Endpoint::kChat);
constexpr unsigned kT = static_cast<unsigned>(Endpoint::kCompletions);  // text
constexpr unsigned kK = static_cast<unsigned>(Endpoint::kTokenize);
constexpr unsigned kD = static_cast<unsigned>(Endpoint::kDetokenize);
constexpr unsigned kGenerating = kC | kT;

// Names, kinds and limits are those of OpenAI's API and vLLM's extensions to it. A name may have
// several rows, for different endpoints.
constexpr RequestField kFields[] = {
    {"model", kC | kT | kK | kD, kString, kHonoured, "",
     "A served model's name, in any letter case. Absent: the one that is served."},
    {"messages", kC | kK, kArray, kHonoured, "",
     "The conversation. Roles: system, developer (the same as system), user, assistant, tool."},
    {"prompt", kT, kAny, kHonoured, "",
     "What to go on from: a string, an array of strings, an array of token ids, or an array of "
     "such arrays. Control tokens in it count as such."},
    {"prompt", kK, kString, kHonoured, "", "The text. Control tokens in it count as such."},
    {"tokens", kD, kArray, kHonoured, "", "Token ids."},
    {"return_token_strs", kK, kBoolean, kHonoured, "false", "Also the text of each token."},

    {"stream", kGenerating, kBoolean, kHonoured, "false",
     "Send the answer as server-sent events, token by token."},
    {"stream_options", kGenerating, kObject, kHonoured, "", "For streams alone."},
    {"stream_options.include_usage", kGenerating, kBoolean, kHonoured, "false",
     "A last chunk with the usage."},
    {"stream_options.continuous_usage_stats", kGenerating, kBoolean, kHonoured, "false",
     "With include_usage: usage in every chunk."},
    {"stream_options.include_obfuscation", kGenerating, kBoolean, kUnsupported, "false",
     "Chunks are sent as long as they are."},
    {"stream_options.resumable_seconds", kGenerating, kInteger, kHonoured, "",
     "For so long a client that lost its connection may come back.", 1, 60},
    {"stream_interval", kGenerating, kInteger, kHonoured, "1",
     "Tokens in one chunk, but for the first, which has one.", 1},
    {"max_tokens", kC, kInteger, kHonoured, "",
     "Most tokens to answer with. Absent: the model's, else the rest of the context; an answer "
     "that runs in a circle then ends early (repetition_detection).",
     1},
    {"max_tokens", kT, kInteger, kHonoured, "16",
     "Most tokens to answer with. 0 with echo: none, the prompt alone.", 0},
    {"max_completion_tokens", kC, kInteger, kHonoured, "",
     "The newer name of max_tokens; wins when both are given.", 1},
    {"min_tokens", kGenerating, kInteger, kHonoured, "0",
     "No end token, stop text or loop ends the answer before so many tokens.", 0},
    {"n", kGenerating, kInteger, kHonoured, "1",
     "Number of answers to each prompt; answer i is drawn with seed + i.", 1, 64},
    {"best_of", kGenerating, kInteger, kHonoured, "",
     "Draw so many answers, and send the n whose tokens are the most probable on average; not with "
     "stream. Default: n.",
     1, 64},
    {"temperature", kGenerating, kNumber, kHonoured, "1",
     "0: always the most probable token. Default: the model's, else 1.", 0, 1e6},
    {"top_p", kGenerating, kNumber, kHonoured, "1",
     "Draw from the most probable tokens with this mass. Default: the model's, else 1.", 0, 1,
     true},
    {"top_k", kGenerating, kInteger, kHonoured, "0",
     "Draw from this many most probable tokens; 0 or -1: all. Default: the model's, else all.", -1},
    {"min_p", kGenerating, kNumber, kHonoured, "0",
     "Drop tokens less probable than this share of the most probable one's. Default: the model's, "
     "else 0.",
     0, 1},
    {"repetition_penalty", kGenerating, kNumber, kHonoured, "1",
     "Above 1: tokens that occurred become less probable. Default: the model's, else 1.", 0, 1e6,
     true},
    {"presence_penalty", kGenerating, kNumber, kHonoured, "0",
     "Taken from the logit of a token that occurred in the answer.", -2, 2},
    {"frequency_penalty", kGenerating, kNumber, kHonoured, "0",
     "Taken from a token's logit each time that it occurred in the answer.", -2, 2},
    {"logit_bias", kGenerating, kObject, kHonoured, "{}",
     "Up to 4096 token ids, as strings, with what is added to their logits: -100 to 100."},
    {"bad_words", kGenerating, kArray, kHonoured, "[]",
     "Up to 128 texts (16 KiB together) that must not occur, as the tokenizer spells them with "
     "and without a space before them."},
    {"allowed_token_ids", kGenerating, kArray, kHonoured, "",
     "The only tokens to draw from; the answer ends by itself only when an end token is there."},
    {"seed", kGenerating, kInteger, kHonoured, "",
     "The same seed, request and model give the same answer. Absent: drawn anew."},
    {"stop", kGenerating, kStringOrArray, kHonoured, "",
     "Up to 64 texts (16 KiB together) that end the answer; not shown."},
    {"stop_token_ids", kGenerating, kArray, kHonoured, "",
     "Up to 1024 token ids that end the answer."},
    {"include_stop_str_in_output", kGenerating, kBoolean, kHonoured, "false",
     "Show what ended the answer."},
    {"ignore_eos", kGenerating, kBoolean, kHonoured, "false", "Go on past the model's end tokens."},
    {"repetition_detection", kGenerating, kObject, kHonoured, "",
     "End the answer (finish_reason stop, stop_reason repetition) when it ends with the same "
     "tokens "
     "several times in a row."},
    {"repetition_detection.max_pattern_size", kGenerating, kInteger, kHonoured, "",
     "Most tokens of what is repeated; 0: never.", 0, 1024},
    {"repetition_detection.min_pattern_size", kGenerating, kInteger, kHonoured, "1",
     "Fewest tokens of what is repeated.", 0},
    {"repetition_detection.min_count", kGenerating, kInteger, kHonoured, "",
     "How often in a row; at least 2.", 0},
    {"logprobs", kC, kBoolean, kHonoured, "false", "Log-probability of each token."},
    {"top_logprobs", kC, kInteger, kHonoured, "0",
     "With logprobs: also those of so many most probable tokens.", 0, 20},
    {"logprobs", kT, kInteger, kHonoured, "",
     "Log-probability of each token and of so many most probable ones.", 0, 20},
    {"logprob_token_ids", kGenerating, kArray, kHonoured, "",
     "With logprobs: those of these tokens (at most 128) instead of the most probable ones."},
    {"prompt_logprobs", kGenerating, kInteger, kHonoured, "",
     "Log-probability of each of the prompt's tokens and of so many most probable ones there; not "
     "with stream.",
     0, 20},
    {"echo", kT, kBoolean, kHonoured, "false",
     "Begin the answer with the prompt; with logprobs those of its tokens too."},
    {"echo", kC, kBoolean, kHonoured, "false",
     "Begin the answer with the last message, if that is the assistant's."},
    {"return_token_ids", kGenerating, kBoolean, kHonoured, "false",
     "Also the ids of the prompt's and of the answer's tokens."},
    {"return_tokens_as_token_ids", kGenerating, kBoolean, kHonoured, "false",
     "Log-probabilities name tokens as token_id:ID."},
    {"return_prompt_text", kC, kBoolean, kHonoured, "false",
     "Also the prompt as the model reads it (prompt_text), control tokens included."},
    {"show_expert_trace", kGenerating, kBoolean, kHonoured, "false",
     "Also which experts of each layer computed the answer (expert_trace)."},
    {"skip_special_tokens", kGenerating, kBoolean, kHonoured, "true",
     "Leave control tokens out of the text."},
    {"request_id", kGenerating, kString, kHonoured, "",
     "Becomes part of the answer's id; the header X-Request-Id wins."},
    {"priority", kGenerating, kInteger, kHonoured, "0",
     "Place in the queue: lower goes first, then who came first."},
    {"cache_salt", kGenerating, kString, kHonoured, "",
     "Share computed prefixes with requests of the same salt alone; 1 to 256 bytes."},
    {"timeout", kGenerating, kNumber, kHonoured, "",
     "Seconds in which the answer must be complete; then it ends with an error (504).", 0, 86400,
     true},
    {"response_format", kGenerating, kObject, kHonoured, "", "The form of the answer."},
    {"response_format.type", kGenerating, kString, kHonoured, "",
     "text: any; json_object: a JSON object; json_schema: what json_schema.schema describes."},
    {"response_format.json_schema", kGenerating, kObject, kHonoured, "",
     "schema: a JSON Schema (see Forms of answers for its keywords). name, description and strict "
     "are not needed."},
    {"structured_outputs", kGenerating, kObject, kHonoured, "",
     "vLLM's way to say the form of the answer; one of its members."},
    {"structured_outputs.json", kGenerating, kAny, kHonoured, "",
     "A JSON Schema, or the same as a string."},
    {"structured_outputs.regex", kGenerating, kString, kHonoured, "",
     "A regular expression that the whole answer matches."},
    {"structured_outputs.choice", kGenerating, kArray, kHonoured, "",
     "Strings, one of which is the answer."},
    {"structured_outputs.grammar", kGenerating, kString, kHonoured, "",
     "A grammar in GBNF (root ::= ...)."},
    {"structured_outputs.json_object", kGenerating, kBoolean, kHonoured, "false",
     "Any JSON object."},
    {"structured_outputs.disable_fallback", kGenerating, kBoolean, kAccepted, "",
     "There is one way to do it."},
    {"structured_outputs.disable_additional_properties", kGenerating, kBoolean, kAccepted, "",
     "Members that are not described come only where the schema says so."},
    {"structured_outputs.disable_any_whitespace", kGenerating, kBoolean, kUnsupported, "false",
     "White space is bounded in any case."},
    {"structured_outputs.whitespace_pattern", kGenerating, kString, kUnsupported, "",
     "White space is bounded in any case."},
    {"structured_outputs.structural_tag", kGenerating, kAny, kUnsupported, "",
     "A grammar can say the same."},
    {"guided_json", kGenerating, kAny, kHonoured, "", "The older name of structured_outputs.json."},
    {"guided_regex", kGenerating, kString, kHonoured, "",
     "The older name of structured_outputs.regex."},
    {"guided_choice", kGenerating, kArray, kHonoured, "",
     "The older name of structured_outputs.choice."},
    {"guided_grammar", kGenerating, kString, kHonoured, "",
     "The older name of structured_outputs.grammar."},

    {"add_special_tokens", kC, kBoolean, kHonoured, "false",
     "Begin with the tokens that the tokenizer puts before a text; chat templates write them."},
    {"add_special_tokens", kT | kK, kBoolean, kHonoured, "",
     "Begin with the tokens that the tokenizer puts before a text. Default: true for a prompt, "
     "false for messages."},
    {"add_generation_prompt", kC | kK, kBoolean, kHonoured, "true",
     "End the prompt with the beginning of an assistant turn."},
    {"continue_final_message", kC | kK, kBoolean, kHonoured, "false",
     "End the prompt with the last message's text, for the model to go on with; not with "
     "add_generation_prompt."},
    {"chat_template", kC | kK, kString, kHonoured, "",
     "A chat template for this request; needs the server's flag --trust-request-chat-template."},
    {"chat_template_kwargs", kC | kK, kObject, kHonoured, "",
     "More variables for the chat template."},
    {"truncate_prompt_tokens", kGenerating, kInteger, kHonoured, "",
     "Drop the beginning of a prompt that has more tokens than this; -1: than fit.", -1},
    {"truncation_side", kGenerating, kString, kHonoured, "\"left\"",
     "With truncate_prompt_tokens: right drops the end instead."},
    {"documents", kC, kArray, kHonoured, "", "Documents for the chat template (retrieval)."},
    {"reasoning_effort", kC, kString, kHonoured, "", "Handed to the chat template."},
    {"tools", kC, kArray, kHonoured, "[]",
     "Functions that the model may call: {\"type\": \"function\", \"function\": {\"name\": ...}}."},
    {"tools", kK, kArray, kHonoured, "[]", "Handed to the chat template."},
    {"tool_choice", kC, kStringOrObject, kHonoured, "\"auto\"",
     "auto: the model may call tools; none: calls are not read out of the answer; required, or a "
     "function by name: the answer is a call, from its first token."},
    {"parallel_tool_calls", kC, kBoolean, kHonoured, "true",
     "false: of the calls in an answer only the first is told."},
    {"include_reasoning", kC, kBoolean, kHonoured, "true", "false: reasoning is not told."},

    {"user", kGenerating, kString, kAccepted, "", "Not used."},
    {"safety_identifier", kC, kString, kAccepted, "", "Not used."},
    {"metadata", kC, kObject, kAccepted, "", "Not used."},
    {"store", kC, kBoolean, kAccepted, "", "Nothing is ever stored."},
    {"service_tier", kC, kString, kAccepted, "", "There is one tier."},
    {"prompt_cache_key", kC, kString, kAccepted, "", "Not used."},
    {"prompt_cache_retention", kC, kString, kAccepted, "", "Not used."},
    {"prediction", kC, kObject, kAccepted, "", "A hint that changes no answer."},
    {"session_id", kGenerating, kString, kAccepted, "", "Not used."},
    {"spaces_between_special_tokens", kGenerating, kBoolean, kAccepted, "",
     "No spaces are ever added."},

    {"suffix", kT, kString, kUnsupported, "", "Models here go on from a text; they fill no gaps."},
    {"use_beam_search", kGenerating, kBoolean, kUnsupported, "false",
     "There is no beam search; best_of chooses among drawn answers."},
    {"length_penalty", kGenerating, kNumber, kUnsupported, "1", "It belongs to beam search."},
    {"watermarking", kGenerating, kAny, kUnsupported, "false", "Answers carry no watermark."},
    {"prompt_embeds", kT, kAny, kUnsupported, "", "Prompts are text or token ids."},
    {"functions", kC, kArray, kUnsupported, "[]", "The old form of tools."},
    {"function_call", kC, kStringOrObject, kUnsupported, "\"none\"",
     "The old form of tool_choice."},
    {"thinking_token_budget", kC, kInteger, kUnsupported, "", "Most tokens of reasoning."},
    {"kv_transfer_params", kGenerating, kObject, kUnsupported, "",
     "Prompts and answers are computed on one server."},
    {"vllm_xargs", kGenerating, kObject, kUnsupported, "{}", "There are no plugins."},
    {"modalities", kC, kArray, kUnsupported, "[\"text\"]", "Answers are text."},
    {"audio", kC, kObject, kUnsupported, "", "Answers are text."},
    {"web_search_options", kC, kObject, kUnsupported, "", "There is no web search."},
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
    const bool is_number = field.kind == kInteger && value.is_double();
    // An integer that no int64 holds was read as a double.
    const bool is_huge = is_number && std::abs(value.AsDouble()) > kExactDouble;
    return InvalidArgument(StrCat("`", field.name, "` must be ", Wanted(field.kind),
                                  is_huge ? " of at most 64 bits" : "", ", not ",
                                  is_number ? Shown(value) : value.KindName()),
                           std::string(field.name));
  }
  if (field.kind == kInteger || field.kind == kNumber)
    ERNE_RETURN_IF_ERROR(CheckRange(field, value));
  if (field.use == kUnsupported && !IsNeutral(field, value)) {
    return InvalidArgument(StrCat("`", field.name, "` is not supported: leave it out. ", field.doc),
                           std::string(field.name));
  }
  return {};
}

// nullptr when the endpoint does not know `name`.
const RequestField* FindField(Endpoint endpoint, std::string_view name) {
  for (const RequestField& field : kFields) {
    if (field.IsFor(endpoint) && field.name == name) return &field;
  }
  return nullptr;
}

// The rows of the members of field `name`.
bool HasMemberRows(Endpoint endpoint, std::string_view name) {
  const std::string prefix = StrCat(name, ".");
  return std::any_of(std::begin(kFields), std::end(kFields), [&](const RequestField& field) {
    return field.IsFor(endpoint) && field.name.starts_with(prefix);
  });
}

Status CheckNamed(const Json& object, std::string_view prefix, Endpoint endpoint,
                  std::vector<std::string>& unknown) {
  for (const auto& [name, value] : object.AsObject()) {
    const std::string full = StrCat(prefix, name);
    // A dot in a member's own name means no member of a member.
    const bool dotted = name.find('.') != std::string::npos;
    const RequestField* known = dotted ? nullptr : FindField(endpoint, full);
    if (known == nullptr) {
      unknown.push_back(full);
    } else if (!value.is_null()) {
      ERNE_RETURN_IF_ERROR(CheckField(*known, value));
      if (value.is_object() && HasMemberRows(endpoint, full)) {
        ERNE_RETURN_IF_ERROR(CheckNamed(value, full + ".", endpoint, unknown));
      }
    }
  }
  return {};
}

}  // namespace

std::span<const RequestField> RequestFields() { return kFields; }

Status CheckFields(const Json& body, Endpoint endpoint, std::vector<std::string>& unknown) {
  return CheckNamed(body, "", endpoint, unknown);
}

Result<Json> ParseBody(std::string_view body, Endpoint endpoint,
                       std::vector<std::string>& unknown) {
  ERNE_ASSIGN_OR_RETURN(Json json, Json::Parse(body));
  if (!json.is_object()) {
    return InvalidArgument(StrCat("the body must be a JSON object, not ", json.KindName()));
  }
  ERNE_RETURN_IF_ERROR(CheckFields(json, endpoint, unknown));
  // Nobody has looked at these: they must not be read by code that endpoints share.
  std::erase_if(json.AsObject(), [endpoint](const Json::Member& member) {
    return FindField(endpoint, member.first) == nullptr;
  });
  return json;
}

const Json* Given(const Json& body, std::string_view name) {
  const Json* value = body.Find(name);
  return value == nullptr || value->is_null() ? nullptr : value;
}

bool IsWhole(const Json& value) {
  if (value.is_int()) return true;
  return value.is_double() && std::trunc(value.AsDouble()) == value.AsDouble() &&
         std::abs(value.AsDouble()) <= kExactDouble;
}

std::optional<int32_t> TokenId(const Json& value) {
  if (!IsWhole(value) || WholeValue(value) < 0 ||
      WholeValue(value) > std::numeric_limits<int32_t>::max()) {
    return std::nullopt;
  }
  return static_cast<int32_t>(WholeValue(value));
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
