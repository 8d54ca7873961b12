#include "cli/token_ids.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace erne {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(TokenIdsTest, CommasSpacesAndBrackets) {
  for (const char* text : {"5,6,7", "5 6 7", " 5,\t6\n7 ", "[5,6,7]", "[5, 6, 7]\n", "5,,6,7,"}) {
    const auto ids = ParseTokenIds("--ids", text, 8);
    ASSERT_TRUE(ids.ok()) << text << ": " << ids.status().message();
    EXPECT_THAT(*ids, ElementsAre(5, 6, 7)) << text;
  }
}

TEST(TokenIdsTest, FaultsNameFlagAndId) {
  const auto fault = [](const char* text) {
    const auto ids = ParseTokenIds("--ids", text, 8);
    return ids.ok() ? "no fault" : ids.status().message();
  };
  EXPECT_EQ(fault("5,x"), "--ids: 'x' is not a token id");
  EXPECT_EQ(fault("5.0"), "--ids: '5.0' is not a token id");
  EXPECT_EQ(fault("5,8"), "--ids: token id 8 is outside the vocabulary of 8");
  EXPECT_EQ(fault("-1"), "--ids: token id -1 is outside the vocabulary of 8");
  EXPECT_THAT(fault("99999999999999999999"), HasSubstr("is not a token id"));
  for (const char* text : {"", " ", "[]", ",", "[ ]"}) EXPECT_THAT(fault(text), HasSubstr("empty"));
  for (const char* text : {"[5", "5]", "[[5]]", "[", "]"})
    EXPECT_THAT(fault(text), HasSubstr("is not a token id"));
}

TEST(TokenIdsTest, PrintedIdsReadBack) {
  const std::vector<int32_t> ids = {0, 7, 3};
  EXPECT_EQ(FormatTokenIds(ids), "[0,7,3]");
  EXPECT_EQ(*ParseTokenIds("--ids", FormatTokenIds(ids), 8), ids);
  EXPECT_EQ(FormatTokenIds({}), "[]");
}

}  // namespace
}  // namespace erne
