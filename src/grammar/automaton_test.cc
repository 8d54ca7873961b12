#include "grammar/automaton.h"

#include <random>
#include <string>

#include <gtest/gtest.h>

#include "grammar/ebnf.h"
#include "grammar/simulation.h"
#include "grammar/test_vocabulary.h"

namespace erne::grammar {
namespace {

TEST(Automaton, DistanceIsThatOfAShortestEnd) {
  const auto grammar =
      TestCompile(Form::Kind::kEbnf,
                  R"G(root ::= "<" list ">" list ::= "[" list ("," list)* "]" | "abc" | "z"{5})G");
  ASSERT_TRUE(grammar.ok());
  Simulation simulation((*grammar)->automaton());
  ConfigSet set;
  ConfigSet next;
  simulation.Begin((*grammar)->automaton().start(), Simulation::kBottom, set);
  EXPECT_EQ(simulation.Distance(set), 5);
  EXPECT_EQ(simulation.ShortestEnd(set), "<abc>");
  int32_t expected = 5;
  // Each byte moves the end by what it opens or brings.
  for (const auto& [byte, distance] : {std::pair{'<', 4}, {'[', 5}, {'[', 6}, {'z', 7}, {'z', 6}}) {
    simulation.Step(set, static_cast<uint8_t>(byte), next);
    std::swap(set, next);
    expected = distance;
    EXPECT_EQ(simulation.Distance(set), expected) << byte;
  }
  EXPECT_EQ(simulation.ShortestEnd(set), "zzz]]>");
  simulation.Compact(set);
  EXPECT_EQ(simulation.ShortestEnd(set), "zzz]]>");
  EXPECT_EQ(simulation.num_frames(), 3U);
}

TEST(Automaton, StepsWithoutAnEndAreCut) {
  // After "b" nothing that the vocabulary has can follow, so "b" does not come.
  ByteSet usable;
  for (const char c : {'a', 'b', 'd'}) usable.set(static_cast<uint8_t>(c));
  const Result<Grammar> grammar = ParseEbnf(R"G(root ::= "a" "d" | "b" "c" | "bc" root)G");
  ASSERT_TRUE(grammar.ok());
  const Result<Automaton> automaton = Automaton::Compile(*grammar, usable);
  ASSERT_TRUE(automaton.ok());
  EXPECT_NE(automaton->Next(automaton->start(), 'a'), Automaton::kNoState);
  EXPECT_EQ(automaton->Next(automaton->start(), 'b'), Automaton::kNoState);
  usable.reset('d');
  EXPECT_FALSE(Automaton::Compile(*grammar, usable).ok());
}

TEST(Automaton, LimitsAreKept) {
  const Result<Grammar> grammar = ParseEbnf(R"G(root ::= "a"{100})G");
  const ByteSet all = ~ByteSet();
  EXPECT_TRUE(Automaton::Compile(*grammar, all, {.max_states = 101}).ok());
  EXPECT_FALSE(Automaton::Compile(*grammar, all, {.max_states = 100}).ok());
  EXPECT_FALSE(Automaton::Compile(*grammar, all, {.max_expression = 50}).ok());
  EXPECT_FALSE(Automaton::Compile(*grammar, all, {.max_work = 50}).ok());
}

}  // namespace
}  // namespace erne::grammar
