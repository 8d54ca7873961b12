#include "grammar/regex.h"

#include <random>
#include <regex>
#include <string>

#include <gtest/gtest.h>

#include "grammar/test_vocabulary.h"

namespace erne::grammar {
namespace {

bool RegexMatches(const std::string& pattern, std::string_view text) {
  const auto grammar = TestCompile(Form::Kind::kRegex, pattern);
  EXPECT_TRUE(grammar.ok()) << pattern << ": " << grammar.status().message();
  return grammar.ok() && Matches(*grammar, text);
}

TEST(Regex, MatchesWholeTexts) {
  EXPECT_TRUE(RegexMatches("a|bc*", "bccc"));
  EXPECT_FALSE(RegexMatches("a|bc*", "ac"));
  EXPECT_TRUE(RegexMatches("(ab){2,3}?", "ababab"));
  EXPECT_FALSE(RegexMatches("(ab){2,3}", "ab"));
  EXPECT_TRUE(RegexMatches(R"(\d{3}-\w+\.[^x-z])", "123-a_9.w"));
  EXPECT_FALSE(RegexMatches(R"(\d{3}-\w+\.[^x-z])", "123-a_9.y"));
  EXPECT_TRUE(RegexMatches("^(?:a|(?<name>b))$", "b"));
  EXPECT_TRUE(RegexMatches(R"([\]\-a]+)", "]-a"));
  EXPECT_TRUE(RegexMatches("", ""));
}

TEST(Regex, CharactersAreUnicode) {
  EXPECT_TRUE(RegexMatches("[一-龥]{2}", "你好"));
  EXPECT_FALSE(RegexMatches("[一-龥]{2}", "你a"));
  EXPECT_TRUE(RegexMatches(".", "😀"));
  EXPECT_FALSE(RegexMatches(".", "\xf0\x9f"));
  EXPECT_FALSE(RegexMatches(".", "\xed\xa0\x80")) << "a surrogate";
  EXPECT_TRUE(RegexMatches(R"(\u4f60\u{1F600}\x41)", "你😀A"));
  EXPECT_FALSE(RegexMatches("[^a]", "a"));
}

TEST(Regex, FaultsNameTheirPlace) {
  for (const auto& [pattern, what] : {std::pair{"a(b", "')' at byte 3"},
                                      {"*a", "nothing to repeat"},
                                      {"a{3,2}", "out of order"},
                                      {"(?=a)", "not supported"},
                                      {"(a)\\1", "\\1"},
                                      {"[a", "without ']'"},
                                      {"a\\b", "\\b"},
                                      {"a^b", "'^'"},
                                      {"a$b", "'$'"},
                                      {"[z-a]", "out of order"},
                                      {"a)", "')' without"},
                                      {"a{1000001}", "repeats"}}) {
    const auto grammar = TestCompile(Form::Kind::kRegex, pattern);
    ASSERT_FALSE(grammar.ok()) << pattern;
    EXPECT_EQ(grammar.status().code(), StatusCode::kInvalidArgument);
    EXPECT_NE(grammar.status().message().find(what), std::string::npos)
        << pattern << ": " << grammar.status().message();
  }
}

// Exponential automata, and repeats of repeats of repeats.
TEST(Regex, HostilePatternsAreRefused) {
  std::string nested = "a";
  for (int i = 0; i < 200; ++i) nested = "(" + nested + ")";
  for (const std::string& pattern :
       {std::string("(a|b)*a(a|b){24}"), std::string("((a{1000}){1000}){1000}"), nested,
        std::string("((((((()*)*)*)*){1000000}){1000000}){1000000}")}) {
    EXPECT_FALSE(TestCompile(Form::Kind::kRegex, pattern).ok()) << pattern;
  }
}

// Random patterns and texts, against the C++ library's engine.
TEST(Regex, AgreesWithAnotherEngine) {
  std::mt19937 random(7);
  const auto pattern_of = [&](auto&& self, int depth) -> std::string {
    switch (depth == 0 ? random() % 3 : random() % 7) {
      case 0:
        return "a";
      case 1:
        return "[bc]";
      case 2:
        return "[^a]";
      case 3:
        return "(" + self(self, depth - 1) + "|" + self(self, depth - 1) + ")";
      case 4:
        return "(" + self(self, depth - 1) + ")*";
      case 5:
        return "(" + self(self, depth - 1) + "){1,2}";
      default:
        return self(self, depth - 1) + self(self, depth - 1);
    }
  };
  int matches = 0;
  for (int i = 0; i < 150; ++i) {
    const std::string pattern = pattern_of(pattern_of, 3);
    const std::regex other(pattern);
    const auto grammar = TestCompile(Form::Kind::kRegex, pattern);
    ASSERT_TRUE(grammar.ok()) << pattern;
    for (int j = 0; j < 30; ++j) {
      std::string text(random() % 6, 'a');
      for (char& c : text) c = static_cast<char>('a' + random() % 3);
      const bool expected = std::regex_match(text, other);
      matches += expected ? 1 : 0;
      ASSERT_EQ(Matches(*grammar, text), expected) << pattern << " on " << text;
    }
  }
  EXPECT_GT(matches, 300);
}

}  // namespace
}  // namespace erne::grammar
