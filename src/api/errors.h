// Failures as HTTP answers: the one place where a Status becomes a code and a body. Body and types
// are vLLM's:
// {"error":{"message":...,"type":"BadRequestError","param":...|null,"code":400}}.
#pragma once

#include <cstdint>
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

// A whole answer. 429 and 503 carry Retry-After: what the client is to wait for mostly passes
// within a second or so.
HttpResponse ErrorResponse(int http_status, std::string_view message, std::string_view param = "",
                           int64_t retry_after_s = 1);
HttpResponse ErrorResponse(const Status& status, int64_t retry_after_s = 1);

}  // namespace erne
