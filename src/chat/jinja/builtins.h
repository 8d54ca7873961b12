// Filters, tests and global functions by name.
#pragma once

#include <string_view>

#include "chat/jinja/objects.h"
#include "chat/jinja/runtime.h"
#include "chat/jinja/value.h"

namespace erne::jinja {

using FilterFunction = Value (*)(Runtime& runtime, const Value& input, CallArgs& args);
using TestFunction = bool (*)(Runtime& runtime, const Value& input, CallArgs& args);

// Null when there is none of this name.
FilterFunction FindFilter(std::string_view name);
TestFunction FindTest(std::string_view name);
GlobalFunction FindGlobal(std::string_view name);

}  // namespace erne::jinja
