// The answers of /v1/chat/completions as text: one JSON object, or server-sent events. Member
// order, names and the members of each kind of chunk are those of vLLM's server.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/status.h"
#include "engine/request.h"

namespace erne {

struct Usage {
  int64_t prompt_tokens = 0;
  int64_t completion_tokens = 0;

  Json ToJson() const;
};

// How one choice ended.
struct ChoiceEnd {
  FinishReason reason = FinishReason::kStop;
  Json stop_reason;  // the stop string or the stop token id; null when an end token of the model or
                     // the length ended it
};

struct WholeChoice {
  std::string text;
  ChoiceEnd end;
};

// Writes one answer. Immutable; the frames of a stream each end with the blank line.
class ChatResponse {
 public:
  // `created` in seconds since the epoch.
  ChatResponse(std::string id, int64_t created, std::string model);

  // With `usage`, the chunk carries it (stream_options.continuous_usage_stats).
  std::string RoleChunk(int64_t index, const std::optional<Usage>& usage) const;
  std::string ContentChunk(int64_t index, std::string_view text,
                           const std::optional<Usage>& usage) const;
  std::string FinishChunk(int64_t index, const ChoiceEnd& end,
                          const std::optional<Usage>& usage) const;
  std::string UsageChunk(const Usage& usage) const;
  static std::string ErrorFrame(const Status& error);
  static std::string DoneFrame();

  std::string Whole(const std::vector<WholeChoice>& choices, const Usage& usage) const;

 private:
  std::string Chunk(int64_t index, std::string_view delta, std::string_view finish,
                    const std::optional<Usage>& usage) const;

  std::string id_;
  int64_t created_;
  std::string model_;
  std::string chunk_head_;  // `data: {"id":...,"object":...,"created":...,"model":...,"choices":[`
};

// "stop", "length" or "abort".
const char* FinishReasonName(FinishReason reason);

}  // namespace erne
