#include "base/strings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace erne {
namespace {

using ::testing::ElementsAre;

TEST(Strings, StrCatAndJoin) {
  EXPECT_EQ(StrCat("layer ", 3, ' ', 0.5, std::string("x")), "layer 3 0.5x");
  EXPECT_EQ(Join(std::vector<int>{}, ", "), "");
  EXPECT_EQ(Join(std::vector<int>{1, 2, 3}, ", "), "1, 2, 3");
}

TEST(Strings, Split) {
  EXPECT_THAT(Split("a,b,,c", ','), ElementsAre("a", "b", "", "c"));
  EXPECT_THAT(Split("", ','), ElementsAre(""));
  EXPECT_THAT(Split(",", ','), ElementsAre("", ""));
}

TEST(Strings, Strip) {
  EXPECT_EQ(Strip(" \t\r\n a b \f\v"), "a b");
  EXPECT_EQ(Strip(" \n"), "");
  EXPECT_EQ(Strip(""), "");
}

TEST(Strings, ToLowerAscii) { EXPECT_EQ(ToLowerAscii("ERNIE-4.5 ÄZ@["), "ernie-4.5 Äz@["); }

TEST(Strings, ParseNumber) {
  EXPECT_EQ(ParseNumber<int>("42"), 42);
  EXPECT_EQ(ParseNumber<int>("-42"), -42);
  EXPECT_EQ(ParseNumber<uint16_t>("65535"), 65535);
  EXPECT_EQ(ParseNumber<uint16_t>("65536"), std::nullopt);
  EXPECT_EQ(ParseNumber<unsigned>("-1"), std::nullopt);
  EXPECT_EQ(ParseNumber<double>("1e3"), 1000.0);
  for (const char* bad : {"", " 1", "1 ", "+1", "1x", "x"}) {
    EXPECT_EQ(ParseNumber<int>(bad), std::nullopt) << bad;
    EXPECT_EQ(ParseNumber<double>(bad), std::nullopt) << bad;
  }
  for (const char* bad : {"inf", "-inf", "nan", "infinity", "1e999"}) {
    EXPECT_EQ(ParseNumber<double>(bad), std::nullopt) << bad;
  }
}

TEST(Strings, EditDistance) {
  EXPECT_EQ(EditDistance("", ""), 0);
  EXPECT_EQ(EditDistance("", "abc"), 3);
  EXPECT_EQ(EditDistance("abc", ""), 3);
  EXPECT_EQ(EditDistance("kitten", "sitting"), 3);
  EXPECT_EQ(EditDistance("flaw", "lawn"), 2);
}

TEST(Strings, Nearest) {
  const std::vector<std::string> flags = {"--host", "--port", "--max-model-len", "--max-num-seqs"};
  EXPECT_EQ(Nearest("--prot", flags), "--port");
  EXPECT_EQ(Nearest("--max-model-length", flags), "--max-model-len");
  EXPECT_EQ(Nearest("--tensor-parallel", flags), "");
  EXPECT_EQ(Nearest("x", {}), "");
}

TEST(Strings, FormatFixed) {
  EXPECT_EQ(FormatFixed(2.26, 1), "2.3");
  EXPECT_EQ(FormatFixed(-1, 0), "-1");
  EXPECT_EQ(FormatFixed(1e308, 2).size(), 309U + 3U);
}

TEST(Strings, FormatBytes) {
  EXPECT_EQ(FormatBytes(0), "0 B");
  EXPECT_EQ(FormatBytes(1023), "1023 B");
  EXPECT_EQ(FormatBytes(1536), "1.5 KiB");
  EXPECT_EQ(FormatBytes(uint64_t{3} << 40), "3.0 TiB");
  EXPECT_EQ(FormatBytes(uint64_t{5000} << 40), "5000.0 TiB");
}

}  // namespace
}  // namespace erne
