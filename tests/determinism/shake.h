// One round of the determinism test: the same requests are answered alone, one after the other, by
// an engine that shares nothing, guesses nothing and cuts nothing; then all together by an engine
// in which everything happens at once. Tokens, log-probabilities and reasons must be the same, bit
// for bit.
#pragma once

#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "model/model.h"

namespace erne::shake {

struct ShakeOptions {
  std::string executor = "cpu";
  bool perturb = false;  // changes one answer, so that the comparison is seen to fail
};

// What the shaken engines did: a round that preempts nobody proves nothing about preemption.
struct Events {
  int64_t requests = 0;
  int64_t preemptions = 0;
  int64_t prefix_hits = 0;
  int64_t accepted_guesses = 0;
  int64_t rejected_guesses = 0;
  int64_t cancelled = 0;
};

class Round {
 public:
  Round(std::shared_ptr<const Model> model, uint32_t seed, const ShakeOptions& options);

  // Empty when all answers are the same; else what differs.
  std::string Run(Events& events);

 private:
  struct Answer {
    std::vector<TokenEvent> events;
  };

  int64_t Uniform(int64_t low, int64_t high);
  std::vector<int32_t> RandomTokens(int64_t count);
  GenerationRequest RandomRequest();
  ExecutorLimits ShakenLimits();
  EngineOptions ShakenOptions();
  std::unique_ptr<Engine> MakeEngine(const ExecutorLimits& limits, const EngineOptions& options,
                                     int threads) const;
  std::vector<Answer> AnswerAlone() const;
  std::string AnswerTogether(Engine& engine, const std::vector<Answer>& expected, Events& events);

  const std::shared_ptr<const Model> model_;
  const ShakeOptions options_;
  std::mt19937 random_;
  int64_t context_;  // tokens of a request
  KvDType kv_dtype_;
  std::vector<std::vector<int32_t>> beginnings_;  // prompts share them
  std::vector<GenerationRequest> requests_;
};

}  // namespace erne::shake
