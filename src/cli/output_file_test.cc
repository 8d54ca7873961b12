#include "cli/output_file.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace erne {
namespace {

using ::testing::HasSubstr;

class OutputFileTest : public ::testing::Test {
 protected:
  OutputFileTest() {
    std::string pattern = ::testing::TempDir() + "/output_file.XXXXXX";
    folder_ = ::mkdtemp(pattern.data());
  }
  ~OutputFileTest() override { std::filesystem::remove_all(folder_); }

  std::string Path(const char* name) const { return folder_ + "/" + name; }
  static std::string Read(const std::string& path) {
    std::stringstream text;
    text << std::ifstream(path).rdbuf();
    return text.str();
  }
  std::ptrdiff_t Files() const {
    return std::distance(std::filesystem::directory_iterator(folder_), {});
  }

  std::string folder_;
};

TEST_F(OutputFileTest, AppearsWhenItIsWritten) {
  const auto file = OutputFile::Create("--json", Path("a")).value();
  EXPECT_FALSE(std::filesystem::exists(Path("a")));
  ASSERT_TRUE(file->Write("all of it").ok());
  EXPECT_EQ(Read(Path("a")), "all of it");
  EXPECT_EQ(Files(), 1);
}

TEST_F(OutputFileTest, WhatStoodThereStaysUntilThen) {
  std::ofstream(Path("a")) << "before";
  {
    const auto file = OutputFile::Create("--json", Path("a")).value();
    EXPECT_EQ(Read(Path("a")), "before");
  }
  EXPECT_EQ(Read(Path("a")), "before");
  EXPECT_EQ(Files(), 1);
  ASSERT_TRUE(OutputFile::Create("--json", Path("a")).value()->Write("after").ok());
  EXPECT_EQ(Read(Path("a")), "after");
}

TEST_F(OutputFileTest, FaultsComeFirst) {
  const Status none = OutputFile::Create("--json", Path("no/such/a")).status();
  EXPECT_THAT(none.message(), HasSubstr("--json: " + Path("no/such/a")));
  EXPECT_EQ(none.param(), "--json");
  EXPECT_THAT(OutputFile::Create("--json", folder_).status().message(),
              HasSubstr("is no file that can be replaced"));
  EXPECT_EQ(Files(), 0);
}

}  // namespace
}  // namespace erne
