#include "text/byte_level.h"

#include <array>

#include "base/utf8.h"

namespace erne {
namespace {

constexpr bool StandsForItself(int byte) {
  return (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

constexpr std::array<char32_t, 256> MakeCharacters() {
  std::array<char32_t, 256> characters{};
  char32_t next = 0x100;
  for (int byte = 0; byte < 256; ++byte) {
    characters[byte] = StandsForItself(byte) ? static_cast<char32_t>(byte) : next++;
  }
  return characters;
}
constexpr std::array<char32_t, 256> kCharacters = MakeCharacters();
constexpr char32_t kCharactersEnd = 0x100 + 68;  // 68 bytes do not stand for themselves

constexpr std::array<int16_t, kCharactersEnd> MakeBytes() {
  std::array<int16_t, kCharactersEnd> bytes{};
  for (int16_t& byte : bytes) byte = -1;
  for (int byte = 0; byte < 256; ++byte) bytes[kCharacters[byte]] = static_cast<int16_t>(byte);
  return bytes;
}
constexpr std::array<int16_t, kCharactersEnd> kBytes = MakeBytes();

}  // namespace

char32_t CharacterOfByte(uint8_t byte) { return kCharacters[byte]; }

std::optional<uint8_t> ByteOfCharacter(char32_t character) {
  if (character >= kCharactersEnd || kBytes[character] < 0) return std::nullopt;
  return static_cast<uint8_t>(kBytes[character]);
}

std::optional<std::string> BytesOfPiece(std::string_view piece) {
  std::string bytes;
  while (!piece.empty()) {
    const Utf8Char c = DecodeUtf8(piece);
    const std::optional<uint8_t> byte = c.length > 0 ? ByteOfCharacter(c.code_point) : std::nullopt;
    if (!byte) return std::nullopt;
    bytes.push_back(static_cast<char>(*byte));
    piece.remove_prefix(c.length);
  }
  return bytes;
}

}  // namespace erne
