#include "shake.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <utility>

#include "base/check.h"
#include "base/strings.h"
#include "cli/make_executor.h"
#include "kv/block_pool.h"

namespace erne::shake {
namespace {

constexpr int64_t kLongest = 160;  // tokens of a request: ten blocks
// Attention over so many is spread over threads, and joined; where the model has the positions.
constexpr int64_t kManySpans = 1100;
constexpr KvDType kKvTypes[] = {KvDType::kF32, KvDType::kBF16, KvDType::kF16, KvDType::kInt8};

std::vector<TokenEvent> WaitForEnd(TokenStream& stream) {
  std::vector<TokenEvent> events;
  while (events.empty() || !events.back().finish) stream.WaitAndTake(events);
  return events;
}

bool SameBits(float a, float b) { return std::bit_cast<uint32_t>(a) == std::bit_cast<uint32_t>(b); }

bool Same(const std::vector<TokenLogprob>& a, const std::vector<TokenLogprob>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const TokenLogprob& x, const TokenLogprob& y) {
                      return x.token == y.token && SameBits(x.logprob, y.logprob);
                    });
}

// Empty when they are the same. cached_tokens differs on purpose.
std::string Difference(const std::vector<TokenEvent>& got, const std::vector<TokenEvent>& want) {
  for (size_t i = 0; i < std::min(got.size(), want.size()); ++i) {
    const std::string where = StrCat("token ", i, ": ");
    if (!got[i].error.ok()) return StrCat(where, got[i].error.message());
    if (got[i].token != want[i].token) {
      return StrCat(where, "id ", got[i].token, " instead of ", want[i].token);
    }
    if (got[i].finish != want[i].finish || got[i].stop_token != want[i].stop_token) {
      return StrCat(where, "another end");
    }
    if (!Same(got[i].logprobs, want[i].logprobs)) return StrCat(where, "other log-probabilities");
    const auto& got_prompt = got[i].prompt_logprobs;
    const auto& want_prompt = want[i].prompt_logprobs;
    if (!std::equal(got_prompt.begin(), got_prompt.end(), want_prompt.begin(), want_prompt.end(),
                    Same)) {
      return "other log-probabilities of the prompt";
    }
  }
  if (got.size() == want.size()) return "";
  return StrCat(got.size(), " tokens instead of ", want.size());
}

}  // namespace

Round::Round(std::shared_ptr<const Model> model, uint32_t seed, const ShakeOptions& options)
    : model_(std::move(model)),
      options_(options),
      random_(seed),
      context_(std::min(Uniform(0, 7) == 0 ? kManySpans : kLongest, model_->spec.max_positions)),
      // The CUDA executor lacks the last one.
      kv_dtype_(kKvTypes[static_cast<size_t>(
          Uniform(0, std::ssize(kKvTypes) - (options.executor == "cuda" ? 2 : 1)))]) {
  for (int64_t i = Uniform(1, 3); i > 0; --i) {
    beginnings_.push_back(RandomTokens(Uniform(1, context_ * 2 / 3)));
  }
  for (int64_t i = Uniform(5, 10); i > 0; --i) requests_.push_back(RandomRequest());
}

int64_t Round::Uniform(int64_t low, int64_t high) {
  return std::uniform_int_distribution<int64_t>(low, high)(random_);
}

// From few different ids, so that what comes next has often come before.
std::vector<int32_t> Round::RandomTokens(int64_t count) {
  std::vector<int32_t> alphabet(static_cast<size_t>(Uniform(2, 12)));
  for (int32_t& id : alphabet) id = static_cast<int32_t>(Uniform(0, model_->spec.vocab_size - 1));
  std::vector<int32_t> tokens;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t at = Uniform(0, static_cast<int64_t>(alphabet.size()) - 1);
    tokens.push_back(alphabet[static_cast<size_t>(at)]);
  }
  return tokens;
}

GenerationRequest Round::RandomRequest() {
  GenerationRequest request;
  const int64_t which = Uniform(0, static_cast<int64_t>(beginnings_.size()) - 1);
  request.prompt = beginnings_[static_cast<size_t>(which)];
  const auto shared = static_cast<int64_t>(request.prompt.size());
  const std::vector<int32_t> own =
      RandomTokens(Uniform(0, std::min<int64_t>(24, context_ - shared - 2)));
  request.prompt.insert(request.prompt.end(), own.begin(), own.end());
  const int64_t room = context_ - static_cast<int64_t>(request.prompt.size());
  request.max_tokens = Uniform(1, std::min<int64_t>(room, 40));
  request.sampling.seed = random_();
  if (Uniform(0, 1) == 0) {
    request.sampling.temperature = 0;
  } else {
    request.sampling.temperature = 0.8F;
    request.sampling.top_p = 0.95F;
    request.sampling.top_k = static_cast<int32_t>(Uniform(0, 50));
  }
  if (Uniform(0, 3) == 0) request.sampling.repetition_penalty = 1.2F;
  if (Uniform(0, 2) == 0) request.sampling.logprobs = static_cast<int32_t>(Uniform(0, 3));
  if (Uniform(0, 4) == 0) request.prompt_logprobs = static_cast<int32_t>(Uniform(0, 2));
  if (Uniform(0, 4) == 0) request.cache_salt = "salt";
  request.priority = Uniform(-1, 1);
  return request;
}

std::unique_ptr<Engine> Round::MakeEngine(const ExecutorLimits& limits,
                                          const EngineOptions& options, int threads) const {
  ExecutorLimits all = limits;
  all.kv_dtype = kv_dtype_;
  Result<std::unique_ptr<Executor>> executor =
      MakeExecutor(options_.executor, model_, all, {.threads = threads, .precision = {}});
  ERNE_CHECK(executor.ok()) << executor.status().message();
  return std::make_unique<Engine>(std::move(executor).value(), options);
}

std::vector<Round::Answer> Round::AnswerAlone() const {
  ExecutorLimits limits;
  limits.max_rows = limits.max_logit_rows = limits.max_context = context_;
  limits.max_sequences = 1;
  limits.num_blocks = BlocksForTokens(context_);
  EngineOptions options;
  options.max_num_batched_tokens = context_;
  options.enable_prefix_caching = false;
  const std::unique_ptr<Engine> engine = MakeEngine(limits, options, 1);
  std::vector<Answer> answers;
  for (const GenerationRequest& request : requests_) {
    const auto stream = std::make_shared<TokenStream>(nullptr);
    const Status status = engine->Submit(request, stream);
    ERNE_CHECK(status.ok()) << status.message();
    answers.push_back({WaitForEnd(*stream)});
  }
  return answers;
}

// Few rows, few sequences, few blocks: prompts are cut, requests wait, and are preempted.
ExecutorLimits Round::ShakenLimits() {
  ExecutorLimits limits;
  limits.max_sequences = Uniform(2, 8);
  limits.max_rows = limits.max_sequences + Uniform(0, 60);
  limits.max_logit_rows = std::min(limits.max_rows, limits.max_sequences + Uniform(0, 12));
  limits.max_context = context_;
  limits.num_blocks = BlocksForTokens(context_) + Uniform(0, 4);
  return limits;
}

EngineOptions Round::ShakenOptions() {
  EngineOptions options;
  options.max_num_seqs = 64;  // as many as the executor takes
  options.max_num_batched_tokens = 64;
  options.enable_prefix_caching = Uniform(0, 5) > 0;
  options.speculation.max_draft_tokens = Uniform(0, 2) == 0 ? 0 : Uniform(1, 6);
  options.speculation.rule = {.max_ngram = 3, .min_ngram = 1};
  options.speculation.measured = false;
  return options;
}

// Twice each, in another order, so that the second ones find the first ones' prefixes; and others
// among them that are given up on the way.
std::string Round::AnswerTogether(Engine& engine, const std::vector<Answer>& expected,
                                  Events& events) {
  for (int wave = 0; wave < 2; ++wave) {
    std::vector<size_t> order(requests_.size());
    for (size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::shuffle(order.begin(), order.end(), random_);
    std::vector<std::shared_ptr<TokenStream>> streams(requests_.size());
    std::vector<std::shared_ptr<TokenStream>> unwanted;
    for (const size_t i : order) {
      streams[i] = std::make_shared<TokenStream>(nullptr);
      const Status status = engine.Submit(requests_[i], streams[i]);
      if (!status.ok()) return status.message();
      if (Uniform(0, 2) > 0) continue;
      unwanted.push_back(std::make_shared<TokenStream>(nullptr));
      const Status noise = engine.Submit(RandomRequest(), unwanted.back());
      if (!noise.ok()) return noise.message();
      if (Uniform(0, 1) == 0) unwanted.back()->Cancel();
    }
    for (const auto& stream : unwanted) {
      std::vector<TokenEvent> some;
      stream->WaitAndTake(some);
      stream->Cancel();
      if (some.empty() || !some.back().finish) ++events.cancelled;
    }
    for (size_t i = 0; i < streams.size(); ++i) {
      std::vector<TokenEvent> got = WaitForEnd(*streams[i]);
      if (options_.perturb && i == 0) got.front().token ^= 1;
      const std::string difference = Difference(got, expected[i].events);
      if (!difference.empty()) return StrCat("request ", i, ", wave ", wave, ", ", difference);
      ++events.requests;
    }
  }
  return "";
}

std::string Round::Run(Events& events) {
  const std::vector<Answer> expected = AnswerAlone();
  const ExecutorLimits limits = ShakenLimits();
  const std::unique_ptr<Engine> engine =
      MakeEngine(limits, ShakenOptions(), static_cast<int>(Uniform(1, 2)));
  std::string difference = AnswerTogether(*engine, expected, events);
  engine->Shutdown(60'000);
  const EngineStats stats = engine->stats();
  events.preemptions += stats.preemptions;
  events.prefix_hits += stats.prefix_hits;
  events.accepted_guesses += stats.accepted_tokens;
  events.rejected_guesses += stats.drafted_tokens - stats.accepted_tokens;
  if (difference.empty() && stats.kv_blocks_used != 0) {
    return StrCat(stats.kv_blocks_used, " blocks of the KV cache are not given back");
  }
  return difference;
}

}  // namespace erne::shake
