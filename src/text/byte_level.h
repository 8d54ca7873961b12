// How the pieces of byte-level tokenizers spell bytes: each of the 256 by a printable character, as
// GPT-2 began (github.com/openai/gpt-2, encoder.py, bytes_to_unicode). Printable Latin-1 characters
// stand for themselves, the other bytes for U+0100, U+0101, ... in order.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace erne {

char32_t CharacterOfByte(uint8_t byte);
std::optional<uint8_t> ByteOfCharacter(char32_t character);

// The bytes that a piece spells; nothing when it holds any other character.
std::optional<std::string> BytesOfPiece(std::string_view piece);

}  // namespace erne
