#include "text/tokenizer_spec.h"

#include <charconv>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/strings.h"
#include "base/utf8.h"

namespace erne {
namespace {

// Offsets of the characters of well-formed `text`, its size last.
std::vector<size_t> CharacterOffsets(std::string_view text) {
  std::vector<size_t> offsets;
  for (size_t at = 0; at < text.size(); at += DecodeUtf8(text.substr(at)).length)
    offsets.push_back(at);
  offsets.push_back(text.size());
  return offsets;
}

}  // namespace

std::optional<uint8_t> ByteOfPiece(std::string_view piece) {
  if (piece.size() != 6 || piece.substr(0, 3) != "<0x" || piece[5] != '>') return std::nullopt;
  uint32_t value = 0;
  const auto [end, error] = std::from_chars(piece.data() + 3, piece.data() + 5, value, 16);
  if (error != std::errc() || end != piece.data() + 5) return std::nullopt;
  return static_cast<uint8_t>(value);
}

Status DeriveMerges(const std::vector<uint32_t>& ranks, TokenizerSpec& spec) {
  // Views into the pieces, which stay where they are.
  std::unordered_map<std::string_view, int32_t> symbols;
  symbols.reserve(spec.tokens.size() * 2);
  for (size_t id = 0; id < spec.tokens.size(); ++id) {
    const SpecToken& token = spec.tokens[id];
    if (token.kind != TokenKind::kNormal) continue;
    if (token.piece.size() > kMaxPieceBytes) {
      return Unimplemented(
          StrCat("piece ", id, " has ", token.piece.size(), " bytes, more than ", kMaxPieceBytes));
    }
    if (!symbols.emplace(token.piece, static_cast<int32_t>(id)).second) {
      return DataLoss(StrCat("piece ", id, " is a second `", token.piece, "`"));
    }
  }
  const auto symbol_of_character = [&](std::string_view character) {
    const auto next = static_cast<int32_t>(spec.tokens.size() + spec.extra_characters.size());
    const auto [found, added] = symbols.emplace(character, next);
    if (added) spec.extra_characters.push_back(DecodeUtf8(character).code_point);
    return found->second;
  };
  for (size_t id = 0; id < spec.tokens.size(); ++id) {
    if (spec.tokens[id].kind != TokenKind::kNormal) continue;
    const std::string_view piece = spec.tokens[id].piece;
    const std::vector<size_t> offsets = CharacterOffsets(piece);
    if (offsets.size() <= 2) continue;  // a single character
    std::vector<int32_t> characters;
    for (size_t i = 0; i + 1 < offsets.size(); ++i) {
      characters.push_back(
          symbol_of_character(piece.substr(offsets[i], offsets[i + 1] - offsets[i])));
    }
    for (size_t i = 1; i + 1 < offsets.size(); ++i) {
      const auto left = symbols.find(piece.substr(0, offsets[i]));
      const auto right = symbols.find(piece.substr(offsets[i]));
      if (left == symbols.end() || right == symbols.end()) continue;
      spec.merges.push_back({left->second, right->second, static_cast<int32_t>(id), ranks[id],
                             characters[i - 1], characters[i]});
    }
  }
  return {};
}

}  // namespace erne
