// The tokenizer that works by a TokenizerSpec.
//
// A text goes three steps: added tokens are split off (special ones only out of trusted text), what
// lies between is made into basic symbols (characters, or bytes of words), and neighbours are
// merged.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/status.h"
#include "text/bpe.h"
#include "text/pre_tokenizer.h"
#include "text/token_trie.h"
#include "text/tokenizer.h"
#include "text/tokenizer_spec.h"

namespace erne {

// Immutable after construction; thread-safe.
class BpeTokenizer : public Tokenizer {
 public:
  // Fails when a byte piece is none or there twice, or a byte has no piece in a byte-level
  // vocabulary.
  static Result<std::unique_ptr<const Tokenizer>> Make(TokenizerSpec spec);

  using Tokenizer::Encode;
  std::vector<int32_t> Encode(std::span<const TextPiece> pieces) const override;
  std::string TokenBytes(int32_t token) const override;
  bool IsSpecial(int32_t token) const override;
  std::optional<int32_t> PieceId(std::string_view piece) const override;
  int64_t vocab_size() const override { return static_cast<int64_t>(tokens_.size()); }
  bool adds_prefix_space() const override { return prefix_space_ != PrefixSpace::kNever; }

 private:
  struct Token {
    std::string bytes;
    TokenKind kind = TokenKind::kNone;
  };

  explicit BpeTokenizer(TokenizerSpec& spec);
  void FillTokens(const TokenizerSpec& spec);
  void FillSymbols(const TokenizerSpec& spec);
  void FillTries(const TokenizerSpec& spec);

  // Text between added tokens, as ids. `at_begin`: it is the beginning of the whole text.
  void EncodeOrdinary(std::string_view text, bool at_begin, std::vector<int32_t>& ids) const;
  void EncodeCharacters(std::string_view marked, std::vector<int32_t>& ids) const;
  void EncodeBytes(std::string_view text, std::vector<int32_t>& ids) const;
  bool NeedsPrefix(std::string_view text, bool at_begin, std::string_view space) const;
  int32_t SymbolOf(char32_t character) const;
  // Merges `symbols`, which it clears, and spells what has no piece.
  void MergeInto(std::vector<int32_t>& symbols, std::vector<int32_t>& ids) const;
  // `begin`: where the ids of this row of symbols begin.
  void AppendUnknown(char32_t character, size_t begin, std::vector<int32_t>& ids) const;

  std::vector<Token> tokens_;  // by id
  std::unordered_map<std::string, int32_t> ids_by_piece_;
  BpeMerges merges_;
  std::vector<char32_t> extra_characters_;  // symbols from tokens_.size() on
  std::vector<int32_t> symbols_by_character_;
  std::array<int32_t, 256> byte_ids_;
  std::vector<AddedToken> added_;
  TokenTrie added_trie_;         // values are indexes into added_
  TokenTrie user_defined_trie_;  // user-defined pieces that are no added tokens; values are ids
  int32_t unknown_id_;
  bool fuse_unknown_;
  bool byte_fallback_;
  PrefixSpace prefix_space_;
  bool prefix_unless_space_;
  bool split_words_;
  bool byte_level_;
  PreTokenizer pre_tokenizer_;
  bool ignore_merges_;
  bool compose_;
  std::unordered_map<std::string, int32_t>
      words_;  // normal pieces by their bytes, where merges are ignored
};

}  // namespace erne
