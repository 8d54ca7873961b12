#include "text/tokenizer_json.h"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <random>
#include <sstream>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/json.h"
#include "base/strings.h"
#include "base/utf8.h"
#include "text/byte_level.h"
#include "text/test_support.h"
#include "text/tokenizer.h"

namespace erne {
namespace {

using ::testing::HasSubstr;

// erne-mini's tokenizer.model as transformers converts it
// (tests/data/tokenizers/make_erne_mini_json.py).
TEST(TokenizerJson, GivesTheIdsOfTheModelItWasMadeFrom) {
  const TokenizerPtr from_json =
      MustLoadFolder(SourceFolder("tests/data/tokenizers/erne-mini-json"));
  const TokenizerPtr from_model = MustLoadFolder(SourceFolder("models/erne-mini"));
  ASSERT_NE(from_json, nullptr);
  EXPECT_EQ(from_json->vocab_size(), from_model->vocab_size());
  for (int32_t id = 0; id < from_model->vocab_size(); ++id) {
    ASSERT_EQ(from_json->TokenBytes(id), from_model->TokenBytes(id)) << id;
    ASSERT_EQ(from_json->IsSpecial(id), from_model->IsSpecial(id)) << id;
  }
  std::mt19937 random(5);
  for (int i = 0; i < 3000; ++i) {
    std::string text = RandomText(random);
    if (i % 3 == 0) text += "<|end_of_sentence|>" + RandomText(random);
    for (const bool parse_special : {false, true}) {
      ASSERT_EQ(from_json->Encode(text, parse_special), from_model->Encode(text, parse_special))
          << text;
    }
  }
  ExpectRoundTrips(*from_json, 1000);
}

TEST(TokenizerJson, MistralsTwoFilesAgree) {
  const std::string folder = SharedFolder("tokenizers/mistral");
  if (folder.empty()) GTEST_SKIP() << "shared/tokenizers/mistral is not there";
  const auto files = OpenFolder(folder).value();
  const TokenizerPtr from_model = MustLoad(*files);
  const TokenizerPtr from_json =
      MustLoad(TestFiles({{"tokenizer.json", std::string(files->Text("tokenizer.json").value())}}));
  EXPECT_TRUE(from_json->adds_prefix_space());
  EXPECT_EQ(from_json->Encode("<s>[INST] hi [/INST]", true),
            from_model->Encode("<s>[INST] hi [/INST]", true));
  std::mt19937 random(6);
  for (int i = 0; i < 3000; ++i) {
    const std::string text = RandomText(random);
    ASSERT_EQ(from_json->Encode(text, false), from_model->Encode(text, false)) << text;
  }
  ExpectRoundTrips(*from_model, 3000);
}

// A small tokenizer.json: 0 <unk>, 1 "a", 2 "b", 3 "ab", 4 "▁", 5 "▁a".
Json SmallJson() {
  return Json::Parse(R"({
      "added_tokens": [{"id": 6, "content": "<new>", "special": true}],
      "normalizer": {"type": "Replace", "pattern": {"String": " "}, "content": "▁"},
      "pre_tokenizer": null,
      "decoder": {"type": "Sequence", "decoders": [
          {"type": "Replace", "pattern": {"String": "▁"}, "content": " "}, {"type": "Fuse"}]},
      "model": {"type": "BPE", "unk_token": "<unk>", "fuse_unk": true,
                "vocab": {"<unk>": 0, "a": 1, "b": 2, "ab": 3, "▁": 4, "▁a": 5},
                "merges": ["a b", ["▁", "a"]]}})")
      .value();
}

Ids EncodeWith(const Json& json, std::string_view text) {
  const TokenizerPtr tokenizer = MustLoad(TestFiles({{"tokenizer.json", json.Dump()}}));
  return tokenizer == nullptr ? Ids{} : tokenizer->Encode(text, true);
}

Json Part(const char* text) { return Json::Parse(text).value(); }

TEST(TokenizerJson, MergesByRank) {
  EXPECT_EQ(EncodeWith(SmallJson(), " ab a"), (Ids{4, 3, 5}));
  EXPECT_EQ(EncodeWith(SmallJson(), "a<new>xy"), (Ids{1, 6, 0}));
  Json json = SmallJson();
  Json model = *json.Find("model");
  model.Set("fuse_unk", false);
  json.Set("model", model);
  EXPECT_EQ(EncodeWith(json, "xy"), (Ids{0, 0}));
}

TEST(TokenizerJson, PrefixSpace) {
  Json json = SmallJson();
  json.Set("normalizer",
           Part(R"({"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": "▁"},
      {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}]})"));
  EXPECT_EQ(EncodeWith(json, "a<new>a"), (Ids{5, 6, 5}));
  EXPECT_EQ(EncodeWith(json, " a"), (Ids{4, 5}));
  json.Set("normalizer", Json());
  json.Set(
      "pre_tokenizer",
      Part(
          R"({"type": "Metaspace", "replacement": "▁", "prepend_scheme": "first", "split": false})"));
  EXPECT_EQ(EncodeWith(json, "a<new>a"), (Ids{5, 6, 1}));
  EXPECT_EQ(EncodeWith(json, " a"), Ids{5});
  EXPECT_EQ(EncodeWith(json, "<new>a"), (Ids{6, 1}));
  json.Set("pre_tokenizer",
           Part(R"({"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always"})"));
  EXPECT_EQ(EncodeWith(json, "a<new>a"), (Ids{5, 6, 5}));
  json.Set("pre_tokenizer",
           Part(R"({"type": "Metaspace", "replacement": "▁", "prepend_scheme": "never"})"));
  EXPECT_EQ(EncodeWith(json, "a a"), (Ids{1, 5}));
}

TEST(TokenizerJson, MetaspaceSplitsWords) {
  Json json = SmallJson();
  Json model = *json.Find("model");
  model.Set("vocab", Part(R"({"a": 0, "▁": 1, "a▁": 2})"));
  model.Set("merges", Part(R"(["a ▁"])"));
  json.Set("model", model);
  json.Set("normalizer", Json());
  for (const bool split : {false, true}) {
    Json metaspace =
        Part(R"({"type": "Metaspace", "replacement": "▁", "prepend_scheme": "never"})");
    metaspace.Set("split", split);
    json.Set("pre_tokenizer", metaspace);
    EXPECT_EQ(EncodeWith(json, "a "), split ? (Ids{0, 1}) : (Ids{2}));
  }
}

TEST(TokenizerJson, RefusesByName) {
  const auto error = [](std::string_view member, const char* value) {
    Json json = SmallJson();
    json.Set(member, Part(value));
    return LoadError({{"tokenizer.json", json.Dump()}}).message();
  };
  EXPECT_THAT(error("normalizer", R"({"type": "NFKC"})"),
              HasSubstr("memory/tokenizer.json: normalizer: `NFKC`"));
  EXPECT_THAT(
      error("normalizer", R"({"type": "Replace", "pattern": {"Regex": " +"}, "content": "x"})"),
      HasSubstr("normalizer: `Replace` of {"));
  EXPECT_THAT(error("normalizer", R"({"kind": 1})"), HasSubstr("normalizer: has no `type`"));
  EXPECT_THAT(error("normalizer", R"("NFC")"), HasSubstr("normalizer: must be an object"));
  EXPECT_THAT(error("normalizer", R"({"type": "Sequence"})"),
              HasSubstr("has no list `normalizers`"));
  EXPECT_THAT(error("pre_tokenizer", R"({"type": "Whitespace"})"),
              HasSubstr("pre_tokenizer: `Whitespace`"));
  EXPECT_THAT(error("decoder", R"({"type": "WordPiece"})"), HasSubstr("decoder: `WordPiece`"));
  EXPECT_THAT(error("decoder", R"({"type": "Strip", "content": "x"})"),
              HasSubstr("decoder: `Strip`"));
  EXPECT_THAT(error("added_tokens", R"([{"content": "x"}])"),
              HasSubstr("added_tokens: token `x` has id -1"));
  EXPECT_THAT(error("added_tokens", R"({})"), HasSubstr("added_tokens: must be a list"));
  EXPECT_THAT(error("model", R"({"type": "Unigram"})"), HasSubstr("model: `Unigram`"));
  EXPECT_THAT(error("model", R"({"type": "BPE"})"), HasSubstr("model: has no object `vocab`"));
  EXPECT_THAT(error("model", R"({"type": "BPE", "dropout": 0.1})"), HasSubstr("model: `dropout`"));
  EXPECT_THAT(error("model", R"({"type": "BPE", "end_of_word_suffix": "</w>"})"),
              HasSubstr("`end_of_word_suffix`"));
  EXPECT_THAT(error("model", R"({"type": "BPE", "vocab": {"a": 0, "b": 0}, "merges": []})"),
              HasSubstr("`a` and `b` both have id 0"));
  EXPECT_THAT(error("model", R"({"type": "BPE", "vocab": {"a": -1}, "merges": []})"),
              HasSubstr("`a` has no id"));
  EXPECT_THAT(error("model", R"({"type": "BPE", "vocab": {"a": 0}, "merges": ["a b"]})"),
              HasSubstr("model: merge 0: `b` is not in `vocab`"));
  EXPECT_THAT(error("model", R"({"type": "BPE", "vocab": {"a": 0}, "merges": ["a"]})"),
              HasSubstr("model: merge 0: `a` is no pair"));
  EXPECT_THAT(LoadError({{"tokenizer.json", "{\"a\": }"}}).message(),
              HasSubstr("tokenizer.json: invalid JSON at byte 6"));
}

// A byte-level tokenizer.json out of the two files such models were first published in.
Json ByteLevelJson(const Json& vocabulary, std::string_view merges, const char* pattern,
                   bool compose, bool ignore_merges) {
  Json list = Json::MakeArray();
  for (const std::string& line : Split(merges, '\n')) {
    if (!line.empty() && line.rfind("#version", 0) != 0) list.Push(line);
  }
  const Json byte_level = Json::Of(
      {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", pattern == nullptr}});
  Json pre_tokenizer = byte_level;
  if (pattern != nullptr) {
    const Json split = Json::Of({{"type", "Split"},
                                 {"pattern", Json::Of({{"Regex", pattern}})},
                                 {"behavior", "Isolated"},
                                 {"invert", false}});
    pre_tokenizer =
        Json::Of({{"type", "Sequence"}, {"pretokenizers", Json(Json::Array{split, byte_level})}});
  }
  return Json::Of({{"normalizer", compose ? Json::Of({{"type", "NFC"}}) : Json()},
                   {"pre_tokenizer", pre_tokenizer},
                   {"decoder", Json::Of({{"type", "ByteLevel"}})},
                   {"model", Json::Of({{"type", "BPE"},
                                       {"vocab", vocabulary},
                                       {"merges", list},
                                       {"ignore_merges", ignore_merges}})}});
}

constexpr const char* kLlama3Pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr const char* kQwen2Pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

// The 256 byte pieces (ids are the bytes), " a" 256, "\u00E9" (two bytes) 257, " a\u00E9" 258.
Json SmallByteLevel(const char* pattern, bool compose, bool ignore_merges) {
  Json vocabulary = Json::MakeObject();
  for (int byte = 0; byte < 256; ++byte) {
    std::string piece;
    AppendUtf8(CharacterOfByte(static_cast<uint8_t>(byte)), piece);
    vocabulary.Set(piece, byte);
  }
  vocabulary.Set("Ġa", 256);
  vocabulary.Set("Ã©", 257);
  vocabulary.Set("ĠaÃ©", 258);
  return ByteLevelJson(vocabulary, "Ġ a\nÃ ©", pattern, compose, ignore_merges);
}

TEST(ByteLevelJson, MergesBytesOfWords) {
  EXPECT_EQ(EncodeWith(SmallByteLevel(nullptr, false, false), "a a\u00E9  a"),
            (Ids{'a', 256, 257, ' ', 256}));
  EXPECT_EQ(EncodeWith(SmallByteLevel(kLlama3Pattern, false, true), " a\u00E9"),
            Ids{258});  // no merge makes it
  EXPECT_EQ(EncodeWith(SmallByteLevel(kLlama3Pattern, false, false), " a\u00E9"), (Ids{256, 257}));
  EXPECT_EQ(EncodeWith(SmallByteLevel(kQwen2Pattern, true, false), "e\u0301"), Ids{257});
  EXPECT_EQ(EncodeWith(SmallByteLevel(kQwen2Pattern, false, false), "e\u0301"),
            (Ids{'e', 0xCC, 0x81}));
}

TEST(ByteLevelJson, RoundTrips) {
  const TokenizerPtr tokenizer =
      MustLoad(TestFiles({{"tokenizer.json", SmallByteLevel(kLlama3Pattern, false, true).Dump()}}));
  EXPECT_EQ(tokenizer->TokenBytes(258), " a\u00E9");
  EXPECT_EQ(tokenizer->PieceId("Ġa"), 256);
  ExpectRoundTrips(*tokenizer, 3000);
}

TEST(ByteLevelJson, RefusesByName) {
  const auto error = [](std::string_view member, const char* value) {
    Json json = SmallByteLevel(kQwen2Pattern, false, false);
    json.Set(member, Part(value));
    return LoadError({{"tokenizer.json", json.Dump()}}).message();
  };
  EXPECT_THAT(error("decoder", R"({"type": "Fuse"})"),
              HasSubstr("only one of pre_tokenizer and decoder is ByteLevel"));
  EXPECT_THAT(error("model", R"({"type": "BPE", "vocab": {"a": 0}, "merges": []})"),
              HasSubstr("byte 0 has no piece"));
  EXPECT_THAT(
      error(
          "pre_tokenizer",
          R"({"type": "Sequence", "pretokenizers": [{"type": "Digits"}, {"type": "ByteLevel"}]})"),
      HasSubstr("pre_tokenizer: `Digits` in this Sequence"));
  EXPECT_THAT(error("pre_tokenizer", R"({"type": "Sequence", "pretokenizers": [
                  {"type": "Split", "pattern": {"Regex": "\\s"}, "behavior": "Isolated"}, {"type": "ByteLevel"}]})"),
              HasSubstr("pre_tokenizer: `Split` {"));
  Json json = SmallByteLevel(kQwen2Pattern, false, false);
  json.Set("normalizer", Part(R"({"type": "Prepend", "prepend": "▁"})"));
  EXPECT_THAT(LoadError({{"tokenizer.json", json.Dump()}}).message(),
              HasSubstr("after a Prepend normalizer"));
}

// vectors/NAME.inp and .out: see the notes beside them.
void ExpectVectors(const std::string& name, const std::string& vocabulary,
                   const std::string& merges, const char* pattern, bool compose,
                   bool ignore_merges) {
  const std::string folder = SharedFolder("tokenizers");
  if (folder.empty()) GTEST_SKIP() << "shared/tokenizers is not there";
  const auto read = [&](const std::string& path) {
    std::ifstream file(folder + "/" + path);
    std::stringstream text;
    text << file.rdbuf();
    EXPECT_TRUE(file.good()) << path;
    return text.str();
  };
  const TokenizerPtr tokenizer = MustLoad(
      TestFiles({{"tokenizer.json", ByteLevelJson(Json::Parse(read(vocabulary)).value(),
                                                  read(merges), pattern, compose, ignore_merges)
                                        .Dump()}}));
  ASSERT_NE(tokenizer, nullptr);
  const std::string separator = "\n__ggml_vocab_test__\n";
  const std::string inputs = read("vectors/" + name + ".inp");
  std::istringstream outputs(read("vectors/" + name + ".out"));
  int count = 0;
  for (size_t begin = 0; begin <= inputs.size(); ++count) {
    const size_t end = std::min(inputs.find(separator, begin), inputs.size());
    const std::string text = inputs.substr(begin, end - begin);
    std::string line;
    std::getline(outputs, line);
    std::istringstream numbers(line);
    EXPECT_EQ(tokenizer->Encode(text, false), Ids(std::istream_iterator<int32_t>(numbers), {}))
        << text;
    begin = end + separator.size();
  }
  EXPECT_EQ(count, 47);
}

TEST(ByteLevelJson, Gpt2Vectors) {
  ExpectVectors("gpt-2", "gpt2/encoder.json", "gpt2/vocab.bpe", nullptr, false, false);
}
TEST(ByteLevelJson, Llama3Vectors) {
  ExpectVectors("llama-bpe", "llama3.2-ollama/encoder.json", "llama3.2-ollama/vocab.bpe",
                kLlama3Pattern, false, true);
}
TEST(ByteLevelJson, Qwen2Vectors) {
  ExpectVectors("qwen2", "qwen2.5/vocab.json", "qwen2.5/merges.txt", kQwen2Pattern, true, false);
}

}  // namespace
}  // namespace erne
