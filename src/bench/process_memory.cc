#include "bench/process_memory.h"

#include <fstream>
#include <limits>
#include <string>

namespace erne::bench {

uint64_t PeakResident() {
  std::ifstream status("/proc/self/status");
  std::string name;
  while (status >> name) {
    uint64_t kibibytes = 0;
    if (name == "VmHWM:" && status >> kibibytes) return kibibytes * 1024;
    status.ignore(std::numeric_limits<std::streamsize>::max(), '\n');
  }
  return 0;
}

bool ResetPeakResident() {
  // proc(5): 5 resets the peak.
  std::ofstream file("/proc/self/clear_refs");
  return static_cast<bool>(file << "5" << std::flush);
}

}  // namespace erne::bench
