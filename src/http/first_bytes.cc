#include "http/first_bytes.h"

#include <algorithm>

namespace erne {
namespace {

// Whether the shorter of the two is how the longer one begins.
bool Agree(std::string_view one, std::string_view other) {
  const size_t common = std::min(one.size(), other.size());
  return one.substr(0, common) == other.substr(0, common);
}

}  // namespace

FirstBytes LookAtFirstBytes(std::string_view bytes, std::string_view urgent_path) {
  if (urgent_path.empty()) return FirstBytes::kOrdinary;
  for (const std::string_view method : {std::string_view("GET "), std::string_view("HEAD ")}) {
    if (!Agree(bytes, method)) continue;
    if (bytes.size() <= method.size()) return FirstBytes::kTooFew;
    const std::string_view target = bytes.substr(method.size());
    if (!Agree(target, urgent_path)) continue;
    if (target.size() <= urgent_path.size()) return FirstBytes::kTooFew;
    const char next = target[urgent_path.size()];
    if (next == ' ' || next == '/' || next == '?') return FirstBytes::kUrgent;
  }
  return FirstBytes::kOrdinary;
}

}  // namespace erne
