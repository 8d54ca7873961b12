#include "base/log.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "base/json.h"
#include "base/strings.h"

namespace erne {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using ::testing::Not;
using ::testing::StartsWith;

class LogTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (std::filesystem::temp_directory_path() / "erne-log-XXXXXX").string();
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
    options_.file = folder_ + "/logs/deep/erne.log";
  }
  void TearDown() override {
    EXPECT_TRUE(InitLogging({}).ok());
    std::filesystem::remove_all(folder_);
  }
  std::vector<std::string> Lines() const {
    std::ifstream file(options_.file);
    std::vector<std::string> lines;
    for (std::string line; std::getline(file, line);) lines.push_back(line);
    return lines;
  }

  std::string folder_;
  LogOptions options_;
};

TEST_F(LogTest, LineFormat) {
  ASSERT_TRUE(InitLogging(options_).ok());
  ERNE_LOG(kInfo, "engine") << "started " << 3;
  ERNE_LOG(kError, "http") << "bad";
  ERNE_LOG(kDebug, "http") << "not shown";
  const auto lines = Lines();
  ASSERT_EQ(lines.size(), 2u);
  const std::string time = "[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9]{2}:[0-9]{2}:[0-9]{2},[0-9]{3}";
  EXPECT_THAT(lines[0], MatchesRegex(time + " INFO \\[engine:[0-9]+\\] started 3"));
  EXPECT_THAT(
      lines[1],
      MatchesRegex(time + " ERROR \\[http:[0-9]+\\] bad"));  // no colour: this is no terminal
}

TEST_F(LogTest, LevelDecidesWhetherArgumentsAreEvaluated) {
  options_.min_level = LogLevel::kWarning;
  ASSERT_TRUE(InitLogging(options_).ok());
  int evaluated = 0;
  ERNE_LOG(kInfo, "test") << ++evaluated;
  ERNE_LOG(kWarning, "test") << ++evaluated;
  EXPECT_EQ(evaluated, 1);
  EXPECT_FALSE(LogEnabled(LogLevel::kInfo));
  EXPECT_TRUE(LogEnabled(LogLevel::kError));
}

TEST_F(LogTest, JsonLines) {
  options_.format = LogFormat::kJson;
  ASSERT_TRUE(InitLogging(options_).ok());
  WriteLog(LogLevel::kWarning, "kv", 12, "two\nlines \"quoted\" \xFF");
  const auto lines = Lines();
  ASSERT_EQ(lines.size(), 1u);
  const Json entry = Json::Parse(lines[0]).value();
  EXPECT_EQ(entry.Find("level")->AsString(), "WARNING");
  EXPECT_EQ(entry.Find("component")->AsString(), "kv");
  EXPECT_EQ(entry.Find("line")->AsInt(), 12);
  EXPECT_EQ(entry.Find("text")->AsString(), "two\nlines \"quoted\" \xEF\xBF\xBD");
}

TEST_F(LogTest, OnlyATerminalGetsColours) {
  const int terminal = ::posix_openpt(O_RDWR | O_NOCTTY);
  ASSERT_GE(terminal, 0);
  ASSERT_EQ(::grantpt(terminal), 0);
  ASSERT_EQ(::unlockpt(terminal), 0);
  options_.file = ::ptsname(terminal);
  ASSERT_TRUE(InitLogging(options_).ok());
  ERNE_LOG(kInfo, "test") << "plain";
  ERNE_LOG(kWarning, "test") << "careful";
  WriteLog(LogLevel::kWarning, "test", 1, "alarm", LogColour::kRed);
  WriteLog(LogLevel::kDebug, "test", 1, "not logged", LogColour::kRed);
  ERNE_LOG(kError, "test") << "bad";
  std::string text;
  char buffer[4096];
  while (text.find("bad\033[0m") == text.npos) {
    const ssize_t count = ::read(terminal, buffer, sizeof(buffer));
    ASSERT_GT(count, 0) << text;
    text.append(buffer, static_cast<size_t>(count));
  }
  ::close(terminal);
  const std::vector<std::string> lines = Split(text, '\n');
  ASSERT_EQ(lines.size(), 5U) << text;
  EXPECT_THAT(lines[0], Not(HasSubstr("\033")));
  EXPECT_THAT(lines[1], AllOf(StartsWith("\033[33m"), HasSubstr("WARNING"), HasSubstr("careful\033[0m")));
  EXPECT_THAT(lines[2], AllOf(StartsWith("\033[31m"), HasSubstr("WARNING"), HasSubstr("alarm\033[0m")));
  EXPECT_THAT(lines[3], AllOf(StartsWith("\033[31m"), HasSubstr("ERROR")));
}

TEST_F(LogTest, OneEntryIsOneLine) {
  ASSERT_TRUE(InitLogging(options_).ok());
  ERNE_LOG(kInfo, "a") << "loading new\nline\x1b[31m \xFF 你好 C:\\new";
  const auto lines = Lines();
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_THAT(lines[0], HasSubstr("loading new\\nline\\x1b[31m \\xff 你好 C:\\new"));
}

TEST_F(LogTest, AppendsToAnExistingFile) {
  ASSERT_TRUE(InitLogging(options_).ok());
  ERNE_LOG(kInfo, "a") << "first";
  ASSERT_TRUE(InitLogging(options_).ok());
  ERNE_LOG(kInfo, "a") << "second";
  const auto lines = Lines();
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_THAT(lines[0], HasSubstr("first"));
}

TEST_F(LogTest, LinesOfSeveralThreadsDoNotMix) {
  ASSERT_TRUE(InitLogging(options_).ok());
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([t] {
      for (int i = 0; i < 200; ++i)
        ERNE_LOG(kInfo, "test") << std::string(100, static_cast<char>('a' + t));
    });
  }
  for (std::thread& thread : threads) thread.join();
  const auto lines = Lines();
  ASSERT_EQ(lines.size(), 800u);
  for (const std::string& line : lines) {
    const std::string text = line.substr(line.find("] ") + 2);
    EXPECT_EQ(text, std::string(100, text[0]));
  }
}

TEST_F(LogTest, AFileThatCannotBeOpenedIsNamed) {
  options_.file = folder_;
  const Status status = InitLogging(options_);
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr(folder_));
  EXPECT_EQ(status.param(), "--log-file");
}

TEST_F(LogTest, AFolderThatCannotBeMadeIsNamed) {
  std::ofstream(folder_ + "/file") << "";
  options_.file = folder_ + "/file/logs/erne.log";
  const Status status = InitLogging(options_);
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr("folder " + folder_ + "/file/logs: "));
}

}  // namespace
}  // namespace erne
