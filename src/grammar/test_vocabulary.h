// Vocabularies for tests, and what they make of a grammar.
#pragma once

#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "grammar/grammar_compiler.h"
#include "grammar/matcher.h"

namespace erne::grammar {

// All bytes as tokens 0 to 255, then one without text, then some longer ones.
inline std::vector<std::string> TestTexts() {
  std::vector<std::string> texts;
  for (int byte = 0; byte < 256; ++byte) texts.emplace_back(1, static_cast<char>(byte));
  texts.emplace_back("");
  for (const char* text :
       {"\"",   "{\"",  "\":",   "\": ", "\",", ", \"", "\"}",  "}}",      "[[",  "]",
        "],",   "true", "false", "null", "12",  "123",  "name", "ab",      "abc", "\n  ",
        "你好", "好",   "-1",    ".5",   "\\n", "\\\"", " a",   "b\", \"c"}) {
    texts.emplace_back(text);
  }
  return texts;
}
inline constexpr int32_t kTestEnd = 256;  // the token without text

inline std::shared_ptr<const Vocabulary> TestVocabulary() {
  static const auto vocabulary = std::make_shared<const Vocabulary>(TestTexts(), 300);
  return vocabulary;
}

inline Result<std::shared_ptr<const CompiledGrammar>> TestCompile(Form::Kind kind,
                                                                  std::string text) {
  const Result<Grammar> grammar = ParseForm({kind, std::move(text)});
  if (!grammar.ok()) return grammar.status();
  return CompiledGrammar::Compile(*grammar, TestVocabulary());
}

inline bool Allows(const Matcher& matcher, int32_t token) {
  return (matcher.mask()[static_cast<size_t>(token) / 32] >> (token % 32) & 1) != 0;
}

// Whether `text` can be written byte by byte, and may end then.
inline bool Matches(const std::shared_ptr<const CompiledGrammar>& grammar, std::string_view text) {
  constexpr int64_t kPlenty = 100'000;
  Matcher matcher(grammar, {kTestEnd}, kPlenty);
  for (const char byte : text) {
    const int32_t token = static_cast<uint8_t>(byte);
    if (!Allows(matcher, token)) return false;
    matcher.Accept(token, kPlenty);
  }
  return matcher.may_end();
}

// An answer of tokens drawn evenly among those allowed, within `budget` of them.
inline std::string RandomAnswer(const std::shared_ptr<const CompiledGrammar>& grammar,
                                int64_t budget, std::mt19937& random, bool* ended) {
  Matcher matcher(grammar, {kTestEnd}, budget);
  std::string text;
  *ended = false;
  while (budget > 0 && !matcher.complete()) {
    std::vector<int32_t> allowed;
    for (int32_t token = 0; token < 300; ++token) {
      if (Allows(matcher, token)) allowed.push_back(token);
    }
    if (allowed.empty()) return text;
    const int32_t token = allowed[random() % allowed.size()];
    if (token == kTestEnd) break;
    text += grammar->vocabulary().text(token);
    matcher.Accept(token, --budget);
  }
  *ended = matcher.may_end();
  return text;
}

}  // namespace erne::grammar
