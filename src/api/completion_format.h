// Answers of /v1/completions.
#pragma once

#include <string>
#include <string_view>

#include "api/answer_format.h"

namespace erne {

class CompletionFormat : public AnswerFormat {
 public:
  // `created` in seconds since the epoch.
  CompletionFormat(std::string id, int64_t created, std::string model, LogprobWriter logprobs);

  std::string BeginFrame(int64_t index, const ToldPrompt* prompt,
                         const std::optional<Usage>& usage) const override;
  std::string DeltaFrame(int64_t index, const AnswerDelta& delta,
                         const std::optional<Usage>& usage) const override;
  std::string FinishFrame(int64_t index, const ChoiceEnd& end,
                          const std::optional<Usage>& usage) const override;

 private:
  // A choice up to the value of finish_reason.
  void AppendOpened(int64_t index, const AnswerDelta& delta, std::string& out) const;
  void AppendChoice(int64_t index, const WholeChoice& choice, std::string& out) const override;
  void AppendLastMembers(const std::vector<WholeChoice>& choices, std::string& out) const override;

  const LogprobWriter logprobs_;
};

}  // namespace erne
