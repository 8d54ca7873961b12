// What requests to generate have in common, whatever form their prompt has: which model, how tokens
// are drawn, when answers end, and in which form they come back.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "api/answer_form.h"
#include "api/schema.h"
#include "base/json.h"
#include "base/status.h"
#include "sampling/params.h"
#include "sampling/repetition_detector.h"

namespace erne {

// Checked as far as that needs no model. An empty optional means: not said, the model's default.
struct RequestOptions {
  std::string model = {};  // "": not said
  std::string request_id = {};
  int64_t choices = 1;  // for each prompt
  int64_t best_of =
      1;  // answers that are drawn for each prompt, to send `choices` of: at least that

  std::optional<float> temperature = {};
  std::optional<float> top_p = {};
  std::optional<int32_t> top_k = {};
  std::optional<float> min_p = {};
  std::optional<float> repetition_penalty = {};
  float presence_penalty = 0;
  float frequency_penalty = 0;
  std::vector<LogitBias> logit_bias = {};
  std::vector<std::string> bad_words = {};
  std::vector<int32_t> allowed_token_ids = {};  // rising; empty: all
  std::optional<uint64_t> seed = {};
  int32_t logprobs = -1;         // -1: none; else those of so many most probable tokens too
  int32_t prompt_logprobs = -1;  // the same of the prompt's tokens
  std::vector<int32_t> logprob_token_ids = {};  // with logprobs: those of these tokens instead

  // Tokens that a prompt may have at most, kAsFits: so many as fit; absent: a long one is an error.
  static constexpr int64_t kAsFits = -1;
  std::optional<int64_t> truncate_prompt_tokens = {};
  bool truncate_end = false;  // drop the end of the prompt, not its beginning

  int64_t priority = 0;  // lower goes first
  std::string cache_salt = {};
  int64_t timeout_ms = 0;  // 0: none

  std::optional<int64_t> max_tokens = {};       // 0: the prompt alone (completions with echo)
  std::string max_tokens_field = "max_tokens";  // the field that said it, for messages
  int64_t min_tokens = 0;
  std::vector<std::string> stop = {};
  std::vector<int32_t> stop_token_ids = {};
  bool include_stop = false;
  bool ignore_eos = false;
  std::optional<RepetitionRule> repetition = {};  // not enabled when a request says: never

  // What the answer must match: also for those who want calls of a function, with their schema.
  std::optional<AnswerForm> form = {};

  bool skip_special_tokens = true;
  bool return_token_ids = false;            // of the prompt and the answer
  bool return_tokens_as_token_ids = false;  // in log-probabilities
  bool return_prompt_text = false;
  bool show_expert_trace = false;
  bool stream = false;
  bool include_usage = false;
  bool continuous_usage = false;
  int64_t stream_interval = 1;    // tokens in one chunk
  int64_t resumable_seconds = 0;  // 0: the stream ends with its connection
};

// Reads them out of a body that CheckFields has passed for `endpoint` (chat or completions). Faults
// are InvalidArguments with the field as param.
Result<RequestOptions> ReadRequestOptions(const Json& body, Endpoint endpoint);

// For the readers of what is left: a fault of a field, and members with what stands for an absent
// one.
Status FieldFault(std::string_view field, std::string_view what);
bool FlagMember(const Json& body, std::string_view name, bool fallback);
std::string TextMember(const Json& body, std::string_view name);

}  // namespace erne
