#include "load/prompts.h"

#include <algorithm>
#include <cmath>
#include <string_view>

namespace erne::load {

uint64_t Random::Next() {
  state_ += 0x9E3779B97F4A7C15U;
  uint64_t bits = state_;
  bits = (bits ^ (bits >> 30)) * 0xBF58476D1CE4E5B9U;
  bits = (bits ^ (bits >> 27)) * 0x94D049BB133111EBU;
  return bits ^ (bits >> 31);
}

int64_t Random::Between(int64_t low, int64_t high) {
  return low + static_cast<int64_t>(Next() % static_cast<uint64_t>(high - low + 1));
}

std::string RandomWords(Random& random, int64_t count) {
  constexpr std::string_view kConsonants = "bcdfghklmnprstvw";
  constexpr std::string_view kVowels = "aeiou";
  std::string text;
  for (int64_t word = 0; word < count; ++word) {
    if (word > 0) text += ' ';
    for (int64_t syllable = random.Between(1, 3); syllable > 0; --syllable) {
      text += kConsonants[random.Next() % kConsonants.size()];
      text += kVowels[random.Next() % kVowels.size()];
    }
  }
  return text;
}

int64_t PromptLength::WordsFor(int64_t tokens) const {
  const double words = (static_cast<double>(tokens) - other_tokens) / tokens_per_word;
  return std::max<int64_t>(1, std::llround(words));
}

}  // namespace erne::load
