// For tests of what is logged: the log goes into a file of its own for as long as a test runs.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include <gtest/gtest.h>

#include "base/log.h"

namespace erne {

class LogTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (std::filesystem::temp_directory_path() / "erne-log-XXXXXX").string();
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
    ASSERT_TRUE(InitLogging({.file = folder_ + "/log"}).ok());
  }
  void TearDown() override {
    EXPECT_TRUE(InitLogging({}).ok());
    std::filesystem::remove_all(folder_);
  }
  std::string Log() const {
    std::ifstream file(folder_ + "/log");
    std::ostringstream text;
    text << file.rdbuf();
    return text.str();
  }

 private:
  std::string folder_;
};

}  // namespace erne
