#include "cli/number_tokenizer.h"

#include <set>

#include <gtest/gtest.h>

namespace erne {
namespace {

TEST(NumberTokenizer, OneTokenForEachWord) {
  const auto tokenizer = MakeNumberTokenizer(103424);
  const std::vector<int32_t> tokens = tokenizer->Encode("one two\n three  one ", false);
  ASSERT_EQ(tokens.size(), 4U);
  EXPECT_EQ(tokens[0], tokens[3]);
  EXPECT_EQ((std::set<int32_t>(tokens.begin(), tokens.end()).size()), 3U);
  for (const int32_t token : tokens) {
    EXPECT_GE(token, 0);
    EXPECT_LT(token, 103424);
  }
  EXPECT_TRUE(tokenizer->Encode(" \n", false).empty());
  // A word across two pieces is one word.
  const std::vector<TextPiece> pieces = {{"o", true}, {"ne", false}};
  EXPECT_EQ(tokenizer->Encode(pieces), tokenizer->Encode("one", false));
}

TEST(NumberTokenizer, EachTokenHasATextOfItsOwn) {
  const auto tokenizer = MakeNumberTokenizer(100);
  EXPECT_EQ(tokenizer->TokenBytes(0), " t0");
  EXPECT_EQ(tokenizer->Decode({7, 99}, true), " t7 t99");
  EXPECT_EQ(tokenizer->TokenBytes(100), "");
  EXPECT_EQ(tokenizer->TokenBytes(-1), "");
  EXPECT_EQ(tokenizer->vocab_size(), 100);
}

}  // namespace
}  // namespace erne
