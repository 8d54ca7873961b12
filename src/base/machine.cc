// Control groups. /proc/self/cgroup names the group of this process in each hierarchy, one line
// "id:controllers:path"; version 2 has the id 0 and no controllers. Limits of every group on the
// way to the root hold. In a container the path may be one that only the host sees, and then the
// files that count lie at the root of the mount: folders that do not exist are passed over.
#include "base/machine.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <optional>
#include <string_view>
#include <thread>
#include <vector>

#include <malloc.h>
#include <sched.h>
#ifdef __linux__
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif
#ifdef __x86_64__
#include <cpuid.h>
#endif

#include "base/strings.h"

namespace erne {
namespace {

// The names of one version's files. Version 1 mounts each controller in a folder of its own.
struct MemoryNames {
  const char* controller;  // "": version 2
  const char* limit;
  const char* usage;
  const char* cache;  // the line of memory.stat that counts pages of files not used lately
};
constexpr MemoryNames kMemoryNames[] = {
    {"", "memory.max", "memory.current", "inactive_file"},
    {"memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"},
};

// Nothing where the file is absent, or says "max".
std::optional<uint64_t> ReadNumber(const std::string& path) {
  std::ifstream file(path);
  std::string text;
  file >> text;
  return ParseNumber<uint64_t>(text);
}

// The value of the line `name` of a file of names and numbers (meminfo, memory.stat).
std::optional<uint64_t> ReadLine(const std::string& path, std::string_view name) {
  std::ifstream file(path);
  std::string key;
  uint64_t value = 0;
  std::string rest;
  while (file >> key >> value) {
    if (key == name) return value;
    std::getline(file, rest);
  }
  return std::nullopt;
}

bool HasController(std::string_view list, std::string_view controller) {
  for (const std::string& name : Split(list, ',')) {
    if (name == controller) return true;
  }
  return false;
}

// The folders of this process's group and of those around it, innermost first, the mount's root
// last. controller "": version 2.
std::vector<std::string> GroupFolders(const MachineFiles& files, const std::string& controller) {
  const std::string root = controller.empty() ? files.cgroup : files.cgroup + "/" + controller;
  std::vector<std::string> folders;
  std::ifstream groups(files.proc + "/self/cgroup");
  std::string line;
  while (std::getline(groups, line)) {
    const size_t first = line.find(':');
    const size_t second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string_view list = std::string_view(line).substr(first + 1, second - first - 1);
    if (controller.empty() ? line.substr(0, first) != "0" : !HasController(list, controller)) {
      continue;
    }
    std::string path = line.substr(second + 1);
    while (path.size() > 1 && path.front() == '/') {
      folders.push_back(root + path);
      path.resize(path.rfind('/'));
    }
    break;
  }
  folders.push_back(root);
  return folders;
}

// The least of what `read` finds in the groups around this process, of either version.
template <typename Read>
std::optional<uint64_t> LeastOfGroups(const MachineFiles& files, const Read& read) {
  std::optional<uint64_t> least;
  for (const MemoryNames& names : kMemoryNames) {
    for (const std::string& folder : GroupFolders(files, names.controller)) {
      const std::optional<uint64_t> value = read(folder + "/", names);
      if (value) least = std::min(*value, least.value_or(*value));
    }
  }
  return least;
}

uint64_t LeastKnown(std::optional<uint64_t> machine, std::optional<uint64_t> group) {
  if (machine && group) return std::min(*machine, *group);
  return machine.value_or(group.value_or(0));
}

std::optional<uint64_t> MemInfo(const MachineFiles& files, std::string_view name) {
  const std::optional<uint64_t> kibibytes = ReadLine(files.proc + "/meminfo", name);
  if (!kibibytes) return std::nullopt;
  return *kibibytes * 1024;
}

// The numbers of a list such as "0-3,8"; what is no number is passed over.
std::vector<int> ReadList(const std::string& path) {
  constexpr int kMost = 1 << 16;  // more CPUs or nodes than Linux can have
  std::ifstream file(path);
  std::string text;
  file >> text;
  std::vector<int> numbers;
  for (const std::string& part : Split(text, ',')) {
    const size_t dash = part.find('-');
    const auto first = ParseNumber<int>(part.substr(0, dash));
    const auto last = dash == std::string::npos ? first : ParseNumber<int>(part.substr(dash + 1));
    if (!first || !last || *first < 0 || *last > kMost) continue;
    for (int i = *first; i <= *last; ++i) numbers.push_back(i);
  }
  return numbers;
}

// The quota of CPU time in CPUs, from the files of version 2 ("max 100000") or 1 (-1: none).
std::optional<double> QuotaOf(const std::string& folder, bool version2) {
  double quota = 0;
  double period = 0;
  if (version2) {
    std::ifstream file(folder + "/cpu.max");
    if (!(file >> quota >> period)) return std::nullopt;
  } else {
    std::ifstream quota_file(folder + "/cpu.cfs_quota_us");
    std::ifstream period_file(folder + "/cpu.cfs_period_us");
    if (!(quota_file >> quota) || !(period_file >> period)) return std::nullopt;
  }
  if (quota <= 0 || period <= 0) return std::nullopt;
  return quota / period;
}

}  // namespace

int UsableCpus(const MachineFiles& files) {
  int cpus = static_cast<int>(std::thread::hardware_concurrency());
  cpu_set_t set;
  if (::sched_getaffinity(0, sizeof(set), &set) == 0) cpus = CPU_COUNT(&set);
  for (const char* controller : {"", "cpu"}) {
    for (const std::string& folder : GroupFolders(files, controller)) {
      const std::optional<double> quota = QuotaOf(folder, *controller == '\0');
      if (quota && *quota < cpus) cpus = static_cast<int>(std::ceil(*quota));
    }
  }
  return std::max(1, cpus);
}

std::vector<int> AllowedCpus() {
  std::vector<int> cpus;
  cpu_set_t set;
  if (::sched_getaffinity(0, sizeof(set), &set) != 0) return cpus;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &set)) cpus.push_back(cpu);
  }
  return cpus;
}

void PinThread(int cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(cpu, &set);
  (void)::sched_setaffinity(0, sizeof(set), &set);
}

std::vector<int> NodesInUse(const MachineFiles& files) {
  const std::vector<int> allowed = AllowedCpus();
  std::vector<int> nodes;
  for (const int node : ReadList(files.nodes + "/online")) {
    const std::vector<int> cpus = ReadList(StrCat(files.nodes, "/node", node, "/cpulist"));
    if (std::find_first_of(cpus.begin(), cpus.end(), allowed.begin(), allowed.end()) != cpus.end())
      nodes.push_back(node);
  }
  return nodes;
}

void SpreadOverNodes([[maybe_unused]] void* data, [[maybe_unused]] size_t bytes,
                     const std::vector<int>& nodes) {
  if (nodes.size() < 2) return;
#if defined(__linux__) && defined(SYS_mbind)
  constexpr int kInterleave = 3;  // MPOL_INTERLEAVE of set_mempolicy(2)
  constexpr int kBits = 8 * sizeof(unsigned long);
  std::vector<unsigned long> mask(static_cast<size_t>(nodes.back() / kBits + 1));
  for (const int node : nodes) mask[static_cast<size_t>(node / kBits)] |= 1UL << node % kBits;
  // The call takes one bit less than it is told.
  (void)::syscall(SYS_mbind, data, bytes, kInterleave, mask.data(), mask.size() * kBits + 1, 0U);
#endif
}

uint64_t TotalMemory(const MachineFiles& files) {
  const auto limit = [](const std::string& folder, const MemoryNames& names) {
    return ReadNumber(folder + names.limit);
  };
  return LeastKnown(MemInfo(files, "MemTotal:"), LeastOfGroups(files, limit));
}

uint64_t AvailableMemory(const MachineFiles& files) {
  const auto left = [](const std::string& folder,
                       const MemoryNames& names) -> std::optional<uint64_t> {
    const std::optional<uint64_t> limit = ReadNumber(folder + names.limit);
    const std::optional<uint64_t> usage = ReadNumber(folder + names.usage);
    if (!limit || !usage) return std::nullopt;
    const uint64_t cache = ReadLine(folder + "memory.stat", names.cache).value_or(0);
    const uint64_t used = *usage - std::min(cache, *usage);
    return *limit > used ? *limit - used : 0;
  };
  return LeastKnown(MemInfo(files, "MemAvailable:"), LeastOfGroups(files, left));
}

void TakeLongTurns() {
#if defined(__linux__) && defined(SYS_sched_setattr)
  // struct sched_attr of sched_setattr(2) in its first version, which not every C library declares.
  // The runtime of SCHED_OTHER is the length of a turn; kernels that do not know it ignore it.
  struct {
    uint32_t size = 48;
    uint32_t policy = SCHED_OTHER;
    uint64_t flags = 0;
    int32_t nice = ::getpriority(PRIO_PROCESS, 0);
    uint32_t priority = 0;
    uint64_t runtime_ns = 20'000'000;
    uint64_t deadline_ns = 0;
    uint64_t period_ns = 0;
  } attributes;
  static_assert(sizeof(attributes) == 48);
  (void)::syscall(SYS_sched_setattr, 0, &attributes, 0U);  // refused: as it was
#endif
}

bool TakeAmxTiles() {
#if defined(__x86_64__) && defined(__linux__)
  // Leaf 7: bit 22 of EDX is AMX-BF16, 24 AMX-TILE, 25 AMX-INT8. The request is arch_prctl(2)'s
  // ARCH_REQ_XCOMP_PERM for the state 18, the data of tiles; numbers that older headers lack.
  constexpr unsigned kBits = 1U << 22 | 1U << 24 | 1U << 25;
  constexpr int kRequest = 0x1023;
  constexpr int kTileData = 18;
  static const bool granted = [] {
    unsigned a = 0, b = 0, c = 0, d = 0;
    return __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && (d & kBits) == kBits &&
           ::syscall(SYS_arch_prctl, kRequest, kTileData) == 0;
  }();
  return granted;
#else
  return false;
#endif
}

void ReturnFreeMemory() {
#ifdef __GLIBC__
  ::malloc_trim(0);
#endif
}

}  // namespace erne
