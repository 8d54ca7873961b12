#include "base/mapped_file.h"

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

namespace erne {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class MappedFileTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "erne-mapped-file-XXXXXX").string();
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
    path_ = folder_ + "/weights";
    std::ofstream(path_) << std::string(3 * kPage, 'x');
  }
  void TearDown() override { fs::remove_all(folder_); }

  static constexpr size_t kPage = 64 << 10;  // of any machine, or several of its pages
  std::string folder_;
  std::string path_;
};

TEST_F(MappedFileTest, ReleasedPagesAreReadAgain) {
  const auto file = MappedFile::Open(path_).value();
  ASSERT_EQ(file->bytes().size(), 3 * kPage);
  EXPECT_EQ(file->bytes()[kPage], std::byte('x'));
  file->ReleasePages();
  EXPECT_EQ(file->bytes()[kPage], std::byte('x'));
  EXPECT_TRUE(file->CheckUnchanged().ok());
}

TEST_F(MappedFileTest, ChangesAreTold) {
  const auto file = MappedFile::Open(path_).value();
  fs::resize_file(path_, kPage);
  const Status shorter = file->CheckUnchanged();
  EXPECT_EQ(shorter.code(), StatusCode::kDataLoss);
  EXPECT_THAT(shorter.message(), HasSubstr(path_ + ": had 196608 bytes when it was opened and has "
                                                   "65536 now"));
  fs::resize_file(path_, 3 * kPage);
  fs::last_write_time(path_, fs::last_write_time(path_) + std::chrono::seconds(5));
  EXPECT_THAT(file->CheckUnchanged().message(), HasSubstr("was written while it was read"));
}

TEST_F(MappedFileTest, ANewFileInItsPlaceIsNoChange) {
  const auto file = MappedFile::Open(path_).value();
  std::ofstream(folder_ + "/new") << "y";
  fs::rename(folder_ + "/new", path_);
  EXPECT_TRUE(file->CheckUnchanged().ok());
  EXPECT_EQ(file->bytes()[0], std::byte('x'));
}

TEST_F(MappedFileTest, EmptyFiles) {
  std::ofstream(folder_ + "/empty").flush();
  const auto file = MappedFile::Open(folder_ + "/empty").value();
  EXPECT_TRUE(file->bytes().empty());
  EXPECT_TRUE(file->CheckUnchanged().ok());
  file->ReleasePages();
}

#if !defined(__SANITIZE_ADDRESS__) && \
    !defined(__SANITIZE_THREAD__)  // they answer SIGBUS themselves
using MappedFileDeathTest = MappedFileTest;

TEST_F(MappedFileDeathTest, ReadingBytesThatAreGoneNamesTheFile) {
  // Several files, of which one is closed again: the right one is named.
  std::ofstream(folder_ + "/other") << "other";
  const auto other = MappedFile::Open(folder_ + "/other").value();
  MappedFile::Open(folder_ + "/other").value();
  const auto file = MappedFile::Open(path_).value();
  fs::resize_file(path_, 1);
  const volatile std::byte* gone = &file->bytes()[2 * kPage];
  EXPECT_EXIT((void)*gone, testing::ExitedWithCode(1), "erne: .*/weights: became shorter");
}

TEST_F(MappedFileDeathTest, OtherBusErrorsAreNotExplained) {
  const auto file = MappedFile::Open(path_).value();
  EXPECT_EXIT(::raise(SIGBUS), testing::KilledBySignal(SIGBUS), "");
}
#endif

}  // namespace
}  // namespace erne
