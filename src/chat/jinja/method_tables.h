// The methods come from several files; each has tables of its own.
#pragma once

#include <span>
#include <string_view>

#include "chat/jinja/methods.h"

namespace erne::jinja {

struct MethodEntry {
  std::string_view name;
  MethodFunction function;
};

std::span<const MethodEntry> StringMethods();

}  // namespace erne::jinja
