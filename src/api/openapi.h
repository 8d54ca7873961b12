// What the table of request fields (schema.h) says, for programs and for people.
#pragma once

#include <string>

#include "base/json.h"

namespace erne {

// The API as an OpenAPI 3.1 document: GET /openapi.json. Fields that are known and not supported
// are in it, marked with x-unsupported.
Json OpenApiDocument();

// The fields as Markdown: docs/request-fields.md, and what `erne fields` prints.
std::string FieldsPage();

}  // namespace erne
