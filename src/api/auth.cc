#include "api/auth.h"

#include <algorithm>
#include <cstdint>
#include <string_view>

#include "base/strings.h"

namespace erne {
namespace {

// The time depends on the lengths alone.
bool EqualInConstantTime(std::string_view given, std::string_view key) {
  uint8_t difference = given.size() == key.size() ? 0 : 1;
  for (size_t i = 0; i < given.size(); ++i) {
    const char expected = key.empty() ? '\0' : key[i % key.size()];
    difference = static_cast<uint8_t>(difference | (given[i] ^ expected));
  }
  return difference == 0;
}

}  // namespace

int64_t KeyNumber(const HttpRequest& request, const std::vector<std::string>& keys) {
  const std::string* header = request.Header("authorization");
  if (header == nullptr) return -1;
  constexpr std::string_view kScheme = "bearer ";
  if (ToLowerAscii(std::string_view(*header).substr(0, kScheme.size())) != kScheme) return -1;
  const std::string_view given = Strip(std::string_view(*header).substr(kScheme.size()));
  int64_t found = -1;
  for (size_t i = 0; i < keys.size(); ++i) {
    const bool equal = EqualInConstantTime(given, keys[i]);
    found = equal ? static_cast<int64_t>(i) : found;
  }
  return found;
}

bool IsAuthorized(const HttpRequest& request, const std::vector<std::string>& keys) {
  return keys.empty() || KeyNumber(request, keys) >= 0;
}

}  // namespace erne
