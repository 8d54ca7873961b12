#include "api/generation.h"

#include <algorithm>
#include <memory>
#include <string_view>
#include <utility>

#include "api/bad_words.h"
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

Status Overflow(const PromptLimit& limit, int64_t context, int64_t prompt, bool at_least) {
  const uint64_t both = static_cast<uint64_t>(prompt) + static_cast<uint64_t>(limit.completion);
  const char* bound = at_least ? "at least " : "";
  return InvalidArgument(
      StrCat("This model's maximum context length is ", context, " tokens. However, you requested ",
             bound, both, " tokens (", bound, prompt, " in the messages, ", limit.completion,
             " in the completion). Please reduce the length of the messages or completion."),
      prompt >= context ? limit.prompt_field : limit.completion_field);
}

Status CheckVocabulary(const std::vector<int32_t>& tokens, int64_t vocab_size,
                       std::string_view field) {
  for (const int32_t token : tokens) {
    if (token >= 0 && token < vocab_size) continue;
    return FieldFault(field, StrCat("must hold ids below ", vocab_size, ", not ", token));
  }
  return {};
}

void ResolveSampling(const RequestOptions& options, const GenerationDefaults& defaults,
                     SamplingParams& params) {
  const auto pick = [](auto& to, const auto& asked, const auto& by_model) {
    if (asked) {
      to = *asked;
    } else if (by_model) {
      to = *by_model;
    }
  };
  pick(params.temperature, options.temperature, defaults.temperature);
  pick(params.top_p, options.top_p, defaults.top_p);
  pick(params.top_k, options.top_k, defaults.top_k);
  pick(params.min_p, options.min_p, defaults.min_p);
  pick(params.repetition_penalty, options.repetition_penalty, defaults.repetition_penalty);
  if (params.temperature < kGreedyTemperature) params.temperature = 0;
  params.presence_penalty = options.presence_penalty;
  params.frequency_penalty = options.frequency_penalty;
  params.logit_bias = options.logit_bias;
  params.allowed_tokens = options.allowed_token_ids;
  params.logprobs = options.logprobs;
  params.logprob_tokens = options.logprob_token_ids;
  // The best of several answers is found by the log-probabilities of their tokens.
  if (options.best_of > options.choices) params.logprobs = std::max(params.logprobs, 0);
  params.seed = options.seed.value_or(0);
}

bool BeginsWith(const std::vector<int32_t>& tokens, const std::vector<int32_t>& prefix) {
  return tokens.size() >= prefix.size() && std::equal(prefix.begin(), prefix.end(), tokens.begin());
}

// Cuts what a template wrote behind the last message's text, which may be stripped in it; where it
// is not, the white space at its end stays (as in transformers).
Status EndWithMessage(const std::string& message, std::vector<TextPiece>& pieces) {
  // A short message may occur in what the template itself wrote: that is not looked at.
  constexpr char kNotLookedAt = '\xff';  // in no UTF-8
  std::string rendered;
  for (const TextPiece& piece : pieces) {
    rendered += piece.trusted ? std::string(piece.text.size(), kNotLookedAt) : piece.text;
  }
  const std::string_view stripped = Strip(message);
  const size_t begin = rendered.rfind(stripped);
  if (begin == std::string::npos) {
    return FieldFault("continue_final_message",
                      "cannot be done: the chat template does not write the last message's text");
  }
  const std::string_view with_end =
      std::string_view(message).substr(static_cast<size_t>(stripped.data() - message.data()));
  const bool keeps_end = std::string_view(rendered).substr(begin).starts_with(with_end);
  size_t left = begin + (keeps_end ? with_end.size() : stripped.size());
  for (TextPiece& piece : pieces) {
    if (piece.text.size() > left) piece.text.resize(left);
    left -= piece.text.size();
  }
  return {};
}

// The model's template, or one that the request brings, which is made into `own`.
Result<const ChatTemplate*> FindTemplate(const Conversation& conversation, const ServedModel& model,
                                         std::unique_ptr<const ChatTemplate>& own) {
  if (conversation.chat_template.empty()) return model.chat_template.get();
  if (!model.takes_request_templates) {
    return FieldFault("chat_template",
                      "is taken by a server with --trust-request-chat-template alone");
  }
  Result<std::unique_ptr<const ChatTemplate>> compiled =
      ChatTemplate::Compile(conversation.chat_template);
  if (!compiled.ok()) return FieldFault("chat_template", compiled.status().message());
  own = *std::move(compiled);
  return own.get();
}

// Drops what `options` allows to drop of a prompt that is too long.
Status Truncate(const RequestOptions& options, const PromptLimit& limit, int64_t context,
                std::vector<int32_t>& prompt) {
  if (!options.truncate_prompt_tokens) return {};
  int64_t most = *options.truncate_prompt_tokens;
  if (most > context) {
    return FieldFault("truncate_prompt_tokens",
                      StrCat("must be at most ", context, ", the context length, not ", most));
  }
  if (most == RequestOptions::kAsFits) most = std::max<int64_t>(1, context - limit.completion);
  const auto excess = static_cast<int64_t>(prompt.size()) - most;
  if (excess <= 0) return {};
  const auto first = options.truncate_end ? prompt.end() - excess : prompt.begin();
  prompt.erase(first, first + excess);
  return {};
}

std::vector<std::string> TextsOfTokens(const Tokenizer& tokenizer, int64_t most) {
  std::vector<std::string> texts;
  const int64_t tokens = std::min(tokenizer.vocab_size(), most);
  for (int32_t token = 0; token < static_cast<int32_t>(tokens); ++token) {
    texts.push_back(tokenizer.IsSpecial(token) ? "" : tokenizer.TokenBytes(token));
  }
  return texts;
}

// Those who ask for the prompt alone get no answer that could have a form.
Status SetGrammar(const RequestOptions& options, const ModelFacts& facts,
                  GenerationRequest& generation) {
  if (!options.form || options.max_tokens == 0) return {};
  Result<std::shared_ptr<const grammar::CompiledGrammar>> compiled =
      facts.grammars->Compile(options.form->form);
  if (!compiled.ok()) {
    return FieldFault(options.form->field, StrCat("cannot be used: ", compiled.status().message()));
  }
  generation.grammar = *std::move(compiled);
  return {};
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
  facts.grammars = std::make_shared<grammar::GrammarCompiler>(
      [tokenizer = model.tokenizer.get(), width = model.engine->spec().vocab_size] {
        return TextsOfTokens(*tokenizer, width);
      },
      model.engine->spec().vocab_size);
  return facts;
}

Result<std::vector<TextPiece>> RenderConversation(const Conversation& conversation,
                                                  const ServedModel& model) {
  Json trusted = model.template_variables;
  trusted.Set("add_generation_prompt", conversation.add_generation_prompt);
  Json untrusted = conversation.template_variables;
  untrusted.Set("messages", conversation.messages);
  // Null when absent, as transformers has it: templates ask `tools is not none`.
  untrusted.Set("tools", conversation.tools);
  untrusted.Set("documents", conversation.documents);
  std::unique_ptr<const ChatTemplate> own;
  ERNE_ASSIGN_OR_RETURN(const ChatTemplate* chat_template, FindTemplate(conversation, model, own));
  Result<std::vector<TextPiece>> pieces = chat_template->Render(trusted, untrusted);
  if (!pieces.ok()) {
    const Status& status = pieces.status();
    return Status(status.code(), status.message(),
                  status.param().empty() ? "messages" : status.param());
  }
  if (conversation.continue_final_message) {
    const Json& last = conversation.messages.AsArray().back();
    ERNE_RETURN_IF_ERROR(EndWithMessage(last.Find("content")->AsString(), *pieces));
  }
  return pieces;
}

Result<std::vector<int32_t>> EncodePrompt(std::span<const TextPiece> pieces, bool add_special,
                                          const PromptLimit& limit, const ServedModel& model,
                                          const ModelFacts& facts) {
  const int64_t context = model.engine->max_context();
  size_t bytes = 0;
  for (const TextPiece& piece : pieces) bytes += piece.text.size();
  const auto fewest_tokens = static_cast<int64_t>(bytes / kMaxShrinking) / facts.longest_token;
  if (bytes > kMeasuredBytes && fewest_tokens > context) {
    return Overflow(limit, context, fewest_tokens, /*at_least=*/true);
  }
  std::vector<int32_t> tokens = model.tokenizer->Encode(pieces);
  if (add_special && !BeginsWith(tokens, model.prompt_prefix)) {
    tokens.insert(tokens.begin(), model.prompt_prefix.begin(), model.prompt_prefix.end());
  }
  return tokens;
}

Result<GenerationRequest> MakeGeneration(const RequestOptions& options, const ServedModel& model,
                                         const ModelFacts& facts) {
  const int64_t vocab_size = model.engine->spec().vocab_size;
  ERNE_RETURN_IF_ERROR(CheckVocabulary(options.stop_token_ids, vocab_size, "stop_token_ids"));
  GenerationRequest generation;
  ResolveSampling(options, model.defaults, generation.sampling);
  generation.sampling.bad_words = EncodeBadWords(options.bad_words, *model.tokenizer);
  ERNE_RETURN_IF_ERROR(ValidateSampling(generation.sampling, vocab_size));
  generation.priority = options.priority;
  generation.cache_salt = options.cache_salt;
  generation.prompt_logprobs = options.prompt_logprobs;
  generation.timeout_ms = options.timeout_ms;
  generation.route_trace = options.show_expert_trace;
  generation.min_tokens = options.min_tokens;
  generation.stop_tokens = options.stop_token_ids;
  if (!options.ignore_eos) {
    generation.stop_tokens.insert(generation.stop_tokens.end(), facts.end_tokens.begin(),
                                  facts.end_tokens.end());
  }
  ERNE_RETURN_IF_ERROR(SetGrammar(options, facts, generation));
  if (options.repetition) {
    generation.repetition = *options.repetition;
  } else if (!options.max_tokens && !options.ignore_eos) {
    generation.repetition = kOpenEndedRepetition;
  }
  return generation;
}

Status SetPrompt(std::vector<int32_t> prompt, const RequestOptions& options,
                 int64_t default_max_tokens, const PromptLimit& limit, const ServedModel& model,
                 GenerationRequest& generation) {
  const int64_t context = model.engine->max_context();
  ERNE_RETURN_IF_ERROR(Truncate(options, limit, context, prompt));
  const auto length = static_cast<int64_t>(prompt.size());
  if (length == 0) {
    return InvalidArgument(StrCat("the prompt is empty: `", limit.prompt_field, "` gives no token"),
                           limit.prompt_field);
  }
  ERNE_RETURN_IF_ERROR(
      CheckVocabulary(prompt, model.engine->spec().vocab_size, limit.prompt_field));
  if (limit.completion > context - length) {
    return Overflow(limit, context, length, /*at_least=*/false);
  }
  const int64_t max_tokens =
      options.max_tokens.value_or(std::min(default_max_tokens, context - length));
  if (generation.min_tokens > max_tokens) {
    return FieldFault("min_tokens", StrCat("must be at most `", options.max_tokens_field, "` (",
                                           max_tokens, "), not ", generation.min_tokens));
  }
  generation.max_tokens = std::max<int64_t>(1, max_tokens);
  generation.prompt = std::move(prompt);
  return {};
}

Result<GenerationRequest> MakeChatGeneration(const ChatRequest& request, const ServedModel& model,
                                             const ModelFacts& facts) {
  const RequestOptions& options = request.options;
  const Conversation& conversation = request.conversation;
  const PromptLimit limit = {.completion = options.max_tokens.value_or(1),
                             .prompt_field = "messages",
                             .completion_field = options.max_tokens_field};
  ERNE_ASSIGN_OR_RETURN(GenerationRequest generation, MakeGeneration(options, model, facts));
  ERNE_ASSIGN_OR_RETURN(const std::vector<TextPiece> pieces,
                        RenderConversation(conversation, model));
  ERNE_ASSIGN_OR_RETURN(std::vector<int32_t> tokens,
                        EncodePrompt(pieces, conversation.add_special_tokens, limit, model, facts));
  ERNE_RETURN_IF_ERROR(SetPrompt(std::move(tokens), options,
                                 model.defaults.max_tokens.value_or(model.engine->max_context()),
                                 limit, model, generation));
  return generation;
}

}  // namespace erne
