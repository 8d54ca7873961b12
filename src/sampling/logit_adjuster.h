// What a request does to its logits before a token is chosen from them, and what it has to remember
// for that: bans, biases and penalties.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sampling/params.h"

namespace erne {

// A set of token ids, as a bitmap over the vocabulary.
class TokenSet {
 public:
  explicit TokenSet(int64_t vocab_size) : words_(static_cast<size_t>((vocab_size + 63) / 64)) {}
  void Add(int32_t token) {
    words_[static_cast<size_t>(token) >> 6] |= uint64_t{1} << (token & 63);
  }
  std::span<const uint64_t> words() const { return words_; }

 private:
  std::vector<uint64_t> words_;
};

// What may come at one place of an answer and at no other.
struct TokenBans {
  std::span<const int32_t> banned = {};  // ids within the vocabulary
  // Bit t % 32 of word t / 32 is set where token t may come: ceil(vocab / 32) words; empty: all
  // may.
  std::span<const uint32_t> allowed = {};

  bool empty() const { return banned.empty() && allowed.empty(); }
};

// How often each token occurs: a sorted list, so that it costs what an output is long and not what
// the vocabulary is large.
class TokenCounts {
 public:
  struct Entry {
    int32_t token = 0;
    int32_t count = 0;
  };
  void Reserve(size_t tokens) { entries_.reserve(tokens); }
  void Add(int32_t token);
  std::span<const Entry> entries() const { return entries_; }

 private:
  std::vector<Entry> entries_;  // by rising token
};

// Owned by one request, used by one thread at a time. Holds memory for what the parameters ask for
// alone.
//
// Order (vLLM's): bans (what is not among the allowed tokens, bad words, `bans`) set a logit to
// minus infinity, then logit_bias, then the repetition penalty over prompt and output, then
// frequency and presence penalty over the output. A finite logit stays finite.
class LogitAdjuster {
 public:
  // `params` are valid and outlive this. prompt: ids within the vocabulary.
  LogitAdjuster(const SamplingParams& params, int64_t vocab_size, std::span<const int32_t> prompt);

  // False: Adjust would change nothing.
  bool Adjusts(const TokenBans& bans) const { return adjusts_ || !bans.empty(); }
  // logits: [vocab]. `output`: the tokens generated so far, each of which was given to Add.
  void Adjust(std::span<const int32_t> output, const TokenBans& bans,
              std::span<float> logits) const;

  // What Adjust works from, for those who adjust logits elsewhere (draw_rules.h has the
  // arithmetic). The sets are empty where the parameters ask for none.
  std::span<const uint64_t> allowed() const { return allowed_.words(); }
  std::span<const uint64_t> seen() const { return seen_.words(); }
  std::span<const TokenCounts::Entry> counted() const { return output_.entries(); }
  // Calls body(token) for the tokens that are banned one by one: bad words and `bans.banned`.
  template <typename Body>
  void ForEachBanned(std::span<const int32_t> output, const TokenBans& bans,
                     const Body& body) const {
    for (const std::vector<int32_t>& word : params_.bad_words) {
      if (Completes(output, word)) body(word.back());
    }
    for (const int32_t token : bans.banned) body(token);
  }

  // Room for an output of that length, so that Add does not allocate.
  void Reserve(int64_t output_tokens);
  // A token of the output.
  void Add(int32_t token);

 private:
  bool restricts() const { return !params_.allowed_tokens.empty(); }
  bool repeats() const { return params_.repetition_penalty != 1.0F; }
  bool counts() const {
    return params_.presence_penalty != 0.0F || params_.frequency_penalty != 0.0F;
  }
  void BanAllButAllowed(std::span<float> logits) const;
  // Whether the last token of `word` would complete it.
  static bool Completes(std::span<const int32_t> output, std::span<const int32_t> word);

  const SamplingParams& params_;
  bool adjusts_;
  TokenSet allowed_;    // empty unless restricts()
  TokenSet seen_;       // prompt and output; empty unless repeats()
  TokenCounts output_;  // empty unless counts()
};

}  // namespace erne
