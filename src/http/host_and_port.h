// How an address and a port are written in one.
#pragma once

#include <cstdint>
#include <string>

#include "base/strings.h"

namespace erne {

// "127.0.0.1:8000", "[::1]:8000".
inline std::string HostAndPort(const std::string& host, uint16_t port) {
  return host.find(':') == std::string::npos ? StrCat(host, ":", port)
                                             : StrCat("[", host, "]:", port);
}

}  // namespace erne
