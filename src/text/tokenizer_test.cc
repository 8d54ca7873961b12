#include "text/tokenizer.h"

#include <fstream>
#include <string>

#include <gtest/gtest.h>

#include "base/json.h"
#include "text/test_support.h"
#include "text/tokenizer_spec.h"

namespace erne {
namespace {

// The committed default model has only tokenizer.model and tokenizer_config.json, which names its
// special tokens.
class MiniTokenizer : public ::testing::Test {
 protected:
  TokenizerPtr tokenizer_ = MustLoadFolder(SourceFolder("models/erne-mini"));
};

TEST_F(MiniTokenizer, KnowsItsSpecialTokens) {
  EXPECT_EQ(tokenizer_->vocab_size(), 16384);
  EXPECT_EQ(tokenizer_->PieceId("<|end_of_sentence|>"), 3);
  EXPECT_EQ(tokenizer_->PieceId("no such piece"), std::nullopt);
  for (const char* piece :
       {"<unk>", "<s>", "</s>", "<|end_of_sentence|>", "<|begin_of_sentence|>"}) {
    EXPECT_TRUE(tokenizer_->IsSpecial(tokenizer_->PieceId(piece).value())) << piece;
  }
  for (const char* piece : {"a", "<0x0A>", "\xE2\x96\x81"}) {
    EXPECT_FALSE(tokenizer_->IsSpecial(tokenizer_->PieceId(piece).value())) << piece;
  }
  EXPECT_FALSE(tokenizer_->IsSpecial(-1));
  EXPECT_FALSE(tokenizer_->IsSpecial(1 << 30));
}

TEST_F(MiniTokenizer, SpecialTokensOnlyOutOfTrustedText) {
  const std::string text = "<|begin_of_sentence|>User: hi</s>";
  const Ids trusted = tokenizer_->Encode(text, true);
  EXPECT_EQ(trusted.front(), 4);
  EXPECT_EQ(trusted.back(), 2);
  const Ids typed = tokenizer_->Encode(text, false);
  for (const int32_t id : typed) EXPECT_FALSE(tokenizer_->IsSpecial(id));
  EXPECT_EQ(tokenizer_->Decode(typed, true), text);
}

// Of a token that is cut by the edge of trusted text, no part counts; over two trusted pieces it
// does.
TEST_F(MiniTokenizer, TheEdgeOfTrustedText) {
  const std::vector<TextPiece> half = {{"<|end_of", true}, {"_sentence|>", false}};
  EXPECT_EQ(tokenizer_->Encode(half), tokenizer_->Encode("<|end_of_sentence|>", false));
  const std::vector<TextPiece> whole = {{"a<|end_of", true}, {"_sentence|>b", true}};
  EXPECT_EQ(tokenizer_->Encode(whole), tokenizer_->Encode("a<|end_of_sentence|>b", true));
  const std::vector<TextPiece> between = {{"x<s>", true}, {"<s>y", false}, {"</s>", true}};
  Ids expected = tokenizer_->Encode("x", false);
  expected.push_back(1);
  for (const int32_t id : tokenizer_->Encode("<s>y", false)) expected.push_back(id);
  expected.push_back(2);
  EXPECT_EQ(tokenizer_->Encode(between), expected);
}

TEST_F(MiniTokenizer, RandomTextsRoundTrip) { ExpectRoundTrips(*tokenizer_, 10'000); }

TEST_F(MiniTokenizer, AMegabyteOfAnything) {
  std::string chinese;
  while (chinese.size() < (1 << 20)) chinese += "春风又绿江南岸";
  for (const std::string& text : {std::string(1 << 20, 'a'), std::string(1 << 20, ' '), chinese,
                                  std::string(1 << 20, '\n'), std::string(1 << 20, '<')}) {
    EXPECT_EQ(tokenizer_->Decode(tokenizer_->Encode(text, true), false), text);
  }
}

class ErnieTokenizer : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = SharedFolder("tokenizers/ernie-4.5");
    if (folder_.empty()) GTEST_SKIP() << "shared/tokenizers/ernie-4.5 is not there";
    tokenizer_ = MustLoadFolder(folder_);
  }
  std::string folder_;
  TokenizerPtr tokenizer_;
};

TEST_F(ErnieTokenizer, TestVectors) {
  std::ifstream file(folder_ + "/test_vectors.jsonl");
  int count = 0;
  for (std::string line; std::getline(file, line); ++count) {
    const Json vector = Json::Parse(line).value();
    const std::string& text = vector.Find("text")->AsString();
    Ids ids;
    for (const Json& id : vector.Find("ids")->AsArray())
      ids.push_back(static_cast<int32_t>(id.AsInt()));
    EXPECT_EQ(tokenizer_->Encode(text, true), ids) << text;
    // U+2581 reads back as the space it stands for.
    if (text.find(kSpaceMark) == std::string::npos) {
      EXPECT_EQ(tokenizer_->Decode(ids, false), text);
    }
  }
  EXPECT_EQ(count, 41);
}

TEST_F(ErnieTokenizer, Facts) {
  EXPECT_EQ(tokenizer_->vocab_size(),
            101314);  // the added tokens go beyond the model's 100,295 pieces
  EXPECT_EQ(tokenizer_->PieceId("<|LOC_1000|>"), 101297);
  EXPECT_EQ(tokenizer_->TokenBytes(101297), "<|LOC_1000|>");
  EXPECT_TRUE(tokenizer_->IsSpecial(100273));
  EXPECT_FALSE(tokenizer_->IsSpecial(3));       // digits are added tokens, not special ones
  EXPECT_FALSE(tokenizer_->IsSpecial(101313));  // <nl>
  EXPECT_EQ(tokenizer_->Encode("<nl>", false), Ids{101313});
  EXPECT_EQ(tokenizer_->TokenBytes(23), "\n");
  EXPECT_EQ(tokenizer_->TokenBytes(103000), "");
  EXPECT_FALSE(tokenizer_->adds_prefix_space());
}

TEST_F(ErnieTokenizer, RandomTextsRoundTrip) { ExpectRoundTrips(*tokenizer_, 10'000); }

TEST_F(ErnieTokenizer, NoTextMakesASpecialToken) {
  std::string all;
  for (int32_t id = 0; id < tokenizer_->vocab_size(); ++id) {
    if (tokenizer_->IsSpecial(id)) all += tokenizer_->TokenBytes(id);
  }
  for (const int32_t id : tokenizer_->Encode(all, false))
    ASSERT_FALSE(tokenizer_->IsSpecial(id)) << id;
}

}  // namespace
}  // namespace erne
