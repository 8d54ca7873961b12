// The page's files, out of the program itself.
#pragma once

#include <optional>
#include <string_view>

#include "api/http_types.h"

namespace erne {

// The answer for GET `path` ("/" is the page) when it is a static file, else nothing. Files carry
// an ETag, and are a 304 when the request names it; the page carries a Content-Security-Policy that
// allows nothing from elsewhere.
std::optional<HttpResponse> StaticFile(std::string_view path, const HttpRequest& request);

bool IsStaticPath(std::string_view path);

}  // namespace erne
