#include "cli/tokenize.h"

#include <gtest/gtest.h>

namespace erne {
namespace {

TEST(EscapePieceTest, TextStaysAndTheRestIsSpelled) {
  EXPECT_EQ(EscapePiece("你好, Ünï 𠮷"), "你好, Ünï 𠮷");
  EXPECT_EQ(EscapePiece("a\n\r\tb\\"), "a\\n\\r\\tb\\\\");
  EXPECT_EQ(EscapePiece(std::string_view("\0\x1b\x7f", 3)), "\\x00\\x1b\\x7f");
  EXPECT_EQ(EscapePiece("\xe4\xbd"), "\\xe4\\xbd");
  EXPECT_EQ(EscapePiece("\xe4你\xff"), "\\xe4你\\xff");
  EXPECT_EQ(EscapePiece(""), "");
}

}  // namespace
}  // namespace erne
