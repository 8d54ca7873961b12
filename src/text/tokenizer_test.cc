#include "text/tokenizer.h"

#include <cstring>
#include <fstream>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/json.h"
#include "base/strings.h"
#include "base/utf8.h"
#include "text/detokenizer.h"
#include "text/test_models.h"
#include "text/tokenizer_spec.h"

namespace erne {
namespace {

using ::testing::HasSubstr;
using Ids = std::vector<int32_t>;
using TokenizerPtr = std::unique_ptr<const Tokenizer>;

TokenizerPtr MustLoad(const FileSet& files) {
  Result<TokenizerPtr> tokenizer = LoadTokenizer(files);
  EXPECT_TRUE(tokenizer.ok()) << tokenizer.status().message();
  return tokenizer.ok() ? std::move(*tokenizer) : nullptr;
}

TokenizerPtr MustLoadFolder(const std::string& path) {
  const auto files = OpenFolder(path);
  EXPECT_TRUE(files.ok()) << files.status().message();
  return files.ok() ? MustLoad(**files) : nullptr;
}

Status LoadError(std::map<std::string, std::string, std::less<>> files) {
  const Result<TokenizerPtr> tokenizer = LoadTokenizer(TestFiles(std::move(files)));
  EXPECT_FALSE(tokenizer.ok());
  return tokenizer.ok() ? Status() : tokenizer.status();
}

// Any characters that a prompt may hold but U+2581, which SentencePiece cannot tell from a space.
std::string RandomText(std::mt19937& random) {
  std::string out;
  for (size_t n = random() % 40; n > 0; --n) {
    char32_t c = 0;
    switch (random() % 8) {
      case 0:
        c = ' ';
        break;
      case 1:
        c = random() % 0x80;
        break;
      case 2:
        c = 0x4E00 + random() % 0x5000;
        break;
      case 3:
        c = 0x80 + random() % 0x700;
        break;
      case 4:
        c = 0x1F300 + random() % 0x300;
        break;
      case 5:
        c = random() % 0x110000;
        break;
      default:
        c = 'a' + random() % 26;
        break;
    }
    if ((c >= 0xD800 && c < 0xE000) || c == 0x2581) continue;
    AppendUtf8(c, out);
  }
  return out;
}

// Decodes piece by piece, and checks that each piece of text is well formed.
std::string Stream(const Tokenizer& tokenizer, const Ids& ids, bool skip_special) {
  Detokenizer detokenizer(tokenizer, skip_special);
  std::string text;
  for (const int32_t id : ids) {
    const std::string part = detokenizer.Add(id);
    EXPECT_EQ(FindInvalidUtf8(part), std::string_view::npos);
    text += part;
  }
  return text + detokenizer.Flush();
}

void ExpectRoundTrips(const Tokenizer& tokenizer, int count) {
  std::mt19937 random(3);
  for (int i = 0; i < count; ++i) {
    const std::string text = RandomText(random);
    const Ids ids = tokenizer.Encode(text, false);
    ASSERT_EQ(tokenizer.Decode(ids, true), text);
    const std::string prefix = tokenizer.adds_prefix_space() && !text.empty() ? " " : "";
    ASSERT_EQ(Stream(tokenizer, ids, true), prefix + text);
    // How the text is cut into pieces does not matter.
    size_t cut = text.empty() ? 0 : random() % text.size();
    while (cut > 0 && (static_cast<uint8_t>(text[cut]) & 0xC0) == 0x80) --cut;
    const std::vector<TextPiece> pieces = {
        {text.substr(0, cut), false}, {"", true}, {text.substr(cut), false}};
    ASSERT_EQ(tokenizer.Encode(pieces), ids) << text;
  }
}

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

// Pieces: 0 <unk>, 1 <s>, 2 "▁", 3 "a", 4 "b", 5 "ab", 6 "▁a", 7 "[x y]" (user-defined).
TestSentencePiece SmallModel() {
  TestSentencePiece model;
  model.pieces = {
      {"<unk>", 0, 2}, {"<s>", 0, 3}, {std::string(kSpaceMark), -3},       {"a", -4},
      {"b", -5},       {"ab", -1},    {std::string(kSpaceMark) + "a", -2}, {"[x y]", 0, 4}};
  return model;
}

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

TEST(Detokenizer, HoldsBackUnfinishedCharacters) {
  TestSentencePiece model = SmallModel();
  model.byte_fallback = true;
  for (int byte = 0; byte < 256; ++byte) {
    char piece[8];
    std::snprintf(piece, sizeof(piece), "<0x%02X>", byte);
    model.pieces.push_back({piece, 0, 6});
  }
  const TestFiles files({{"tokenizer.model", model.Serialize()}});
  const TokenizerPtr tokenizer = MustLoad(files);
  const auto byte = [](int value) { return 8 + value; };
  Detokenizer detokenizer(*tokenizer, true);
  EXPECT_EQ(detokenizer.Add(byte(0xF0)), "");
  EXPECT_EQ(detokenizer.Add(byte(0x9F)), "");
  EXPECT_EQ(detokenizer.Add(1), "");  // a skipped token between them does not part them
  EXPECT_EQ(detokenizer.Add(byte(0x98)), "");
  EXPECT_EQ(detokenizer.Add(byte(0x80)), "😀");
  EXPECT_EQ(detokenizer.Add(byte(0xE4)), "");
  EXPECT_EQ(detokenizer.Add(3), "\uFFFDa");  // can never become a character
  EXPECT_EQ(detokenizer.Add(byte(0x80)), "\uFFFD");
  EXPECT_EQ(detokenizer.Add(byte(0xE4)), "");
  EXPECT_EQ(detokenizer.Add(byte(0xBD)), "");
  EXPECT_EQ(detokenizer.Flush(), "\uFFFD");
  EXPECT_EQ(detokenizer.Flush(), "");
  EXPECT_EQ(Stream(*tokenizer, {1, 3, 0}, false), "<s>a<unk>");
}

TEST(Detokenizer, StreamsWhatDecodeGives) {
  const TokenizerPtr tokenizer = MustLoadFolder(SourceFolder("models/erne-mini"));
  std::mt19937 random(4);
  for (int round = 0; round < 1000; ++round) {
    Ids ids(random() % 30);
    for (int32_t& id : ids) id = static_cast<int32_t>(random() % (random() % 2 == 0 ? 300 : 16384));
    for (const bool skip_special : {false, true}) {
      ASSERT_EQ(Stream(*tokenizer, ids, skip_special), tokenizer->Decode(ids, skip_special));
    }
  }
}

}  // namespace
}  // namespace erne
