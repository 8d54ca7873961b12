// What the tests of this folder share: small tokenizer files made by hand, where the real ones lie,
// and checks.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "base/file_set.h"
#include "base/utf8.h"
#include "text/detokenizer.h"
#include "text/tokenizer.h"
#include "text/tokenizer_spec.h"

namespace erne {

using Ids = std::vector<int32_t>;
using TokenizerPtr = std::unique_ptr<const Tokenizer>;

// Files in memory; the texts live as long as the set.
class TestFiles : public FileSet {
 public:
  explicit TestFiles(std::map<std::string, std::string, std::less<>> files)
      : files_(std::move(files)) {}
  const std::string& path() const override { return path_; }
  bool Has(std::string_view name) const override { return files_.find(name) != files_.end(); }
  Result<std::span<const std::byte>> Map(std::string_view name) const override {
    const auto found = files_.find(name);
    if (found == files_.end()) return NotFound(std::string(name));
    return std::as_bytes(std::span(found->second.data(), found->second.size()));
  }

 private:
  std::string path_ = "memory";
  std::map<std::string, std::string, std::less<>> files_;
};

struct TestPiece {
  std::string text;
  float score = 0;
  int type = 1;  // 1 normal, 2 unknown, 3 control, 4 user-defined, 5 unused, 6 byte
};

inline std::string ProtoVarint(uint64_t value) {
  std::string out;
  for (; value >= 0x80; value >>= 7) out.push_back(static_cast<char>(value | 0x80));
  out.push_back(static_cast<char>(value));
  return out;
}
inline std::string ProtoNumber(int field, uint64_t value) {
  return ProtoVarint(field << 3) + ProtoVarint(value);
}
inline std::string ProtoBytes(int field, std::string_view bytes) {
  return ProtoVarint(field << 3 | 2) + ProtoVarint(bytes.size()) + std::string(bytes);
}

// A tokenizer.model in the making, with the settings of ERNIE's.
struct TestSentencePiece {
  std::vector<TestPiece> pieces;
  int model_type = 2;
  bool byte_fallback = false;
  std::string normalizer = "identity";
  std::string charsmap;
  bool dummy_prefix = false;
  bool remove_extra_spaces = false;

  std::string Serialize() const {
    std::string out;
    for (const TestPiece& piece : pieces) {
      std::string score(4, '\0');
      std::memcpy(score.data(), &piece.score, 4);
      std::string message = ProtoBytes(1, piece.text) + ProtoVarint(2 << 3 | 5) + score;
      if (piece.type != 1) message += ProtoNumber(3, piece.type);
      out += ProtoBytes(1, message);
    }
    out += ProtoBytes(2, ProtoNumber(3, model_type) + ProtoNumber(35, byte_fallback ? 1 : 0));
    std::string normalizer_spec = ProtoBytes(1, normalizer);
    if (!charsmap.empty()) normalizer_spec += ProtoBytes(2, charsmap);
    normalizer_spec +=
        ProtoNumber(3, dummy_prefix ? 1 : 0) + ProtoNumber(4, remove_extra_spaces ? 1 : 0);
    return out + ProtoBytes(3, normalizer_spec);
  }
};

// Outside test data: "" when it is not there.
inline std::string SharedFolder(const std::string& name) {
  const char* shared = std::getenv("ERNE_SHARED");
  const char* source = std::getenv("ERNE_SOURCE");
  const std::string folder =
      (shared != nullptr ? std::string(shared)
                         : std::string(source != nullptr ? source : ".") + "/../shared") +
      "/" + name;
  return std::filesystem::is_directory(folder) ? folder : "";
}

inline std::string SourceFolder(const std::string& name) {
  const char* source = std::getenv("ERNE_SOURCE");
  return std::string(source != nullptr ? source : ".") + "/" + name;
}

inline TokenizerPtr MustLoad(const FileSet& files) {
  Result<TokenizerPtr> tokenizer = LoadTokenizer(files);
  EXPECT_TRUE(tokenizer.ok()) << tokenizer.status().message();
  return tokenizer.ok() ? std::move(*tokenizer) : nullptr;
}

inline TokenizerPtr MustLoadFolder(const std::string& path) {
  const auto files = OpenFolder(path);
  EXPECT_TRUE(files.ok()) << files.status().message();
  return files.ok() ? MustLoad(**files) : nullptr;
}

inline Status LoadError(std::map<std::string, std::string, std::less<>> files) {
  const Result<TokenizerPtr> tokenizer = LoadTokenizer(TestFiles(std::move(files)));
  EXPECT_FALSE(tokenizer.ok());
  return tokenizer.ok() ? Status() : tokenizer.status();
}

// Any characters that a prompt may hold but U+2581, which SentencePiece cannot tell from a space.
inline std::string RandomText(std::mt19937& random) {
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
inline std::string Stream(const Tokenizer& tokenizer, const Ids& ids, bool skip_special) {
  Detokenizer detokenizer(tokenizer, skip_special);
  std::string text;
  for (const int32_t id : ids) {
    const std::string part = detokenizer.Add(id);
    EXPECT_EQ(FindInvalidUtf8(part), std::string_view::npos);
    text += part;
  }
  return text;
}

inline void ExpectRoundTrips(const Tokenizer& tokenizer, int count) {
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

// Pieces: 0 <unk>, 1 <s>, 2 "▁", 3 "a", 4 "b", 5 "ab", 6 "▁a", 7 "[x y]" (user-defined).
inline TestSentencePiece SmallModel() {
  TestSentencePiece model;
  model.pieces = {
      {"<unk>", 0, 2}, {"<s>", 0, 3}, {std::string(kSpaceMark), -3},       {"a", -4},
      {"b", -5},       {"ab", -1},    {std::string(kSpaceMark) + "a", -2}, {"[x y]", 0, 4}};
  return model;
}

}  // namespace erne
