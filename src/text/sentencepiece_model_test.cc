#include "text/sentencepiece_model.h"

#include <limits>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "text/test_support.h"
#include "text/tokenizer.h"

namespace erne {
namespace {

using ::testing::HasSubstr;

Ids EncodeWith(const TestSentencePiece& model, std::string_view text,
               const std::string& config = "{}") {
  const TestFiles files(
      {{"tokenizer.model", model.Serialize()}, {"tokenizer_config.json", config}});
  const TokenizerPtr tokenizer = MustLoad(files);
  return tokenizer == nullptr ? Ids{} : tokenizer->Encode(text, true);
}

TEST(SentencePiece, MergesByScore) {
  EXPECT_EQ(EncodeWith(SmallModel(), "ab"), Ids{5});
  EXPECT_EQ(EncodeWith(SmallModel(), " ab"), (Ids{2, 5}));
  EXPECT_EQ(EncodeWith(SmallModel(), " a"), Ids{6});
}

TEST(SentencePiece, AnIntermediateCharacterNeedNoPiece) {
  TestSentencePiece model = SmallModel();
  model.pieces.push_back({"xy", -6});  // neither x nor y is a piece
  EXPECT_EQ(EncodeWith(model, "xyx"), (Ids{8, 0}));
}

TEST(SentencePiece, UserDefinedPiecesComeFirst) {
  EXPECT_EQ(EncodeWith(SmallModel(), "a[x y]b"), (Ids{3, 7, 4}));
}

TEST(SentencePiece, UnknownCharactersInARowAreOneToken) {
  EXPECT_EQ(EncodeWith(SmallModel(), "acdac"), (Ids{3, 0, 3, 0}));
}

TEST(SentencePiece, ControlPiecesAreNeverMatchedAsText) {
  const TestFiles files({{"tokenizer.model", SmallModel().Serialize()}});
  const TokenizerPtr tokenizer = MustLoad(files);
  EXPECT_EQ(tokenizer->Encode("a<s>a", false), (Ids{3, 0, 3}));
  EXPECT_EQ(tokenizer->Encode("a<s>a", true), (Ids{3, 1, 3}));
}

TEST(SentencePiece, DummyPrefix) {
  TestSentencePiece model = SmallModel();
  model.dummy_prefix = true;
  EXPECT_EQ(EncodeWith(model, "a"), Ids{6});
  EXPECT_EQ(EncodeWith(model, " a"), (Ids{2, 6}));
  EXPECT_EQ(EncodeWith(model, ""), Ids{});
  EXPECT_EQ(EncodeWith(model, "a<s>a"), (Ids{6, 1, 6}));
  EXPECT_EQ(EncodeWith(model, "a<s>a", R"({"legacy": false})"), (Ids{6, 1, 3}));
  EXPECT_EQ(EncodeWith(model, "<s>a", R"({"legacy": false})"), (Ids{1, 3}));
  EXPECT_EQ(EncodeWith(model, "a<s>a", R"({"legacy": false, "add_prefix_space": false})"),
            (Ids{3, 1, 3}));
}

TEST(SentencePiece, DecodingTakesThePrefixAwayOnlyFromAWholeText) {
  TestSentencePiece model = SmallModel();
  model.dummy_prefix = true;
  const TestFiles files({{"tokenizer.model", model.Serialize()}});
  const TokenizerPtr tokenizer = MustLoad(files);
  EXPECT_EQ(tokenizer->Decode({6, 6}, true), "a a");
  EXPECT_EQ(tokenizer->Decode({1, 6}, true), "a");
  EXPECT_EQ(tokenizer->Decode({2, 6}, true), " a");
  EXPECT_EQ(Stream(*tokenizer, {6, 6}, true), " a a");
}

TEST(SentencePiece, AddedTokensTakeIdsOver) {
  // Added at a new id, over a normal piece, and stripping the white space around it.
  const std::string config = R"({"added_tokens_decoder": {
      "8": {"content": "<new>", "special": true, "lstrip": true, "rstrip": true},
      "4": {"content": "<b>", "special": false}}})";
  EXPECT_EQ(EncodeWith(SmallModel(), "a \t<new>\n a", config), (Ids{3, 8, 3}));
  EXPECT_EQ(EncodeWith(SmallModel(), "a<b>", config), (Ids{3, 4}));
  EXPECT_EQ(EncodeWith(SmallModel(), "b", config), Ids{0});  // its piece is gone
}

TEST(SentencePiece, ANormalPieceThatIsNamedSpecialIsNeverMerged) {
  const TestFiles files({{"tokenizer.model", SmallModel().Serialize()},
                         {"special_tokens_map.json", R"({"eos_token": {"content": "ab"}})"}});
  const TokenizerPtr tokenizer = MustLoad(files);
  EXPECT_EQ(tokenizer->Encode("ab", true), Ids{5});
  EXPECT_EQ(tokenizer->Encode("ab", false), (Ids{3, 4}));
}

TEST(SentencePiece, TheLongestSpecialTokenCounts) {
  const std::string config = R"({"added_tokens_decoder": {
      "8": {"content": "<x", "special": true}, "9": {"content": "<x>", "special": true}}})";
  EXPECT_EQ(EncodeWith(SmallModel(), "<x<x>", config), (Ids{8, 9}));
}

TEST(SentencePiece, RefusesByName) {
  const auto error = [](const TestSentencePiece& model) {
    return LoadError({{"tokenizer.model", model.Serialize()}}).message();
  };
  TestSentencePiece model = SmallModel();
  model.model_type = 1;
  EXPECT_THAT(error(model), HasSubstr("memory/tokenizer.model: SentencePiece model type unigram"));
  model = SmallModel();
  model.normalizer = "nmt_nfkc";
  model.charsmap = "xx";
  EXPECT_THAT(error(model), HasSubstr("normalizer `nmt_nfkc`"));
  model = SmallModel();
  model.remove_extra_spaces = true;
  EXPECT_THAT(error(model), HasSubstr("remove_extra_whitespaces"));
  model = SmallModel();
  model.byte_fallback = true;
  EXPECT_THAT(error(model), HasSubstr("byte_fallback is true and there are 0 byte pieces"));
  model = SmallModel();
  model.pieces.push_back({"ab", -9});
  EXPECT_THAT(error(model), HasSubstr("piece 8 is a second `ab`"));
  model.pieces.back() = {"", -9};
  EXPECT_THAT(error(model), HasSubstr("piece 8 is empty"));
  model.pieces.back() = {"\xFF", -9};
  EXPECT_THAT(error(model), HasSubstr("piece 8 is not UTF-8"));
  model.pieces.back() = {"x", std::numeric_limits<float>::quiet_NaN()};
  EXPECT_THAT(error(model), HasSubstr("piece 8 has no finite score"));
  model.pieces.back() = {"x", 0, 5};
  EXPECT_THAT(error(model), HasSubstr("piece 8: pieces of type UNUSED"));
  model.pieces.back() = {"x", 0, 2};
  EXPECT_THAT(error(model), HasSubstr("pieces 0 and 8 are both unknown"));
}

TEST(SentencePiece, CutAtEveryByteNeverCrashes) {
  const std::string bytes = SmallModel().Serialize();
  for (size_t size = 0; size < bytes.size(); ++size) {
    const TestFiles files({{"tokenizer.model", bytes.substr(0, size)}});
    EXPECT_FALSE(LoadTokenizer(files).ok()) << size;
  }
}

TEST(TokenizerConfig, ErrorsNameFileAndField) {
  const std::string model = SmallModel().Serialize();
  const auto error = [&](const char* file, const char* text) {
    return LoadError({{"tokenizer.model", model}, {file, text}}).message();
  };
  EXPECT_THAT(error("tokenizer_config.json", "{"),
              HasSubstr("memory/tokenizer_config.json: invalid JSON at byte 1"));
  EXPECT_THAT(error("tokenizer_config.json", "[]"), HasSubstr("must be an object"));
  EXPECT_THAT(error("tokenizer_config.json", R"({"bos_token": 7})"),
              HasSubstr("`bos_token` must be a token"));
  EXPECT_THAT(error("tokenizer_config.json", R"({"legacy": 7})"), HasSubstr("`legacy`"));
  EXPECT_THAT(
      error("tokenizer_config.json", R"({"added_tokens_decoder": {"x": {"content": "y"}}})"),
      HasSubstr("added_tokens_decoder: `x` is not a token id"));
  EXPECT_THAT(error("tokenizer_config.json",
                    R"({"added_tokens_decoder": {"9999999999": {"content": "y"}}})"),
              HasSubstr("token `y` has id 9999999999"));
  EXPECT_THAT(error("tokenizer_config.json",
                    R"({"added_tokens_decoder": {"9": {"content": "y", "single_word": true}}})"),
              HasSubstr("single_word"));
  EXPECT_THAT(error("added_tokens.json", R"({"<x>": -1})"),
              HasSubstr("memory/added_tokens.json: token `<x>` has id -1"));
  EXPECT_THAT(
      error("special_tokens_map.json", R"({"additional_special_tokens": 1})"),
      HasSubstr("memory/special_tokens_map.json: `additional_special_tokens` must be a list"));
  EXPECT_THAT(LoadError({}).message(), HasSubstr("neither tokenizer.model nor tokenizer.json"));
}

}  // namespace
}  // namespace erne
