// Any bytes are a request or a fault that says why; never a crash, and never a request that breaks
// its own promises.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "api/chat_request.h"
#include "base/check.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::vector<std::string> unknown;
  const std::string_view body(reinterpret_cast<const char*>(data), size);
  const erne::Result<erne::ChatRequest> request = erne::ParseChatRequest(body, unknown);
  if (!request.ok()) {
    ERNE_CHECK(request.status().code() == erne::StatusCode::kInvalidArgument);
    ERNE_CHECK(!request.status().message().empty());
    return 0;
  }
  ERNE_CHECK(request->options.choices >= 1 && request->options.max_tokens.value_or(1) >= 1);
  ERNE_CHECK(request->options.temperature.value_or(1) >= 0 &&
             request->options.repetition_penalty.value_or(1) > 0);
  ERNE_CHECK(request->options.top_p.value_or(1) > 0 && request->options.top_p.value_or(1) <= 1);
  for (const erne::Json& message : request->conversation.messages.AsArray()) {
    ERNE_CHECK(message.Find("role")->is_string() && message.Find("content")->is_string());
  }
  return 0;
}
