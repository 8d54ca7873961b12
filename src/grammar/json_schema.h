// JSON Schema (2020-12 and draft 7, as far as below) -> a grammar of JSON text. What the grammar
// matches validates; of what validates it matches the canonical form (json_text.h) with members in
// the order of `properties`.
//
//   type, enum, const, anyOf, oneOf (alternatives that cannot match the same value), allOf
//   (merged), $ref within the schema, recursive too, $defs, definitions string   minLength,
//   maxLength, pattern, format (string_formats.h) integer  minimum, maximum, exclusiveMinimum,
//   exclusiveMaximum number   the same, if they are whole array    items, prefixItems, minItems,
//   maxItems object   properties, required, additionalProperties; minProperties and maxProperties
//   where names
//            are free. Where `properties` are given, others need additionalProperties to be said.
// Titles, descriptions, examples and other annotations are passed over. Any other keyword is
// refused by its name and place, so that nothing is promised that is not kept.
#pragma once

#include "base/json.h"
#include "base/status.h"
#include "grammar/expression.h"

namespace erne::grammar {

// InvalidArgument: "#/properties/a/multipleOf is not supported".
Result<Grammar> ParseJsonSchema(const Json& schema);
// Any JSON object.
Grammar AnyJsonObject();

}  // namespace erne::grammar
