#include "text/byte_level.h"

#include <optional>

#include <gtest/gtest.h>

namespace erne {
namespace {

TEST(ByteLevel, EachByteHasItsCharacter) {
  for (int byte = 0; byte < 256; ++byte) {
    EXPECT_EQ(ByteOfCharacter(CharacterOfByte(static_cast<uint8_t>(byte))), byte);
  }
  EXPECT_EQ(CharacterOfByte('!'), U'!');
  EXPECT_EQ(CharacterOfByte(' '), U'Ġ');
  EXPECT_EQ(CharacterOfByte('\n'), U'Ċ');
  EXPECT_EQ(ByteOfCharacter(U' '), std::nullopt);
  EXPECT_EQ(ByteOfCharacter(U'世'), std::nullopt);
  EXPECT_EQ(BytesOfPiece("Ġhi"), " hi");
  EXPECT_EQ(BytesOfPiece("ä¸ĸ"), "世");
  EXPECT_EQ(BytesOfPiece("世"), std::nullopt);
}

}  // namespace
}  // namespace erne
