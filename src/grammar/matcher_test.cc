#include "grammar/matcher.h"

#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/json.h"
#include "grammar/test_vocabulary.h"

namespace erne::grammar {
namespace {

constexpr const char* kSchema = R"G({"type": "object", "properties": {"name": {"type": "string"},
  "tags": {"type": "array", "items": {"enum": ["ab", "abc", "你好"]}}, "next": {"$ref": "#"}},
  "required": ["name"], "additionalProperties": {"type": "integer"}})G";

// The mask of a place is made of cached parts; the plain way is to try each token.
TEST(Matcher, AMaskHoldsTheTokensThatCanBeReadAndNoOthers) {
  std::mt19937 random(3);
  for (const auto& [kind, text] :
       {std::pair{Form::Kind::kJsonSchema, kSchema},
        {Form::Kind::kJsonObject, ""},
        {Form::Kind::kRegex, "(ab|a(bc)*)+[一-龥]{0,3}"},
        {Form::Kind::kEbnf, R"G(root ::= "a" root? "b" | x x ::= "[" root "]" | [0-9]+)G"}}) {
    const auto grammar = TestCompile(kind, text);
    ASSERT_TRUE(grammar.ok()) << grammar.status().message();
    for (int round = 0; round < 6; ++round) {
      constexpr int64_t kPlenty = 1'000'000;
      Matcher matcher(*grammar, {kTestEnd}, kPlenty);
      Simulation simulation((*grammar)->automaton());
      ConfigSet now;
      simulation.Begin((*grammar)->automaton().start(), Simulation::kBottom, now);
      for (int step = 0; step < 60 && !matcher.complete(); ++step) {
        std::vector<int32_t> allowed;
        for (int32_t token = 0; token < 300; ++token) {
          if (token == kTestEnd) continue;
          ConfigSet set = now;
          ConfigSet next;
          const std::string_view bytes = TestVocabulary()->text(token);
          for (const char byte : bytes) {
            simulation.Step(set, static_cast<uint8_t>(byte), next);
            std::swap(set, next);
          }
          const bool readable = !bytes.empty() && !set.dead();
          ASSERT_EQ(Allows(matcher, token), readable) << text << " at " << step << ": " << bytes;
          if (readable) allowed.push_back(token);
        }
        ASSERT_EQ(Allows(matcher, kTestEnd), now.ended);
        if (allowed.empty()) break;
        const int32_t token = allowed[random() % allowed.size()];
        ConfigSet next;
        for (const char byte : TestVocabulary()->text(token)) {
          simulation.Step(now, static_cast<uint8_t>(byte), next);
          std::swap(now, next);
        }
        matcher.Accept(token, kPlenty);
      }
    }
  }
}

TEST(Matcher, EveryBudgetFromTheShortestAnswerOnIsKept) {
  std::mt19937 random(5);
  for (const auto& [kind, text] :
       {
    std::pair{Form::Kind::kJsonSchema, kSchema}, {Form::Kind::kJsonObject, ""},
        {Form::Kind::kChoice, R"G(["abcabc", "name", "nametrue"])G"}, {Form::Kind::kEbnf, R"G(root ::= "(" root ")" root | "ab")G"}}) {
    const auto grammar = TestCompile(kind, text);
      ASSERT_TRUE(grammar.ok());
      const int64_t shortest = (*grammar)->shortest_answer();
      for (int round = 0; round < 200; ++round) {
        const int64_t budget = shortest + round / 4;
        bool ended = false;
        const std::string answer = RandomAnswer(*grammar, budget, random, &ended);
        EXPECT_TRUE(ended) << text << ", " << budget << " tokens: " << answer;
        EXPECT_TRUE(Matches(*grammar, answer)) << answer;
        if (kind == Form::Kind::kJsonSchema) {
          EXPECT_TRUE(Json::Parse(answer).ok()) << answer;
        }
      }
    }
}

TEST(Matcher, ABegunEndIsTheShortest) {
    const auto grammar = TestCompile(Form::Kind::kJsonSchema, kSchema);
    ASSERT_TRUE(grammar.ok());
    Matcher matcher(*grammar, {kTestEnd}, 1000);
    for (const char byte : std::string(R"G({"name": "a", "next": {"name": "x)G")) {
      matcher.Accept(static_cast<uint8_t>(byte), 1000);
    }
    matcher.BeginEnd();
    std::string end;
    while (!matcher.complete()) {
      int32_t only = -1;
      for (int32_t token = 0; token < 300; ++token) {
        if (!Allows(matcher, token)) continue;
        EXPECT_EQ(only, -1);
        only = token;
      }
      ASSERT_GE(only, 0);
      end += TestVocabulary()->text(only);
      matcher.Accept(only, 1000);
    }
    EXPECT_EQ(end, "\"}}");
}

TEST(Matcher, AnswersThatCannotGoOnAreComplete) {
    const auto grammar = TestCompile(Form::Kind::kChoice, R"G(["ab", "abc"])G");
    ASSERT_TRUE(grammar.ok());
    Matcher matcher(*grammar, {kTestEnd, 9999}, 10);
    matcher.Accept('a', 9);
    EXPECT_FALSE(matcher.may_end());
    matcher.Accept('b', 8);
    EXPECT_TRUE(matcher.may_end());
    EXPECT_FALSE(matcher.complete());
    EXPECT_TRUE(Allows(matcher, kTestEnd));
    EXPECT_TRUE(Allows(matcher, 'c'));
    matcher.Accept('c', 7);
    EXPECT_TRUE(matcher.complete());
}

TEST(GrammarCompiler, KeepsWhatItHasCompiled) {
    int asked = 0;
    GrammarCompiler compiler(
        [&asked] {
          ++asked;
          return TestTexts();
        },
        300);
    EXPECT_FALSE(compiler.Compile({Form::Kind::kRegex, "("}).ok());
    EXPECT_EQ(asked, 0);
    const auto first = compiler.Compile({Form::Kind::kRegex, "a+"});
    const auto second = compiler.Compile({Form::Kind::kRegex, "a+"});
    ASSERT_TRUE(first.ok() && second.ok());
    EXPECT_EQ(*first, *second);
    for (size_t i = 0; i < GrammarCompiler::kMaxKept; ++i) {
      ASSERT_TRUE(compiler.Compile({Form::Kind::kRegex, "b" + std::to_string(i)}).ok());
    }
    EXPECT_NE(*first, *compiler.Compile({Form::Kind::kRegex, "a+"}));
    EXPECT_EQ(asked, 1);
}

}  // namespace
}  // namespace erne::grammar
