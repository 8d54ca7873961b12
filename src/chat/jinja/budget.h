// What one rendering may still spend. Everything that a template can repeat pays here, so that a
// hostile template ends with an error and not with an exhausted machine.
#pragma once

#include <cstddef>
#include <cstdint>

#include "chat/jinja/error.h"
#include "chat/template.h"

namespace erne::jinja {

class Budget {
 public:
  explicit Budget(const TemplateLimits& limits)
      : limits_(limits), units_(limits.max_steps * kUnitsPerStep) {}
  Budget(const Budget&) = delete;
  Budget& operator=(const Budget&) = delete;

  const TemplateLimits& limits() const { return limits_; }

  // `count` evaluated nodes or list items.
  void Steps(size_t count = 1) {
    if (count > static_cast<size_t>(limits_.max_steps)) Exhausted();
    Spend(static_cast<int64_t>(count) * kUnitsPerStep);
  }
  // `count` bytes read or written. It bounds all strings of a rendering together: max_steps * 64
  // bytes.
  void Bytes(size_t count) {
    if (count > static_cast<size_t>(units_)) Exhausted();
    Spend(static_cast<int64_t>(count));
  }
  // Bytes of one string.
  void StringSize(size_t size) const {
    if (size > limits_.max_output) Fail("a text grows beyond ", limits_.max_output, " bytes");
  }

 private:
  // Copying 64 bytes takes about as long as evaluating a node.
  static constexpr int64_t kUnitsPerStep = 64;

  void Spend(int64_t units) {
    units_ -= units;
    if (units_ < 0) Exhausted();
  }
  [[noreturn]] void Exhausted() {
    units_ = 0;
    Fail("rendering takes more than ", limits_.max_steps, " steps");
  }

  TemplateLimits limits_;
  int64_t units_;
};

}  // namespace erne::jinja
