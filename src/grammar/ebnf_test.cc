#include "grammar/ebnf.h"

#include <string>

#include <gtest/gtest.h>

#include "grammar/test_vocabulary.h"

namespace erne::grammar {
namespace {

constexpr const char* kArithmetic = R"G(
# sums of products
root   ::= sum
sum    ::= term ( ("+" | "-") term )*
term   ::= factor (
             "*" factor )*
factor ::= number | "(" sum ")"
number ::= [0-9]{1,3}
)G";

bool GrammarMatches(const std::string& text, std::string_view answer) {
  const auto grammar = TestCompile(Form::Kind::kEbnf, text);
  EXPECT_TRUE(grammar.ok()) << grammar.status().message();
  return grammar.ok() && Matches(*grammar, answer);
}

TEST(Ebnf, RulesMayHoldThemselves) {
  EXPECT_TRUE(GrammarMatches(kArithmetic, "1+(23*(4-5))*678"));
  EXPECT_FALSE(GrammarMatches(kArithmetic, "1+(23*(4-5)*678"));
  EXPECT_FALSE(GrammarMatches(kArithmetic, "1234"));
  EXPECT_TRUE(GrammarMatches("root ::= \"a\" root \"b\" | \"\"", "aaabbb"));
  EXPECT_FALSE(GrammarMatches("root ::= \"a\" root \"b\" | \"\"", "aabbb"));
  // Right recursion needs no stack, so it goes on for as long as one likes.
  EXPECT_TRUE(GrammarMatches("root ::= [a-c] root | \"!\"", std::string(5000, 'b') + "!"));
}

TEST(Ebnf, TextsClassesAndRepeats) {
  EXPECT_TRUE(
      GrammarMatches(R"G(root ::= "\"\n\u4f60" [^\]x] .? x+ x ::= "é"{2})G", "\"\n你y好éééé"));
  EXPECT_FALSE(GrammarMatches(R"G(root ::= "a"{2,})G", "a"));
  EXPECT_TRUE(GrammarMatches(R"G(root ::= (("a" | b) c-d)* b ::= "b" c-d ::= "," | ";")G", "a,b;a;"));
}

// Both readings of each "a" stay possible until the end says which it was.
TEST(Ebnf, AmbiguousGrammarsKeepAllReadings) {
  const char* grammar = R"G(root ::= s s ::= x s "1" | y s "2" | "" x ::= "(" x ")" | "a" y ::= "(" y ")" | "a")G";
  EXPECT_TRUE(GrammarMatches(grammar, "aaa121"));
  EXPECT_TRUE(GrammarMatches(grammar, "(a)((a))a222"));
  EXPECT_FALSE(GrammarMatches(grammar, "aaa12"));
}

TEST(Ebnf, FaultsSayWhat) {
  for (const auto& [text, what] :
       {std::pair{"start ::= \"a\"", "no rule root"},
        {"root ::= other", "other: it is used and not defined"},
        {"root ::= root \"a\" | \"b\"", "left recursion"},
        {"root ::= x\nx ::= y? root \"a\" | \"z\"\ny ::= \"y\"", "left recursion"},
        {"root ::= \"a", "closing quote"},
        {"root ::= (\"a\"", "'(' without ')'"},
        {"root = \"a\"", "expected ::="},
        {"root ::= \"a\" root ::= \"b\"", "defined twice"},
        {"root ::= \"a\" root", "vocabulary can spell"}}) {
    const auto grammar = TestCompile(Form::Kind::kEbnf, text);
    ASSERT_FALSE(grammar.ok()) << text;
    EXPECT_NE(grammar.status().message().find(what), std::string::npos)
        << grammar.status().message();
  }
}

}  // namespace
}  // namespace erne::grammar
