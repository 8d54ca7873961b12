#include "text/bpe.h"

#include <map>
#include <random>
#include <string>
#include <tuple>

#include <gtest/gtest.h>

namespace erne {
namespace {

using Ids = std::vector<int32_t>;

// Symbols are the distinct strings, in order of appearance; every way of making a result from two
// known strings merges.
struct Vocabulary {
  explicit Vocabulary(const std::vector<std::pair<std::string, uint32_t>>& ranked) {
    for (const char c : std::string("abc")) Id(std::string(1, c));
    for (const auto& [text, rank] : ranked) Id(text);
    for (const auto& [text, rank] : ranked) {
      for (size_t cut = 1; cut < text.size(); ++cut) {
        const auto left = ids.find(text.substr(0, cut));
        const auto right = ids.find(text.substr(cut));
        if (left == ids.end() || right == ids.end()) continue;
        merges.push_back({left->second, right->second, ids[text], rank,
                          ids[text.substr(cut - 1, 1)], ids[text.substr(cut, 1)]});
      }
    }
  }
  int32_t Id(const std::string& text) {
    return ids.emplace(text, static_cast<int32_t>(ids.size())).first->second;
  }
  Ids Symbols(const std::string& text) const {
    Ids symbols;
    for (const char c : text) symbols.push_back(c == '?' ? -7 : ids.at(std::string(1, c)));
    return symbols;
  }

  std::map<std::string, int32_t> ids;
  std::vector<BpeMerge> merges;
};

// The definition, word for word: search all pairs for the lowest rank, leftmost first, merge, begin
// again.
Ids MergePlainly(const std::vector<BpeMerge>& merges, Ids symbols) {
  std::map<std::pair<int32_t, int32_t>, std::pair<uint32_t, int32_t>> best;
  for (const BpeMerge& merge : merges) {
    const auto [found, added] =
        best.emplace(std::pair(merge.left, merge.right), std::pair(merge.rank, merge.result));
    if (!added && merge.rank < found->second.first) found->second = {merge.rank, merge.result};
  }
  while (true) {
    size_t place = symbols.size();
    uint32_t rank = UINT32_MAX;
    for (size_t i = 0; i + 1 < symbols.size(); ++i) {
      const auto found = best.find({symbols[i], symbols[i + 1]});
      if (found == best.end() || found->second.first >= rank) continue;
      rank = found->second.first;
      place = i;
    }
    if (place == symbols.size()) return symbols;
    symbols[place] = best.at({symbols[place], symbols[place + 1]}).second;
    symbols.erase(symbols.begin() + place + 1);
  }
}

Ids Merge(const BpeMerges& merges, const Ids& symbols) {
  Ids out;
  merges.Apply(symbols, out);
  return out;
}

TEST(BpeMerges, LowestRankFirstThenLeftmost) {
  const Vocabulary vocabulary({{"ab", 1}, {"bc", 0}, {"aa", 2}});
  const BpeMerges merges(vocabulary.merges);
  const auto& ids = vocabulary.ids;
  EXPECT_EQ(Merge(merges, vocabulary.Symbols("abc")), (Ids{ids.at("a"), ids.at("bc")}));
  EXPECT_EQ(Merge(merges, vocabulary.Symbols("aaa")), (Ids{ids.at("aa"), ids.at("a")}));
  EXPECT_EQ(Merge(merges, {}), Ids{});
}

TEST(BpeMerges, NegativeSymbolsStandAlone) {
  const Vocabulary vocabulary({{"ab", 0}});
  const BpeMerges merges(vocabulary.merges);
  EXPECT_EQ(Merge(merges, vocabulary.Symbols("a?b?ab")),
            (Ids{vocabulary.ids.at("a"), -7, vocabulary.ids.at("b"), -7, vocabulary.ids.at("ab")}));
}

TEST(BpeMerges, OfTwoMergesOfOnePairTheLowerRankCounts) {
  const std::vector<BpeMerge> merges = {{0, 1, 5, 9, 0, 1}, {0, 1, 6, 3, 0, 1}, {0, 1, 7, 4, 0, 1}};
  EXPECT_EQ(Merge(BpeMerges(merges), {0, 1}), Ids{6});
}

TEST(BpeMerges, AgreesWithTheDefinitionOnRandomVocabularies) {
  std::mt19937 random(1);
  const auto text = [&](int min_length, int max_length) {
    std::string out;
    const int length = std::uniform_int_distribution<int>(min_length, max_length)(random);
    for (int i = 0; i < length; ++i) out.push_back("abc"[random() % 3]);
    return out;
  };
  for (int round = 0; round < 300; ++round) {
    std::vector<std::pair<std::string, uint32_t>> ranked;
    const int pieces = 1 + static_cast<int>(random() % 40);
    // Ranks repeat, as scores of a SentencePiece model may.
    for (int i = 0; i < pieces; ++i) ranked.emplace_back(text(2, 6), random() % 20);
    const Vocabulary vocabulary(ranked);
    const BpeMerges merges(vocabulary.merges);
    for (int i = 0; i < 20; ++i) {
      std::string input = text(0, 60);
      if (random() % 4 == 0) input.insert(random() % (input.size() + 1), 1, '?');
      const Ids symbols = vocabulary.Symbols(input);
      ASSERT_EQ(Merge(merges, symbols), MergePlainly(vocabulary.merges, symbols)) << input;
    }
  }
}

// A quadratic merge would not end within the time limit of the test.
TEST(BpeMerges, AMillionOfOneSymbol) {
  const Vocabulary vocabulary({{"aa", 0}, {"aaaa", 1}, {"aaaaaaaa", 2}, {"aaa", 3}});
  const BpeMerges merges(vocabulary.merges);
  const Ids out = Merge(merges, Ids((1 << 20) + 3, vocabulary.ids.at("a")));
  ASSERT_EQ(out.size(), (1u << 17) + 1);
  EXPECT_EQ(out.front(), vocabulary.ids.at("aaaaaaaa"));
  EXPECT_EQ(out.back(), vocabulary.ids.at("aaa"));
}

}  // namespace
}  // namespace erne
