// Shared by the engine's tests: requests to and answers from an engine over the fake executor.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "engine/engine.h"
#include "engine/fake_executor.h"
#include "sampling/sampler.h"

namespace erne {

struct Answer {
  std::vector<int32_t> tokens;
  std::optional<FinishReason> finish;
  int32_t stop_token = -1;
  Status error;
};

inline Answer ToAnswer(const std::vector<TokenEvent>& events) {
  Answer answer;
  for (const TokenEvent& event : events) {
    if (event.token >= 0) answer.tokens.push_back(event.token);
    answer.finish = event.finish;
    answer.stop_token = event.stop_token;
    answer.error = event.error;
  }
  return answer;
}

// Waits for the last event.
inline Answer WaitForAnswer(TokenStream& stream) {
  std::vector<TokenEvent> events;
  while (events.empty() || !events.back().finish.has_value()) stream.WaitAndTake(events);
  return ToAnswer(events);
}

// What the engine has to answer, computed in the obvious way: one request, one token at a time, no
// engine.
inline Answer ExpectedAnswer(const GenerationRequest& request, int64_t vocab_size) {
  Answer answer;
  SamplerScratch scratch(vocab_size);
  RequestSampler sampler(request.sampling, vocab_size, request.prompt);
  std::vector<int32_t> tokens = request.prompt;
  while (!answer.finish.has_value()) {
    SamplePoint point{.position = tokens.size(), .output = answer.tokens};
    if (static_cast<int64_t>(answer.tokens.size()) < request.min_tokens)
      point.bans.banned = request.stop_tokens;
    const int32_t token =
        sampler.Sample(FakeExecutor::LogitsAfter(tokens, vocab_size), point, scratch).value().token;
    tokens.push_back(token);
    sampler.Accept(token);
    answer.tokens.push_back(token);
    for (const int32_t stop : request.stop_tokens) {
      if (token != stop) continue;
      answer.finish = FinishReason::kStop;
      answer.stop_token = token;
    }
    if (!answer.finish.has_value() &&
        static_cast<int64_t>(answer.tokens.size()) == request.max_tokens) {
      answer.finish = FinishReason::kLength;
    }
  }
  return answer;
}

inline std::shared_ptr<TokenStream> MakeStream() { return std::make_shared<TokenStream>(nullptr); }

inline std::unique_ptr<Engine> MakeEngine(const FakeExecutorOptions& executor,
                                          const EngineOptions& options) {
  return std::make_unique<Engine>(std::make_unique<FakeExecutor>(executor), options);
}

}  // namespace erne
