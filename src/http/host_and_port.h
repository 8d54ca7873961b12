// How an address and a port are written in one.
#pragma once

#include <cstdint>
#include <string>

#include "base/strings.h"

namespace erne {

// "127.0.0.1:8000", "[::1]:8000", whether the address comes in its brackets or not.
inline std::string HostAndPort(const std::string& host, uint16_t port) {
  const bool bare_ipv6 = host.find(':') != std::string::npos && host.front() != '[';
  return bare_ipv6 ? StrCat("[", host, "]:", port) : StrCat(host, ":", port);
}

}  // namespace erne
