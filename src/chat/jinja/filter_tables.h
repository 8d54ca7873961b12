// The filters come from several files; each has a table of its own.
#pragma once

#include <span>
#include <string_view>

#include "chat/jinja/builtins.h"

namespace erne::jinja {

struct FilterEntry {
  std::string_view name;
  FilterFunction function;
};

std::span<const FilterEntry> TextFilters();      // of strings and numbers
std::span<const FilterEntry> SequenceFilters();  // of everything that has items

}  // namespace erne::jinja
