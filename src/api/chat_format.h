// Answers of /v1/chat/completions.
#pragma once

#include <string>
#include <string_view>

#include "api/answer_format.h"

namespace erne {

class ChatFormat : public AnswerFormat {
 public:
  // `created` in seconds since the epoch.
  ChatFormat(std::string id, int64_t created, std::string model, LogprobWriter logprobs);

  // The role, and what is told of the prompt.
  std::string BeginFrame(int64_t index, const ToldPrompt* prompt,
                         const std::optional<Usage>& usage) const override;
  std::string DeltaFrame(int64_t index, const AnswerDelta& delta,
                         const std::optional<Usage>& usage) const override;
  std::string FinishFrame(int64_t index, const ChoiceEnd& end,
                          const std::optional<Usage>& usage) const override;

 private:
  // Members of a frame or an answer, with their commas.
  static void AppendPrompt(const ToldPrompt& prompt, std::string& out);
  static void AppendReasoning(std::string_view reasoning, std::string& out);
  static void AppendCall(std::string_view id, std::string_view name, std::string_view arguments,
                         std::string& out);
  std::string TextFrame(int64_t index, const AnswerDelta& delta,
                        const std::optional<Usage>& usage) const;
  std::string CallFrame(int64_t index, const ToolCall& call, bool head,
                        const std::optional<Usage>& usage) const;
  void AppendLogprobs(const AnswerDelta& delta, std::string& out) const;
  void AppendChoice(int64_t index, const WholeChoice& choice, std::string& out) const override;
  void AppendLastMembers(const std::vector<WholeChoice>& choices, std::string& out) const override;

  const LogprobWriter logprobs_;
};

}  // namespace erne
