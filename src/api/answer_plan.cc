#include "api/answer_plan.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "base/strings.h"

namespace erne {
namespace {

// What the answers tell of a prompt; null: nothing.
std::shared_ptr<const ToldPrompt> Told(const AnswerPlan::Prompt& prompt,
                                       const RequestOptions& options, const Tokenizer& tokenizer) {
  if (!options.return_token_ids && !options.return_prompt_text) return nullptr;
  auto told = std::make_shared<ToldPrompt>();
  const std::vector<int32_t>& tokens = prompt.generation.prompt;
  if (options.return_token_ids) told->token_ids = tokens;
  if (options.return_prompt_text) told->text = tokenizer.Decode(tokens, /*skip_special=*/false);
  return told;
}

// Whether the model begins in its reasoning, because the prompt has opened it.
bool OpensReasoning(const std::vector<int32_t>& prompt, const Tokenizer& tokenizer) {
  constexpr size_t kTokens = 16;  // that hold "<think>" and a line break, whatever the tokenizer
  const size_t count = std::min(prompt.size(), kTokens);
  const std::string end =
      tokenizer.Decode({prompt.end() - static_cast<std::ptrdiff_t>(count), prompt.end()},
                       /*skip_special=*/false);
  return Strip(end).ends_with("<think>");
}

// The markers that the tokenizer has as control tokens.
std::vector<int32_t> MarkerTokens(const AnswerMarkup& markup, const Tokenizer& tokenizer) {
  std::vector<int32_t> tokens;
  for (const std::string_view marker : AnswerMarkers(markup)) {
    if (const auto token = tokenizer.PieceId(marker)) tokens.push_back(*token);
  }
  return tokens;
}

}  // namespace

AnswerSessionOptions SessionOptions(const AnswerPlan& plan, const ModelFacts& facts,
                                    const ServedModel& model) {
  const RequestOptions& options = plan.options;
  AnswerSessionOptions session = {
      .drawn = options.best_of,
      .sent = options.choices,
      .stop = options.stop,
      .min_tokens = options.min_tokens,
      .include_stop = options.include_stop,
      .primary_end_token = facts.end_tokens.empty() ? -1 : facts.end_tokens.front(),
      .skip_special_tokens = options.skip_special_tokens,
      .logprobs = options.logprobs,
      .prompt_logprobs = options.prompt_logprobs,
      .token_ids = options.return_token_ids,
      .traced = options.show_expert_trace ? &model.engine->spec() : nullptr,
      .prompt_only = options.max_tokens == 0,
      .stream = options.stream,
      .include_usage = options.include_usage,
      .continuous_usage = options.continuous_usage,
      .stream_interval = options.stream_interval,
      .parser = plan.parser,
      .hides_reasoning = plan.hides_reasoning,
      .one_call = plan.one_call};
  if (plan.parser) session.markers = MarkerTokens(plan.parser->markup, *model.tokenizer);
  for (const AnswerPlan::Prompt& prompt : plan.prompts) {
    const auto tokens = static_cast<int64_t>(prompt.generation.prompt.size());
    session.prompt_tokens += tokens;
    const std::shared_ptr<const ToldPrompt> told = Told(prompt, options, *model.tokenizer);
    for (int64_t i = 0; i < options.best_of; ++i) {
      session.choices.push_back(
          {.prompt_tokens = tokens, .echo = prompt.echo, .told = told, .counts_prompt = i == 0});
    }
  }
  return session;
}

LogprobWriter LogprobsFor(const RequestOptions& options, const ServedModel& model) {
  return {*model.tokenizer, options.skip_special_tokens, options.return_tokens_as_token_ids};
}

std::optional<AnswerParserOptions> ParserOf(const ChatRequest& chat,
                                            const GenerationRequest& generation,
                                            const ServedModel& model) {
  AnswerParserOptions parser{.markup = model.answer_markup};
  if (chat.forces_calls) parser.markup = {.tool_calls = ToolCallForm::kJson};
  if (!chat.reads_calls) parser.markup.tool_calls = ToolCallForm::kNone;
  const bool reads_calls = parser.markup.tool_calls != ToolCallForm::kNone;
  if (!reads_calls && !parser.markup.reasoning && !parser.markup.response_tags) return std::nullopt;
  parser.in_reasoning =
      parser.markup.reasoning && OpensReasoning(generation.prompt, *model.tokenizer);
  if (reads_calls) {
    for (const Json& tool : chat.conversation.tools.AsArray()) {
      parser.tools.push_back(tool.Find("function")->Find("name")->AsString());
    }
  }
  return parser;
}

std::shared_ptr<const Echo> EchoOf(const ChatRequest& chat) {
  const Json& last = chat.conversation.messages.AsArray().back();
  if (!chat.echo || *last.Find("role") != Json("assistant")) return nullptr;
  return std::make_shared<Echo>(Echo{.text = last.Find("content")->AsString()});
}

}  // namespace erne
