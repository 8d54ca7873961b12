// Reading the arguments of built-in filters, tests, methods and functions.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string_view>
#include <vector>

#include "chat/jinja/operators.h"
#include "chat/jinja/value.h"

namespace erne::jinja {

// Arguments by parameter, whether they were given by position or by name. Fails for unknown,
// repeated and surplus ones, and when one of the first `required` is missing. Refers to the
// CallArgs.
class BoundArgs {
 public:
  BoundArgs(Runtime& runtime, const CallArgs& args, std::string_view function,
            std::initializer_list<std::string_view> names, size_t required = 0);

  // Null when the argument was not given.
  const Value* Get(size_t index) const { return values_[index]; }
  // Null also when it is none.
  const Value* GetUnlessNone(size_t index) const {
    return values_[index] != nullptr && values_[index]->is_none() ? nullptr : values_[index];
  }
  bool Bool(size_t index, bool fallback) const {
    return values_[index] == nullptr ? fallback : Truthy(runtime_, *values_[index]);
  }
  int64_t Int(size_t index, int64_t fallback) const;
  // str(argument).
  Text String(size_t index, std::string_view fallback = "") const {
    return values_[index] == nullptr ? Text(std::string(fallback), true)
                                     : ToText(runtime_, *values_[index]);
  }
  // An argument that must be a string.
  const Text& RequiredText(size_t index) const;

 private:
  Runtime& runtime_;
  std::string_view function_;
  std::vector<std::string_view> names_;
  std::vector<const Value*> values_;
};

}  // namespace erne::jinja
