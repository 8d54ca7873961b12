#include "http/port_holder.h"

#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>
#include <system_error>

#include "base/strings.h"

namespace erne {
namespace {

namespace fs = std::filesystem;

struct Listener {
  std::string inode;
  std::string user;
};

// The socket that listens on `port` according to /proc/net/tcp or tcp6. Columns (proc(5)): slot,
// local address:port in hexadecimal, remote, state (0A = listening), queues, timer, retransmits,
// user, timeout, inode.
std::optional<Listener> FindListener(const char* table, uint16_t port) {
  std::ifstream file(table);
  std::string line;
  std::getline(file, line);  // titles
  while (std::getline(file, line)) {
    std::istringstream fields(line);
    std::string slot, local, remote, state, queues, timer, retransmits, user, timeout, inode;
    fields >> slot >> local >> remote >> state >> queues >> timer >> retransmits >> user >>
        timeout >> inode;
    const size_t colon = local.rfind(':');
    if (colon == std::string::npos || state != "0A") continue;
    if (std::strtoul(local.c_str() + colon + 1, nullptr, 16) == port) return Listener{inode, user};
  }
  return std::nullopt;
}

// The process that has socket `inode` open, among those whose descriptors we may read.
std::string ProcessWithSocket(const std::string& inode) {
  const std::string wanted = StrCat("socket:[", inode, "]");
  std::error_code error;
  for (fs::directory_iterator process("/proc", error), end; !error && process != end;
       process.increment(error)) {
    const std::string pid = process->path().filename();
    if (pid.empty() || std::isdigit(static_cast<unsigned char>(pid[0])) == 0) continue;
    std::error_code denied;
    for (fs::directory_iterator fd(process->path() / "fd", denied), fd_end; !denied && fd != fd_end;
         fd.increment(denied)) {
      std::error_code gone;
      if (fs::read_symlink(fd->path(), gone) == wanted) {
        std::string name;
        std::ifstream comm(process->path() / "comm");
        std::getline(comm, name);
        return StrCat("process ", pid, " (", name, ")");
      }
    }
  }
  return "";
}

}  // namespace

std::string DescribePortHolder(uint16_t port) {
  for (const char* table : {"/proc/net/tcp", "/proc/net/tcp6"}) {
    const std::optional<Listener> listener = FindListener(table, port);
    if (!listener) continue;
    const std::string process = ProcessWithSocket(listener->inode);
    return process.empty() ? StrCat("a process of user ", listener->user) : process;
  }
  return "";
}

}  // namespace erne
