// Python's two ways of formatting: "%s" % values, and "{}".format(values).
#pragma once

#include "chat/jinja/runtime.h"
#include "chat/jinja/value.h"

namespace erne::jinja {

// format % values: a tuple gives one value per directive, a dict serves %(name)s, anything else is
// the only value.
Text FormatPercent(Runtime& runtime, const Text& format, const Value& values);

// str.format, with field names ("{0}", "{name}", "{a.b[c]}"), conversions (!r, !s) and format
// specifications.
Text FormatBraces(Runtime& runtime, const Text& format, const CallArgs& args);

}  // namespace erne::jinja
