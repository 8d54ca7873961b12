#include "text/bpe_tokenizer.h"

#include <algorithm>
#include <utility>

#include "base/strings.h"
#include "base/unicode/character_class.h"
#include "base/utf8.h"
#include "text/byte_level.h"
#include "text/nfc.h"

namespace erne {
namespace {

constexpr char32_t kSpaceMarkCharacter = 0x2581;

std::string ReplaceAll(std::string_view text, std::string_view from, std::string_view to) {
  std::string out;
  out.reserve(text.size());
  size_t begin = 0;
  while (true) {
    const size_t found = text.find(from, begin);
    out.append(text.substr(begin, found - begin));
    if (found == std::string_view::npos) return out;
    out.append(to);
    begin = found + from.size();
  }
}

// Merges may only make pieces that come out of ordinary text: not those that configuration has made
// special since.
std::vector<BpeMerge> NormalMerges(const TokenizerSpec& spec) {
  std::vector<BpeMerge> merges;
  merges.reserve(spec.merges.size());
  for (const BpeMerge& merge : spec.merges) {
    if (spec.tokens[merge.result].kind == TokenKind::kNormal) merges.push_back(merge);
  }
  return merges;
}

// Text pieces as one text, and which parts of it are trusted. Neighbouring trusted pieces are one
// part.
struct JoinedText {
  explicit JoinedText(std::span<const TextPiece> pieces) {
    for (const TextPiece& piece : pieces) {
      const size_t begin = text.size();
      text += piece.text;
      if (!piece.trusted || piece.text.empty()) continue;
      if (!trusted.empty() && trusted.back().second == begin) {
        trusted.back().second = text.size();
      } else {
        trusted.emplace_back(begin, text.size());
      }
    }
  }

  std::string text;
  std::vector<std::pair<size_t, size_t>> trusted;  // begin, end; ascending
};

size_t SkipSpaceForward(std::string_view text, size_t at) {
  while (at < text.size()) {
    const Utf8Char c = DecodeUtf8(text.substr(at));
    if (c.length == 0 || !IsWhiteSpace(c.code_point)) break;
    at += c.length;
  }
  return at;
}

// The beginning of the white space that ends at `at`, not before `limit`.
size_t SkipSpaceBackward(std::string_view text, size_t limit, size_t at) {
  while (at > limit) {
    size_t begin = at - 1;
    while (begin > limit && (static_cast<uint8_t>(text[begin]) & 0xC0) == 0x80) --begin;
    if (!IsWhiteSpace(DecodeUtf8(text.substr(begin)).code_point)) break;
    at = begin;
  }
  return at;
}

}  // namespace

Result<std::unique_ptr<const Tokenizer>> BpeTokenizer::Make(TokenizerSpec spec) {
  std::array<bool, 256> seen{};
  for (size_t id = 0; id < spec.tokens.size(); ++id) {
    const SpecToken& token = spec.tokens[id];
    if (token.kind != TokenKind::kByte) continue;
    const std::optional<uint8_t> byte = ByteOfPiece(token.piece);
    if (!byte) return DataLoss(StrCat("byte piece ", id, " is not of the form <0xAB>"));
    if (std::exchange(seen[*byte], true))
      return DataLoss(StrCat("there are two pieces ", token.piece));
  }
  auto tokenizer = std::unique_ptr<BpeTokenizer>(new BpeTokenizer(spec));
  for (int byte = 0; byte < 256 && tokenizer->byte_level_; ++byte) {
    if (tokenizer->byte_ids_[byte] >= 0) continue;
    return DataLoss(StrCat("byte ", byte, " has no piece, which a byte-level vocabulary needs"));
  }
  return std::unique_ptr<const Tokenizer>(std::move(tokenizer));
}

BpeTokenizer::BpeTokenizer(TokenizerSpec& spec)
    : merges_(NormalMerges(spec)),
      extra_characters_(std::move(spec.extra_characters)),
      added_(std::move(spec.added)),
      unknown_id_(spec.unknown_id),
      fuse_unknown_(spec.fuse_unknown),
      byte_fallback_(spec.byte_fallback),
      prefix_space_(spec.prefix_space),
      prefix_unless_space_(spec.prefix_unless_space),
      split_words_(spec.split_words),
      byte_level_(spec.byte_level),
      pre_tokenizer_(spec.pre_tokenizer),
      ignore_merges_(spec.ignore_merges),
      compose_(spec.compose) {
  FillTokens(spec);
  FillSymbols(spec);
  FillTries(spec);
}

void BpeTokenizer::FillTokens(const TokenizerSpec& spec) {
  byte_ids_.fill(-1);
  tokens_.resize(spec.tokens.size());
  ids_by_piece_.reserve(spec.tokens.size());
  for (size_t id = 0; id < spec.tokens.size(); ++id) {
    const SpecToken& from = spec.tokens[id];
    Token& token = tokens_[id];
    token.kind = from.kind;
    if (from.kind == TokenKind::kNone) continue;
    ids_by_piece_.emplace(from.piece, static_cast<int32_t>(id));
    if (from.kind == TokenKind::kByte) {
      const uint8_t byte = *ByteOfPiece(from.piece);
      byte_ids_[byte] = static_cast<int32_t>(id);
      token.bytes = std::string(1, static_cast<char>(byte));
    } else if (from.kind == TokenKind::kSpecial ||
               (byte_level_ && from.kind == TokenKind::kUserDefined)) {
      token.bytes = from.piece;
    } else if (byte_level_) {
      token.bytes = BytesOfPiece(from.piece).value_or(from.piece);
    } else {
      token.bytes = ReplaceAll(from.piece, kSpaceMark, " ");
    }
  }
  for (const AddedToken& token : added_) ids_by_piece_[token.content] = token.id;
}

void BpeTokenizer::FillSymbols(const TokenizerSpec& spec) {
  const auto set = [&](char32_t character, size_t symbol) {
    if (character >= symbols_by_character_.size()) symbols_by_character_.resize(character + 1, -1);
    symbols_by_character_[character] = static_cast<int32_t>(symbol);
  };
  for (size_t id = 0; id < spec.tokens.size(); ++id) {
    const SpecToken& token = spec.tokens[id];
    if (token.kind != TokenKind::kNormal) continue;
    const Utf8Char first = DecodeUtf8(token.piece);
    if (first.length == static_cast<int>(token.piece.size())) set(first.code_point, id);
  }
  for (size_t i = 0; i < extra_characters_.size(); ++i) {
    set(extra_characters_[i], tokens_.size() + i);
  }
  for (int byte = 0; byte < 256 && byte_level_; ++byte) {
    byte_ids_[byte] = SymbolOf(CharacterOfByte(static_cast<uint8_t>(byte)));
  }
  for (size_t id = 0; id < spec.tokens.size() && ignore_merges_; ++id) {
    if (spec.tokens[id].kind != TokenKind::kNormal) continue;
    words_.emplace(tokens_[id].bytes, static_cast<int32_t>(id));
  }
}

void BpeTokenizer::FillTries(const TokenizerSpec& spec) {
  std::vector<bool> is_added(spec.tokens.size(), false);
  for (size_t i = 0; i < added_.size(); ++i) {
    added_trie_.Add(added_[i].content, static_cast<int32_t>(i));
    is_added[added_[i].id] = true;
  }
  for (size_t id = 0; id < spec.tokens.size(); ++id) {
    if (spec.tokens[id].kind != TokenKind::kUserDefined || is_added[id]) continue;
    // They are looked for in text whose spaces are marks already.
    user_defined_trie_.Add(ReplaceAll(spec.tokens[id].piece, " ", kSpaceMark),
                           static_cast<int32_t>(id));
  }
}

std::vector<int32_t> BpeTokenizer::Encode(std::span<const TextPiece> pieces) const {
  const JoinedText joined(pieces);
  const std::string_view text = joined.text;
  std::vector<int32_t> ids;
  auto part = joined.trusted.begin();
  size_t pending = 0;  // ordinary text from here on is not encoded yet
  size_t at = 0;
  while (at < text.size()) {
    while (part != joined.trusted.end() && part->second <= at) ++part;
    const size_t trusted_end =
        part != joined.trusted.end() && part->first <= at ? part->second : at;
    const TokenTrie::Found found =
        added_trie_.Match(text.substr(at), [&](int32_t value, size_t length) {
          return !added_[value].special || at + length <= trusted_end;
        });
    if (found.value < 0) {
      ++at;
      continue;
    }
    const AddedToken& token = added_[found.value];
    const size_t end = token.left_strip ? SkipSpaceBackward(text, pending, at) : at;
    EncodeOrdinary(text.substr(pending, end - pending), pending == 0, ids);
    ids.push_back(token.id);
    at += found.length;
    if (token.right_strip) at = SkipSpaceForward(text, at);
    pending = at;
  }
  EncodeOrdinary(text.substr(pending), pending == 0, ids);
  return ids;
}

void BpeTokenizer::EncodeOrdinary(std::string_view text, bool at_begin,
                                  std::vector<int32_t>& ids) const {
  if (text.empty()) return;
  std::string normal = compose_ ? ComposeNfc(text) : std::string(text);
  if (byte_level_) {
    if (NeedsPrefix(normal, at_begin, " ")) normal.insert(0, 1, ' ');
    EncodeBytes(normal, ids);
  } else {
    normal = ReplaceAll(normal, " ", kSpaceMark);
    if (NeedsPrefix(normal, at_begin, kSpaceMark)) normal.insert(0, kSpaceMark);
    EncodeCharacters(normal, ids);
  }
}

bool BpeTokenizer::NeedsPrefix(std::string_view text, bool at_begin, std::string_view space) const {
  if (prefix_space_ == PrefixSpace::kNever) return false;
  if (prefix_space_ == PrefixSpace::kTextBegin && !at_begin) return false;
  return !prefix_unless_space_ || text.substr(0, space.size()) != space;
}

void BpeTokenizer::EncodeBytes(std::string_view text, std::vector<int32_t>& ids) const {
  std::vector<int32_t> symbols;
  for (const std::string_view word : SplitWords(pre_tokenizer_, text)) {
    if (ignore_merges_) {
      const auto found = words_.find(std::string(word));
      if (found != words_.end()) {
        ids.push_back(found->second);
        continue;
      }
    }
    for (const char byte : word) symbols.push_back(byte_ids_[static_cast<uint8_t>(byte)]);
    MergeInto(symbols, ids);
  }
}

// `marked`: the text with its spaces as marks.
void BpeTokenizer::EncodeCharacters(std::string_view marked, std::vector<int32_t>& ids) const {
  std::vector<int32_t> symbols;
  symbols.reserve(marked.size());
  std::string_view rest = marked;
  while (!rest.empty()) {
    const TokenTrie::Found piece = user_defined_trie_.Match(rest);
    if (piece.value >= 0) {
      MergeInto(symbols, ids);
      ids.push_back(piece.value);
      rest.remove_prefix(piece.length);
      continue;
    }
    Utf8Char c = DecodeUtf8(rest);
    // Callers give well-formed text; a broken byte is taken for U+FFFD rather than trusted.
    if (c.length == 0) c = {0xFFFD, 1};
    if (split_words_ && c.code_point == kSpaceMarkCharacter) MergeInto(symbols, ids);
    symbols.push_back(SymbolOf(c.code_point));
    rest.remove_prefix(c.length);
  }
  MergeInto(symbols, ids);
}

// Characters without a symbol are told apart by -1 - code point; they never merge.
int32_t BpeTokenizer::SymbolOf(char32_t character) const {
  const int32_t symbol =
      character < symbols_by_character_.size() ? symbols_by_character_[character] : -1;
  return symbol >= 0 ? symbol : -1 - static_cast<int32_t>(character);
}

void BpeTokenizer::MergeInto(std::vector<int32_t>& symbols, std::vector<int32_t>& ids) const {
  const size_t begin = ids.size();
  merges_.Apply(symbols, ids);
  symbols.clear();
  const auto has_piece = [&](int32_t s) {
    return s >= 0 && static_cast<size_t>(s) < tokens_.size();
  };
  const auto first = std::find_if_not(ids.begin() + begin, ids.end(), has_piece);
  if (first == ids.end()) return;
  const std::vector<int32_t> merged(first, ids.end());
  ids.erase(first, ids.end());
  for (const int32_t symbol : merged) {
    if (has_piece(symbol)) {
      ids.push_back(symbol);
    } else {
      AppendUnknown(symbol < 0 ? static_cast<char32_t>(-1 - symbol)
                               : extra_characters_[symbol - tokens_.size()],
                    begin, ids);
    }
  }
}

void BpeTokenizer::AppendUnknown(char32_t character, size_t begin,
                                 std::vector<int32_t>& ids) const {
  std::string bytes;
  if (byte_fallback_) AppendUtf8(character, bytes);
  const auto has_piece = [&](char byte) { return byte_ids_[static_cast<uint8_t>(byte)] >= 0; };
  if (!bytes.empty() && std::all_of(bytes.begin(), bytes.end(), has_piece)) {
    for (const char byte : bytes) ids.push_back(byte_ids_[static_cast<uint8_t>(byte)]);
  } else if (unknown_id_ >= 0) {
    if (fuse_unknown_ && ids.size() > begin && ids.back() == unknown_id_) return;
    ids.push_back(unknown_id_);
  }
}

std::string BpeTokenizer::TokenBytes(int32_t token) const {
  return token >= 0 && token < vocab_size() ? tokens_[token].bytes : "";
}

bool BpeTokenizer::IsSpecial(int32_t token) const {
  return token >= 0 && token < vocab_size() && tokens_[token].kind == TokenKind::kSpecial;
}

std::optional<int32_t> BpeTokenizer::PieceId(std::string_view piece) const {
  const auto found = ids_by_piece_.find(std::string(piece));
  if (found == ids_by_piece_.end()) return std::nullopt;
  return found->second;
}

}  // namespace erne
