// The formats of JSON Schema, as regular expressions for what they allow. Each is stricter than its
// RFC where that makes a text certainly valid: no 29th of February, IPv6 addresses in full.
#pragma once

#include <string>
#include <string_view>

namespace erne::grammar {

// "" for a format that is not known.
std::string_view PatternOfFormat(std::string_view format);
// "date, time, ...", for messages.
std::string KnownFormats();

}  // namespace erne::grammar
