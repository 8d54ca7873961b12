#include "api/chat_generation.h"

#include <algorithm>

#include "base/strings.h"

namespace erne {
namespace {

// Below this a temperature means greedy: dividing by it would overflow (vLLM's threshold).
constexpr float kGreedyTemperature = 1e-5F;

// A prompt of more bytes than this is measured before it is tokenized; tokenizing a shorter one
// takes well under a second, and then the message has exact numbers.
constexpr size_t kMeasuredBytes = 4 * 1024 * 1024;
// Normalizing (NFC) may shorten a text before it is cut into tokens, by less than this factor.
constexpr size_t kMaxShrinking = 4;

Status Overflow(const ChatRequest& request, int64_t context, int64_t prompt, bool at_least) {
  const int64_t completion = request.max_tokens.value_or(1);
  const uint64_t both = static_cast<uint64_t>(prompt) + static_cast<uint64_t>(completion);
  const char* bound = at_least ? "at least " : "";
  return InvalidArgument(
      StrCat("This model's maximum context length is ", context, " tokens. However, you requested ",
             bound, both, " tokens (", bound, prompt, " in the messages, ", completion,
             " in the completion). Please reduce the length of the messages or completion."),
      prompt >= context ? "messages" : request.max_tokens_field);
}

Result<std::vector<TextPiece>> RenderPrompt(const ChatRequest& request, const ServedModel& model) {
  Json trusted = model.template_variables;
  trusted.Set("add_generation_prompt", request.add_generation_prompt);
  Json untrusted = request.template_variables;
  untrusted.Set("messages", request.messages);
  // Null when absent, as transformers has it: templates ask `tools is not none`.
  untrusted.Set("tools", request.tools);
  untrusted.Set("documents", request.documents);
  Result<std::vector<TextPiece>> pieces = model.chat_template->Render(trusted, untrusted);
  if (pieces.ok()) return pieces;
  const Status& status = pieces.status();
  return Status(status.code(), status.message(),
                status.param().empty() ? "messages" : status.param());
}

SamplingParams ResolveSampling(const ChatRequest& request, const GenerationDefaults& defaults,
                               uint64_t fallback_seed) {
  SamplingParams params;  // OpenAI's defaults
  const auto pick = [](auto& to, const auto& asked, const auto& by_model) {
    if (asked) {
      to = *asked;
    } else if (by_model) {
      to = *by_model;
    }
  };
  pick(params.temperature, request.temperature, defaults.temperature);
  pick(params.top_p, request.top_p, defaults.top_p);
  pick(params.top_k, request.top_k, defaults.top_k);
  pick(params.repetition_penalty, request.repetition_penalty, defaults.repetition_penalty);
  if (params.temperature < kGreedyTemperature) params.temperature = 0;
  params.seed = request.seed.value_or(fallback_seed);
  return params;
}

}  // namespace

ModelFacts FindModelFacts(const ServedModel& model) {
  ModelFacts facts;
  facts.end_tokens = model.defaults.eos_tokens;
  for (const int32_t token : TurnEndTokens(model)) {
    if (std::find(facts.end_tokens.begin(), facts.end_tokens.end(), token) ==
        facts.end_tokens.end()) {
      facts.end_tokens.push_back(token);
    }
  }
  const auto vocab_size = static_cast<int32_t>(model.tokenizer->vocab_size());
  for (int32_t token = 0; token < vocab_size; ++token) {
    const auto bytes = static_cast<int64_t>(model.tokenizer->TokenBytes(token).size());
    facts.longest_token = std::max(facts.longest_token, bytes);
  }
  return facts;
}

Result<GenerationRequest> MakeGeneration(const ChatRequest& request, const ServedModel& model,
                                         const ModelFacts& facts, uint64_t fallback_seed) {
  const int64_t context = model.engine->max_context();
  const int64_t vocab_size = model.engine->spec().vocab_size;
  for (const int32_t token : request.stop_token_ids) {
    if (token >= vocab_size) {
      return InvalidArgument(
          StrCat("`stop_token_ids` must hold ids below ", vocab_size, ", not ", token),
          "stop_token_ids");
    }
  }

  ERNE_ASSIGN_OR_RETURN(const std::vector<TextPiece> pieces, RenderPrompt(request, model));
  size_t bytes = 0;
  for (const TextPiece& piece : pieces) bytes += piece.text.size();
  const auto fewest_tokens = static_cast<int64_t>(bytes / kMaxShrinking) / facts.longest_token;
  if (bytes > kMeasuredBytes && fewest_tokens > context) {
    return Overflow(request, context, fewest_tokens, /*at_least=*/true);
  }

  GenerationRequest generation;
  generation.prompt = model.tokenizer->Encode(pieces);
  const auto prompt = static_cast<int64_t>(generation.prompt.size());
  if (prompt == 0)
    return InvalidArgument("the prompt is empty: `messages` give no text", "messages");
  if (request.max_tokens.value_or(1) > context - prompt) {
    return Overflow(request, context, prompt, /*at_least=*/false);
  }
  for (const int32_t token : generation.prompt) {
    if (token < 0 || token >= vocab_size) {
      return Internal(
          StrCat("the tokenizer made id ", token, ", and the model knows ids below ", vocab_size));
    }
  }
  generation.max_tokens = request.max_tokens.value_or(context - prompt);
  generation.sampling = ResolveSampling(request, model.defaults, fallback_seed);
  generation.stop_tokens = request.stop_token_ids;
  if (!request.ignore_eos) {
    generation.stop_tokens.insert(generation.stop_tokens.end(), facts.end_tokens.begin(),
                                  facts.end_tokens.end());
  }
  return generation;
}

}  // namespace erne
