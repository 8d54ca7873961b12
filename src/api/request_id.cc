#include "api/request_id.h"

#include <random>

namespace erne {

uint64_t RandomBits() {
  thread_local std::random_device source;  // reads the system's source at each call
  return (uint64_t{source()} << 32) | source();
}

std::string RandomId() {
  constexpr char kHex[] = "0123456789abcdef";
  std::string id;
  for (int half = 0; half < 2; ++half) {
    const uint64_t bits = RandomBits();
    for (int shift = 60; shift >= 0; shift -= 4) id.push_back(kHex[(bits >> shift) & 15]);
  }
  return id;
}

std::string ToolCallId() {
  constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
  uint64_t bits = RandomBits();
  std::string id;
  for (int i = 0; i < 9; ++i) {
    id.push_back(kDigits[bits % kDigits.size()]);
    bits /= kDigits.size();
  }
  return id;
}

bool IsUsableId(std::string_view id) {
  constexpr std::string_view kAllowed =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.:";
  return !id.empty() && id.size() <= 128 &&
         id.find_first_not_of(kAllowed) == std::string_view::npos;
}

}  // namespace erne
