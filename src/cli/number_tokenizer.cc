#include "cli/number_tokenizer.h"

#include <utility>

#include "base/check.h"
#include "base/strings.h"

namespace erne {
namespace {

class NumberTokenizer final : public Tokenizer {
 public:
  explicit NumberTokenizer(int64_t vocab_size) : vocab_size_(vocab_size) {
    ERNE_CHECK(vocab_size > 0);
  }

  std::vector<int32_t> Encode(std::span<const TextPiece> pieces) const override {
    std::string text;
    for (const TextPiece& piece : pieces) text += piece.text;
    std::vector<int32_t> tokens;
    uint64_t hash = kStart;
    for (const char c : text + " ") {
      if (c != ' ' && c != '\n' && c != '\t' && c != '\r') {
        hash = (hash ^ static_cast<unsigned char>(c)) * kPrime;
      } else if (hash != kStart) {
        tokens.push_back(static_cast<int32_t>(hash % static_cast<uint64_t>(vocab_size_)));
        hash = kStart;
      }
    }
    return tokens;
  }
  std::string TokenBytes(int32_t token) const override {
    return token >= 0 && token < vocab_size_ ? StrCat(" t", token) : "";
  }
  bool IsSpecial(int32_t) const override { return false; }
  std::optional<int32_t> PieceId(std::string_view) const override { return std::nullopt; }
  int64_t vocab_size() const override { return vocab_size_; }
  bool adds_prefix_space() const override { return false; }

 private:
  // FNV-1a, 64 bits.
  static constexpr uint64_t kStart = 0xCBF29CE484222325;
  static constexpr uint64_t kPrime = 0x100000001B3;

  const int64_t vocab_size_;
};

}  // namespace

std::unique_ptr<const Tokenizer> MakeNumberTokenizer(int64_t vocab_size) {
  return std::make_unique<const NumberTokenizer>(vocab_size);
}

}  // namespace erne
