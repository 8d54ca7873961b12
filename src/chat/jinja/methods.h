// The methods of str, list, tuple, dict, int and float.
#pragma once

#include <string_view>

#include "chat/jinja/objects.h"
#include "chat/jinja/value.h"

namespace erne::jinja {

// The method `name` of values of this kind; null when there is none.
MethodFunction FindMethod(Kind kind, std::string_view name);

// Attributes that the sandbox refuses: those that would change a list or a dict, and Python's
// internals.
bool IsUnsafeAttribute(Kind kind, std::string_view name);

}  // namespace erne::jinja
