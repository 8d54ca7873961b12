#include "cli/flags.h"

#include <cstdlib>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace erne {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

class FlagsTest : public ::testing::Test {
 protected:
  FlagsTest() {
    flags_.Add("port", &port_, "PORT", {"Port of the API", "API 端口"}).Range(0, 65535);
    flags_.Add("max-model-len", &max_len_, "N", {"Context", "上下文长度"})
        .Range(1, 1e9)
        .Word("auto", 0)
        .DefaultText("auto");
    flags_.Add("fraction", &fraction_, "X", {"Share", "比例"}).Range(0, 1);
    flags_.Add("dtype", &dtype_, "TYPE", {"Type", "类型"})
        .Choices({"auto", "half", "float32"})
        .Alias("-d");
    flags_.Add("served-model-name", &names_, "NAME...", {"Names", "名称"});
    flags_.Add("enable-prefix-caching", &caching_, {"Cache", "缓存"});
    flags_.Add("secret", &secret_, {"Hidden", "隐藏"}).Hidden();
    flags_.Positional(&models_, 1);
    flags_.Tolerate("enforce-eager", true, "there are no graphs to turn off");
    flags_.Tolerate("swap-space", false, "nothing is swapped");
    flags_.Refuse("pipeline-parallel-size", false, "one device only", {"1"});
    flags_.Refuse("enable-lora", true, "adapters are not supported");
  }

  std::string Error(const std::vector<std::string>& arguments) {
    const Status status = flags_.Parse(arguments);
    EXPECT_FALSE(status.ok());
    return status.message();
  }

  int64_t port_ = 8000;
  int64_t max_len_ = 0;
  double fraction_ = 0.5;
  std::string dtype_ = "auto";
  std::vector<std::string> names_;
  std::vector<std::string> models_;
  bool caching_ = true;
  bool secret_ = false;
  FlagTable flags_{"erne test [MODEL]", {"Tests.", "测试。"}};
};

TEST_F(FlagsTest, NothingGivenKeepsDefaults) {
  ASSERT_TRUE(flags_.Parse({}).ok());
  EXPECT_EQ(port_, 8000);
  EXPECT_EQ(dtype_, "auto");
  EXPECT_FALSE(flags_.Given("port"));
}

TEST_F(FlagsTest, BothSpellingsOfAValue) {
  ASSERT_TRUE(flags_.Parse({"--port", "1234", "--dtype=half", "--fraction", "0.25"}).ok());
  EXPECT_EQ(port_, 1234);
  EXPECT_EQ(dtype_, "half");
  EXPECT_EQ(fraction_, 0.25);
  EXPECT_TRUE(flags_.Given("port"));
}

TEST_F(FlagsTest, UnderscoresAndAliases) {
  ASSERT_TRUE(flags_.Parse({"--max_model_len", "77", "-d", "half"}).ok());
  EXPECT_EQ(max_len_, 77);
  EXPECT_EQ(dtype_, "half");
}

TEST_F(FlagsTest, UnderscoresInValuesStay) {
  ASSERT_TRUE(flags_.Parse({"--served_model_name=my_model"}).ok());
  EXPECT_THAT(names_, ElementsAre("my_model"));
}

TEST_F(FlagsTest, Switches) {
  ASSERT_TRUE(flags_.Parse({"--no-enable-prefix-caching", "--secret"}).ok());
  EXPECT_FALSE(caching_);
  EXPECT_TRUE(secret_);
  ASSERT_TRUE(flags_.Parse({"--enable_prefix_caching", "--secret=false"}).ok());
  EXPECT_TRUE(caching_);
  EXPECT_FALSE(secret_);
  EXPECT_THAT(Error({"--secret=maybe"}), HasSubstr("'maybe' is neither true nor false"));
}

TEST_F(FlagsTest, ASwitchTakesNoFollowingValue) {
  ASSERT_TRUE(flags_.Parse({"--secret", "model"}).ok());
  EXPECT_THAT(models_, ElementsAre("model"));
}

TEST_F(FlagsTest, ListsRunToTheNextFlagAndAdd) {
  names_ = {"default"};
  ASSERT_TRUE(
      flags_.Parse({"m", "--served-model-name", "a", "b", "--port", "1", "--served-model-name=c"})
          .ok());
  EXPECT_THAT(names_, ElementsAre("a", "b", "c"));
  EXPECT_THAT(models_, ElementsAre("m"));
}

TEST_F(FlagsTest, NumbersWithSuffixes) {
  ASSERT_TRUE(flags_.Parse({"--max-model-len", "2K"}).ok());
  EXPECT_EQ(max_len_, 2048);
  ASSERT_TRUE(flags_.Parse({"--max-model-len", "2k"}).ok());
  EXPECT_EQ(max_len_, 2000);
  ASSERT_TRUE(flags_.Parse({"--max-model-len", "3KiB"}).ok());
  EXPECT_EQ(max_len_, 3072);
  for (const char* broken : {"iB", "KiB", "2iB", "2kiB", "2KB", "2.5KiB"}) {
    EXPECT_THAT(Error({"--max-model-len", broken}), HasSubstr("is not a whole number")) << broken;
  }
  ASSERT_TRUE(flags_.Parse({"--max-model-len", "25.6k"}).ok());
  EXPECT_EQ(max_len_, 25600);
  ASSERT_TRUE(flags_.Parse({"--max-model-len", "auto"}).ok());
  EXPECT_EQ(max_len_, 0);
  EXPECT_THAT(Error({"--max-model-len", "1.5K"}), HasSubstr("not a whole number"));
  EXPECT_THAT(Error({"--max-model-len", "99999999999T"}), HasSubstr("not a whole number"));
}

TEST_F(FlagsTest, BadValuesNameFlagAndValue) {
  EXPECT_EQ(Error({"--port", "abc"}), "--port: 'abc' is not a whole number");
  EXPECT_EQ(Error({"--port=70000"}), "--port: '70000' is not within 0..65535");
  EXPECT_EQ(Error({"--port", "-1"}), "--port: '-1' is not within 0..65535");
  EXPECT_EQ(Error({"--fraction", "nan"}), "--fraction: 'nan' is not a number");
  EXPECT_EQ(Error({"--dtype", "halv"}),
            "--dtype: 'halv' is none of auto, half, float32; did you mean half?");
  EXPECT_EQ(Error({"--port", "--dtype"}), "--port needs a value");
  EXPECT_EQ(Error({"--dtype="}), "--dtype needs a value");
  EXPECT_EQ(Error({"--served-model-name"}), "--served-model-name needs a value");
}

TEST_F(FlagsTest, UnknownFlagsNameTheNearest) {
  EXPECT_EQ(Error({"--max-model-length", "3"}),
            "unknown flag --max-model-length; did you mean --max-model-len?");
  EXPECT_EQ(Error({"--served"}), "unknown flag --served; did you mean --served-model-name?");
  EXPECT_EQ(Error({"--no-port"}), "unknown flag --no-port; did you mean --port?");
  EXPECT_EQ(Error({"--qqqqqqqqqqqq"}), "unknown flag --qqqqqqqqqqqq (--help lists the flags)");
  EXPECT_EQ(Error({"-p"}), "unknown flag -p (--help lists the flags)");
  EXPECT_EQ(flags_.Parse({"--prot", "1"}).param(), "--prot");
}

TEST_F(FlagsTest, Positionals) {
  EXPECT_EQ(Error({"a", "b"}), "unexpected argument 'b'");
  EXPECT_EQ(Error({""}), "an argument is empty");
  ASSERT_TRUE(flags_.Parse({"--", "--odd-name"}).ok());
  EXPECT_THAT(models_, ElementsAre("--odd-name"));
}

TEST_F(FlagsTest, ToleratedFlagsWarn) {
  ASSERT_TRUE(
      flags_.Parse({"--enforce-eager", "--swap_space", "4", "--pipeline-parallel-size=1"}).ok());
  EXPECT_THAT(
      flags_.warnings(),
      ElementsAre("--enforce-eager is accepted and has no effect: there are no graphs to turn off",
                  "--swap-space is accepted and has no effect: nothing is swapped",
                  "--pipeline-parallel-size 1 changes nothing here"));
}

TEST_F(FlagsTest, RefusedFlagsSayWhy) {
  EXPECT_EQ(Error({"--pipeline-parallel-size", "2"}),
            "--pipeline-parallel-size 2: one device only");
  EXPECT_EQ(Error({"--enable-lora"}), "--enable-lora: adapters are not supported");
  EXPECT_TRUE(flags_.Parse({"--no-enable-lora"}).ok());
}

TEST_F(FlagsTest, HelpInBothLanguages) {
  ASSERT_TRUE(flags_.Parse({"-h"}).ok());
  EXPECT_TRUE(flags_.help_requested());
  const std::string english = flags_.Help(Language::kEnglish);
  EXPECT_THAT(english, HasSubstr("Usage: erne test [MODEL]\n\nTests.\n"));
  EXPECT_THAT(english, HasSubstr("Port of the API (default 8000)"));
  EXPECT_THAT(english, HasSubstr("--dtype, -d TYPE"));
  EXPECT_THAT(english, HasSubstr("Context (default auto)"));
  EXPECT_THAT(english, HasSubstr("--[no-]enable-prefix-caching"));
  EXPECT_THAT(english, HasSubstr("without effect: --enforce-eager --swap-space\n"));
  EXPECT_THAT(english, Not(HasSubstr("secret")));
  const std::string chinese = flags_.Help(Language::kChinese);
  EXPECT_THAT(chinese, HasSubstr("用法：erne test [MODEL]\n\n测试。\n"));
  EXPECT_THAT(chinese, HasSubstr("API 端口（默认 8000）"));
  EXPECT_THAT(FlagTable("erne x MODEL [flags]", {"", ""}).Help(Language::kChinese),
              HasSubstr("用法：erne x MODEL [参数]\n"));
}

TEST_F(FlagsTest, HelpShowsDefaultsAfterParsingToo) {
  ASSERT_TRUE(flags_.Parse({"--port", "9", "--help", "--nonsense"}).ok());
  EXPECT_THAT(flags_.Help(Language::kEnglish), HasSubstr("(default 8000)"));
}

TEST(UserLanguageTest, FirstVariableThatIsSetDecides) {
  ::setenv("LC_ALL", "", 1);
  ::setenv("LC_MESSAGES", "zh_CN.UTF-8", 1);
  ::setenv("LANG", "en_US.UTF-8", 1);
  EXPECT_EQ(UserLanguage(), Language::kChinese);
  ::setenv("LC_ALL", "C", 1);
  EXPECT_EQ(UserLanguage(), Language::kEnglish);
  ::unsetenv("LC_ALL");
  ::unsetenv("LC_MESSAGES");
  EXPECT_EQ(UserLanguage(), Language::kEnglish);
}

}  // namespace
}  // namespace erne
