// What the machine offers this process: CPUs and memory, as the machine has them and as the control
// groups (containers, systemd units) around the process bound them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace erne {

// Where the numbers are read; tests give folders of their own.
struct MachineFiles {
  std::string proc = "/proc";
  std::string cgroup = "/sys/fs/cgroup";
  std::string nodes = "/sys/devices/system/node";
};

// CPUs that this process may use: its affinity mask, and the quota of its control groups rounded
// up; at least 1.
int UsableCpus(const MachineFiles& files = {});

// The CPUs of the calling thread's affinity mask, in order; empty when it cannot be read.
std::vector<int> AllowedCpus();

// Binds the calling thread, and those that it starts from then on, to one CPU. Where the system
// refuses, it stays as it was.
void PinThread(int cpu);

// The NUMA nodes that have CPUs of the calling thread's affinity mask, in order; empty where the
// system does not tell.
std::vector<int> NodesInUse(const MachineFiles& files = {});

// Asks the system to take the pages of [data, data + bytes), of which none is there yet, from these
// NUMA nodes in turn, so that all of their memory serves all threads. data: at the begin of a page.
// With fewer than two nodes, or where the system refuses, it does nothing.
void SpreadOverNodes(void* data, size_t bytes, const std::vector<int>& nodes);

// Bytes that this process could have at most: the machine's memory, or the limit of a control group
// where that is less. 0 when neither can be read.
uint64_t TotalMemory(const MachineFiles& files = {});

// Bytes that this process can still take: MemAvailable of the machine, or what a control group has
// left where that is less. Pages of files count as free: the system gives them back on demand. 0
// when neither can be read.
uint64_t AvailableMemory(const MachineFiles& files = {});

// Says that the calling thread computes for long: it gets turns of 20 ms where the system's
// scheduler knows turns of a length of its own (Linux 6.12 and later). A thread with shorter ones,
// such as one that sends what was computed, then need not wait for the end of a turn; shares of the
// CPU stay what they were. Elsewhere it does nothing.
void TakeLongTurns();

// Whether this process may use the tiles of AMX for bf16 and int8: the CPU has them, and the system
// grants their registers (Linux 5.16 and later, asked here, once for all threads).
bool TakeAmxTiles();

// Gives freed memory that the allocator keeps for later back to the system. Takes milliseconds.
void ReturnFreeMemory();

}  // namespace erne
