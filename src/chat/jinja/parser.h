// Template text to syntax tree.
#pragma once

#include <string_view>

#include "chat/jinja/ast.h"
#include "chat/template.h"

namespace erne::jinja {

// Throws SyntaxError. `source` must be well-formed UTF-8.
Program Parse(std::string_view source, const TemplateLimits& limits);

}  // namespace erne::jinja
