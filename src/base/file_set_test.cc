#include "base/file_set.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

namespace erne {
namespace {

using ::testing::HasSubstr;

class FolderTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern =
        (std::filesystem::temp_directory_path() / "erne-file-set-XXXXXX").string();
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
    Write("config.json", "{}");
    Write("empty", "");
    std::filesystem::create_directory(folder_ + "/inner");
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  void Write(const std::string& name, const std::string& text) {
    std::ofstream(folder_ + "/" + name) << text;
  }

  std::string folder_;
};

TEST_F(FolderTest, MapsFiles) {
  const auto files = OpenFolder(folder_ + "//").value();
  EXPECT_EQ(files->path(), folder_);
  EXPECT_TRUE(files->Has("config.json"));
  EXPECT_EQ(files->Text("config.json").value(), "{}");
  // The same mapping each time.
  EXPECT_EQ(files->Map("config.json")->data(), files->Map("config.json")->data());
  EXPECT_TRUE(files->Has("empty"));
  EXPECT_EQ(files->Text("empty").value(), "");
}

TEST_F(FolderTest, ErrorsNameThePath) {
  const auto files = OpenFolder(folder_).value();
  EXPECT_FALSE(files->Has("absent"));
  EXPECT_EQ(files->Map("absent").status().code(), StatusCode::kNotFound);
  EXPECT_THAT(files->Map("absent").status().message(), HasSubstr(folder_ + "/absent"));
  EXPECT_FALSE(files->Has("inner"));
  EXPECT_THAT(files->Map("inner").status().message(), HasSubstr("not a regular file"));
  EXPECT_EQ(OpenFolder(folder_ + "/absent").status().code(), StatusCode::kNotFound);
  EXPECT_THAT(OpenFolder(folder_ + "/config.json").status().message(), HasSubstr("not a folder"));
}

TEST_F(FolderTest, NamesCannotLeaveTheFolder) {
  const auto files = OpenFolder(folder_ + "/inner").value();
  for (const std::string& name :
       {std::string("../config.json"), std::string(".."), std::string("."), std::string(""),
        folder_ + "/config.json", std::string("config.json\0x", 13)}) {
    EXPECT_FALSE(files->Has(name));
    EXPECT_EQ(files->Map(name).status().code(), StatusCode::kInvalidArgument);
    EXPECT_THAT(files->Map(name).status().message(), HasSubstr(folder_ + "/inner: "));
  }
}

// An interrupted download leaves such links in the caches of model hubs.
TEST_F(FolderTest, ALinkToNothingIsNoAbsentFile) {
  std::filesystem::create_symlink("../blobs/0123", folder_ + "/tokenizer.json");
  const auto files = OpenFolder(folder_).value();
  EXPECT_TRUE(files->Has("tokenizer.json"));
  EXPECT_EQ(files->Map("tokenizer.json").status().code(), StatusCode::kNotFound);
  EXPECT_EQ(files->Map("tokenizer.json").status().message(),
            folder_ + "/tokenizer.json: a link to nothing");
}

TEST_F(FolderTest, AFifoDoesNotBlock) {
  ASSERT_EQ(::mkfifo((folder_ + "/pipe").c_str(), 0600), 0);
  const auto files = OpenFolder(folder_).value();
  EXPECT_FALSE(files->Has("pipe"));
  EXPECT_THAT(files->Map("pipe").status().message(), HasSubstr("not a regular file"));
}

TEST_F(FolderTest, ManyThreads) {
  const auto files = OpenFolder(folder_).value();
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int n = 0; n < 100; ++n) EXPECT_EQ(files->Text("config.json").value(), "{}");
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(EmbeddedFileSet, HoldsWhatItWasGiven) {
  static constexpr char kText[] = "{}";
  const auto files =
      MakeEmbeddedFileSet("embedded:x", {{"config.json", std::as_bytes(std::span(kText, 2))}});
  EXPECT_EQ(files->path(), "embedded:x");
  EXPECT_TRUE(files->Has("config.json"));
  EXPECT_EQ(files->Text("config.json").value(), "{}");
  EXPECT_FALSE(files->Has("absent"));
  EXPECT_EQ(files->Map("absent").status().code(), StatusCode::kNotFound);
  EXPECT_THAT(files->Map("absent").status().message(), HasSubstr("embedded:x/absent"));
}

}  // namespace
}  // namespace erne
