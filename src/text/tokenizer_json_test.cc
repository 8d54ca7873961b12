#include "text/tokenizer_json.h"

#include <random>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/json.h"
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

}  // namespace
}  // namespace erne
