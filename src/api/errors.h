// Failures as HTTP answers: the one place where a Status becomes a code and a body. Body and types
// are vLLM's:
// {"error":{"message":...,"type":"BadRequestError","param":...|null,"code":400}}.
#pragma once

#include <string>
#include <string_view>

#include "api/http_types.h"
#include "base/json.h"
#include "base/status.h"

namespace erne {

// The HTTP code of a failure.
int HttpStatusOf(StatusCode code);

// The error object for an HTTP code; an empty `param` is written as null.
Json ErrorBody(int http_status, std::string_view message, std::string_view param = "");
Json ErrorBody(const Status& status);

// A whole answer. 429 and 503 carry Retry-After.
HttpResponse ErrorResponse(int http_status, std::string_view message, std::string_view param = "");
HttpResponse ErrorResponse(const Status& status);

}  // namespace erne
