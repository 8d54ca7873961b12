// Prompts of a wanted length that no cache has seen: words of random syllables.
#pragma once

#include <cstdint>
#include <string>

namespace erne::load {

// SplitMix64 (Steele et al. 2014): the same numbers on every machine.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}
  uint64_t Next();
  // From low to high, both included.
  int64_t Between(int64_t low, int64_t high);

 private:
  uint64_t state_;
};

std::string RandomWords(Random& random, int64_t count);

// How long a prompt of so many words is, measured with two requests.
struct PromptLength {
  double tokens_per_word = 1.5;
  double other_tokens = 0;  // of the chat template

  int64_t WordsFor(int64_t tokens) const;
};

}  // namespace erne::load
