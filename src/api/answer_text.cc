#include "api/answer_text.h"

#include <algorithm>
#include <utility>

#include "base/utf8.h"

namespace erne {

AnswerText::AnswerText(const Tokenizer& tokenizer, const AnswerTextOptions& options,
                       int64_t characters)
    : tokenizer_(tokenizer),
      options_(options),
      detokenizer_(tokenizer, /*skip_special=*/false),  // Add decides
      matcher_(options.stop, options.include_stop),
      characters_(characters) {}

bool AnswerText::IsSkipped(int32_t token) const {
  const auto& kept = options_.markers;
  return options_.skip_special_tokens && tokenizer_.IsSpecial(token) &&
         std::find(kept.begin(), kept.end(), token) == kept.end();
}

AnswerText::Step AnswerText::Add(const TokenEvent& event) {
  Step step{.text = "", .text_offset = characters_};
  const bool stopped_by_token = event.finish == FinishReason::kStop && event.stop_token >= 0;
  const int32_t token = stopped_by_token ? event.stop_token : event.token;
  std::string text;
  if (token >= 0) {
    ++tokens_;
    step.shown = (!stopped_by_token || options_.include_stop) && !IsSkipped(token);
    if (step.shown) text = detokenizer_.Add(token);
  }
  characters_ += static_cast<int64_t>(CountUtf8(text));
  if (tokens_ <= options_.min_tokens) {
    step.text = std::move(text);  // nothing may stop it yet
  } else {
    step.text = matcher_.Add(text);
  }
  if (event.finish) step.text += matcher_.Flush();

  if (matcher_.matched()) {
    end_ = {FinishReason::kStop, *matcher_.matched()};
  } else if (event.finish) {
    end_.reason = *event.finish;
    if (stopped_by_token && token != options_.primary_end_token) {
      end_.stop_reason = static_cast<int64_t>(token);
    }
    if (event.finish == FinishReason::kRepetition) end_.stop_reason = "repetition";
  }
  ended_ = event.finish.has_value() || matcher_.matched().has_value();
  return step;
}

void AnswerText::EndEmpty(FinishReason reason) {
  end_.reason = reason;
  ended_ = true;
}

}  // namespace erne
