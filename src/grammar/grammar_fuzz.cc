// Hostile forms: the first byte says which kind, the rest is its text. What compiles must give an
// answer within the tokens of its shortest one and a few more, whatever tokens are drawn.
#include <cstddef>
#include <cstdint>
#include <random>
#include <string>

#include "base/check.h"
#include "base/json.h"
#include "grammar/test_vocabulary.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using erne::grammar::Form;
  if (size == 0) return 0;
  const auto kind = static_cast<Form::Kind>(data[0] % 5);
  const std::string text(reinterpret_cast<const char*>(data) + 1, size - 1);
  const auto grammar = erne::grammar::TestCompile(kind, text);
  if (!grammar.ok()) {
    ERNE_CHECK(!grammar.status().message().empty());
    return 0;
  }
  constexpr int64_t kMaxShortest = 2000;  // longer ones are a matter of time alone
  const int64_t shortest = (*grammar)->shortest_answer();
  if (shortest == 0 || shortest > kMaxShortest) return 0;
  std::mt19937 random(static_cast<uint32_t>(size));
  for (const int64_t more : {0, 1, 7, 40}) {
    bool ended = false;
    const std::string answer =
        erne::grammar::RandomAnswer(*grammar, shortest + more, random, &ended);
    ERNE_CHECK(ended) << answer;
    if (kind == Form::Kind::kJsonObject || kind == Form::Kind::kJsonSchema) {
      ERNE_CHECK(erne::Json::Parse(answer).ok()) << answer;
    }
  }
  return 0;
}
