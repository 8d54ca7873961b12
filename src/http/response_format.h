// The text of HTTP responses: status line, header fields and chunk framing.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "api/http_types.h"

namespace erne {

// How the body of a response is delimited.
enum class BodyFraming {
  kLength,   // Content-Length: the size of `body`
  kChunked,  // Transfer-Encoding: chunked
  kClose,    // the end of the connection (HTTP/1.0)
};

// Status line and header fields with the empty line after them. The body is not included. Control
// characters in field values become spaces, so that no value can forge a field.
std::string FormatHead(const HttpResponse& response, BodyFraming framing, bool keep_alive);

// Appends `bytes` (not empty) as one chunk.
void AppendChunk(std::string_view bytes, std::string& out);

inline constexpr std::string_view kLastChunk = "0\r\n\r\n";

}  // namespace erne
