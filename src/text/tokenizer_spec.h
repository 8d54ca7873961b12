// What a tokenizer file says, in one form for every kind of file: the readers (sentencepiece_model,
// tokenizer_json) make one, BpeTokenizer works by it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/status.h"
#include "text/bpe.h"
#include "text/pre_tokenizer.h"

namespace erne {

// U+2581, which stands for a space in the pieces of SentencePiece.
inline constexpr std::string_view kSpaceMark = "\xE2\x96\x81";

// More than any real vocabulary (the largest known have about 260,000); bounds what a hostile id
// makes us allocate.
inline constexpr int64_t kMaxTokenId = (int64_t{1} << 22) - 1;
// Pieces that merging may make are at most this long; real ones stay below 400 bytes.
inline constexpr size_t kMaxPieceBytes = 1024;

enum class TokenKind : uint8_t {
  kNone,         // no piece has this id
  kNormal,       // made by merging
  kByte,         // stands for one byte of a character without a piece
  kUserDefined,  // found in any text before merging begins
  kSpecial,      // control token or <unk>: never comes out of ordinary text
};

struct SpecToken {
  std::string piece;
  TokenKind kind = TokenKind::kNone;
};

// A token that is not part of the merging: split off before it, in ordinary text too unless it is
// special.
struct AddedToken {
  int32_t id = -1;
  std::string content;
  bool special = false;
  bool left_strip = false;   // takes the white space before it along
  bool right_strip = false;  // and after it
};

// Where a space is put in front of a text ("Hello" then is tokenized as " Hello").
enum class PrefixSpace {
  kNever,
  kTextBegin,    // only before the very beginning, not after a special token
  kEachSegment,  // at the beginning and after each added token
};

struct TokenizerSpec {
  std::vector<SpecToken> tokens;  // by id
  std::vector<BpeMerge> merges;
  // Characters that occur in pieces but are none themselves: symbol tokens.size() + i is
  // extra_characters[i].
  std::vector<char32_t> extra_characters;
  std::vector<AddedToken> added;

  int32_t unknown_id = -1;   // -1: characters that cannot be told are dropped
  bool fuse_unknown = true;  // several unknown characters in a row make one token
  bool byte_fallback = false;

  PrefixSpace prefix_space = PrefixSpace::kNever;
  bool prefix_unless_space = false;  // no second space where the text begins with one
  bool split_words = false;  // merging never crosses the beginning of a word (Metaspace with split)

  bool byte_level = false;  // symbols are bytes, spelled as printable characters in the pieces
  PreTokenizer pre_tokenizer = PreTokenizer::kNone;
  bool ignore_merges = false;  // a word that is a piece is that piece, whatever the merges say
  bool compose = false;        // Unicode normalization form C first
};

// The value of a byte piece `<0xAB>`, or nothing.
std::optional<uint8_t> ByteOfPiece(std::string_view piece);

// The merges that `spec.tokens` allow when any two neighbours whose joined text is a normal piece
// may merge, as in SentencePiece; `ranks` holds one rank for each token (lower first). Fills merges
// and extra_characters.
Status DeriveMerges(const std::vector<uint32_t>& ranks, TokenizerSpec& spec);

}  // namespace erne
