#include "grammar/vocabulary.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace erne::grammar {
namespace {

TEST(Vocabulary, EveryTokenIsAtTheNodeOfItsText) {
  const std::vector<std::string> texts = {"b", "abc", "", "a", "abd", "b", "ab\xff", "ba"};
  const Vocabulary vocabulary(texts, 10);
  std::vector<bool> found(texts.size());
  std::string text;
  const auto nodes = vocabulary.nodes();
  for (uint32_t i = 0; i < nodes.size(); ++i) {
    if (i > 0) {
      text.resize(nodes[i].depth - 1U);
      text += static_cast<char>(nodes[i].byte);
    }
    EXPECT_GT(nodes[i].end, i);
    for (const int32_t token : vocabulary.TokensAt(i)) {
      EXPECT_EQ(texts[static_cast<size_t>(token)], text);
      EXPECT_FALSE(found[static_cast<size_t>(token)]);
      found[static_cast<size_t>(token)] = true;
    }
  }
  EXPECT_EQ(found, (std::vector<bool>{true, true, false, true, true, true, true, true}));
  EXPECT_EQ(nodes[0].end, nodes.size());
  EXPECT_EQ(vocabulary.depth(), 3U);
  EXPECT_EQ(vocabulary.text(1), "abc");
  EXPECT_EQ(vocabulary.text(9), "");
  EXPECT_TRUE(vocabulary.single_bytes().test('a'));
  EXPECT_FALSE(vocabulary.single_bytes().test('c'));
}

TEST(Vocabulary, SpellsWithFewTokens) {
  const std::vector<std::string> texts = {"a", "b", "c", "ab", "bc", "abc", "cab"};
  const Vocabulary vocabulary(texts, 7);
  EXPECT_EQ(vocabulary.Spell("abcab"), (std::vector<int32_t>{5, 3}));
  EXPECT_EQ(vocabulary.Spell("aab"), (std::vector<int32_t>{0, 3}));
  EXPECT_TRUE(vocabulary.Spell("").empty());
}

}  // namespace
}  // namespace erne::grammar
