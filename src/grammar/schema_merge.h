// Schemas as JSON: where `$ref` leads, and what two of them say together.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/status.h"

namespace erne::grammar {

// Keywords that say nothing about values.
bool IsAnnotation(std::string_view keyword);

// What "#", "#/$defs/name" and the like point at.
Result<const Json*> ResolveReference(const Json& root, std::string_view reference);

// A schema that says what `a` and `b` say. `place` is for messages: InvalidArgument where a keyword
// cannot be said once for both.
Result<Json> MergeSchemas(const Json& a, const Json& b, std::string_view place);

// `type` as a list, all types when it is absent; "integer" is not listed beside "number".
Result<std::vector<std::string>> TypesOf(const Json& schema, std::string_view place);

// Whether no value can match both: of objects, because a required member differs or may not be
// there. False where that is not plain to see.
bool AreDisjoint(const Json& a, const Json& b, const Json& root);

}  // namespace erne::grammar
