// Who listens on a port of this machine, for the message of a failed bind. Linux: read from /proc.
#pragma once

#include <cstdint>
#include <string>

namespace erne {

// "process 4711 (python3)", or "a process of user 1001" when /proc does not let us see it, or ""
// when nobody is found.
std::string DescribePortHolder(uint16_t port);

}  // namespace erne
