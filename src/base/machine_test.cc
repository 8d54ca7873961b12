#include "base/machine.h"

#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "base/strings.h"

namespace erne {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kMiB = 1 << 20;

// Folders with the files that a test writes; there are none at first.
class MachineTest : public testing::Test {
 protected:
  MachineTest()
      : root_(fs::temp_directory_path() /
              StrCat("erne-machine-", ::getpid(), "-",
                     testing::UnitTest::GetInstance()->current_test_info()->name())) {
    fs::create_directories(root_);
    files_ = {(root_ / "proc").string(), (root_ / "cgroup").string(), (root_ / "node").string()};
  }
  ~MachineTest() override { fs::remove_all(root_); }

  void Write(const std::string& name, const std::string& text) {
    fs::create_directories((root_ / name).parent_path());
    std::ofstream(root_ / name) << text;
  }
  void WriteMemInfo() {
    Write("proc/meminfo",
          "MemTotal:       1048576 kB\nMemFree:         1000 kB\nMemAvailable:     524288 kB\n"
          "HugePages_Total:       0\n");
  }

  fs::path root_;
  MachineFiles files_;
};

TEST_F(MachineTest, NothingIsKnownWithoutFiles) {
  EXPECT_EQ(TotalMemory(files_), 0U);
  EXPECT_EQ(AvailableMemory(files_), 0U);
  EXPECT_GE(UsableCpus(files_), 1);
}

TEST_F(MachineTest, NodesAreThoseWhoseCpusMayBeUsed) {
  EXPECT_THAT(NodesInUse(files_), testing::IsEmpty());
  const std::vector<int> cpus = AllowedCpus();
  ASSERT_FALSE(cpus.empty());
  Write("node/online", "0,2-3\n");
  Write("node/node0/cpulist", "\n");  // memory alone
  Write("node/node2/cpulist", StrCat(cpus.back(), "\n"));
  Write("node/node3/cpulist", StrCat(cpus.back() + 1, "-", cpus.back() + 9, "\n"));
  EXPECT_THAT(NodesInUse(files_), testing::ElementsAre(2));
  Write("node/node3/cpulist", StrCat("x,", cpus.front(), "-", cpus.front(), "\n"));
  EXPECT_THAT(NodesInUse(files_), testing::ElementsAre(2, 3));
}

TEST_F(MachineTest, TheMachineAlone) {
  WriteMemInfo();
  Write("proc/self/cgroup", "0::/\n");
  EXPECT_EQ(TotalMemory(files_), 1024 * kMiB);
  EXPECT_EQ(AvailableMemory(files_), 512 * kMiB);
}

TEST_F(MachineTest, AGroupWithoutALimitBoundsNothing) {
  WriteMemInfo();
  Write("proc/self/cgroup", "0::/\n");
  Write("cgroup/memory.max", "max\n");
  Write("cgroup/memory.current", "1000\n");
  Write("cgroup/cpu.max", "max 100000\n");
  EXPECT_EQ(TotalMemory(files_), 1024 * kMiB);
  EXPECT_EQ(AvailableMemory(files_), 512 * kMiB);
  EXPECT_EQ(UsableCpus(files_), UsableCpus({"/nowhere", "/nowhere"}));
}

TEST_F(MachineTest, TheLimitOfAContainer) {
  WriteMemInfo();
  Write("proc/self/cgroup", "0::/\n");
  Write("cgroup/memory.max", StrCat(100 * kMiB, "\n"));
  Write("cgroup/memory.current", StrCat(60 * kMiB, "\n"));
  Write("cgroup/memory.stat", StrCat("anon 7\ninactive_file ", 20 * kMiB, "\nfile 9\n"));
  Write("cgroup/cpu.max", "50000 100000\n");
  EXPECT_EQ(TotalMemory(files_), 100 * kMiB);
  EXPECT_EQ(AvailableMemory(files_), 60 * kMiB) << "pages of files count as free";
  EXPECT_EQ(UsableCpus(files_), 1);
}

TEST_F(MachineTest, LimitsOfOuterGroupsHold) {
  WriteMemInfo();
  Write("proc/self/cgroup", "0::/a.slice/b.service\n");
  Write("cgroup/a.slice/b.service/memory.max", StrCat(300 * kMiB, "\n"));
  Write("cgroup/a.slice/b.service/memory.current", StrCat(kMiB, "\n"));
  Write("cgroup/a.slice/memory.max", StrCat(200 * kMiB, "\n"));
  Write("cgroup/a.slice/memory.current", StrCat(150 * kMiB, "\n"));
  EXPECT_EQ(TotalMemory(files_), 200 * kMiB);
  EXPECT_EQ(AvailableMemory(files_), 50 * kMiB);
}

TEST_F(MachineTest, MoreUsedThanAllowedLeavesNothing) {
  Write("proc/self/cgroup", "0::/\n");
  Write("cgroup/memory.max", "1000\n");
  Write("cgroup/memory.current", "2000\n");
  Write("cgroup/memory.stat", "inactive_file 500\n");
  EXPECT_EQ(AvailableMemory(files_), 0U);
}

TEST_F(MachineTest, VersionOneByControllerAndWithAPathOfTheHost) {
  WriteMemInfo();
  Write("proc/self/cgroup", "4:memory:/docker/0123\n3:cpu,cpuacct:/docker/0123\n0::/\n");
  Write("cgroup/memory/memory.limit_in_bytes", StrCat(400 * kMiB, "\n"));
  Write("cgroup/memory/memory.usage_in_bytes", StrCat(100 * kMiB, "\n"));
  Write("cgroup/memory/memory.stat",
        StrCat("inactive_file 1\ntotal_inactive_file ", 10 * kMiB, "\n"));
  Write("cgroup/cpu/docker/0123/cpu.cfs_quota_us", "90000\n");
  Write("cgroup/cpu/docker/0123/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(TotalMemory(files_), 400 * kMiB);
  EXPECT_EQ(AvailableMemory(files_), 310 * kMiB);
  EXPECT_EQ(UsableCpus(files_), 1);
}

TEST_F(MachineTest, OddLinesAreNoGroups) {
  WriteMemInfo();
  Write("proc/self/cgroup", "\nnonsense\n0:\n:::\n0::relative\n");
  EXPECT_EQ(AvailableMemory(files_), 512 * kMiB);
}

TEST(ThisMachineTest, HasCpusAndMemory) {
  EXPECT_GE(UsableCpus(), 1);
  EXPECT_GT(TotalMemory(), kMiB);
  EXPECT_GT(AvailableMemory(), 0U);
  EXPECT_LE(AvailableMemory(), TotalMemory());
}

}  // namespace
}  // namespace erne
