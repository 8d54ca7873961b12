#include "http/response_format.h"

#include <cstdio>
#include <ctime>

#include "base/strings.h"

namespace erne {
namespace {

std::string_view ReasonPhrase(int status) {
  switch (status) {
    case 200:
      return "OK";
    case 201:
      return "Created";
    case 202:
      return "Accepted";
    case 204:
      return "No Content";
    case 301:
      return "Moved Permanently";
    case 302:
      return "Found";
    case 304:
      return "Not Modified";
    case 307:
      return "Temporary Redirect";
    case 308:
      return "Permanent Redirect";
    case 400:
      return "Bad Request";
    case 401:
      return "Unauthorized";
    case 403:
      return "Forbidden";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 406:
      return "Not Acceptable";
    case 408:
      return "Request Timeout";
    case 409:
      return "Conflict";
    case 411:
      return "Length Required";
    case 413:
      return "Content Too Large";
    case 414:
      return "URI Too Long";
    case 415:
      return "Unsupported Media Type";
    case 417:
      return "Expectation Failed";
    case 422:
      return "Unprocessable Content";
    case 429:
      return "Too Many Requests";
    case 431:
      return "Request Header Fields Too Large";
    case 499:
      return "Client Closed Request";
    case 500:
      return "Internal Server Error";
    case 501:
      return "Not Implemented";
    case 503:
      return "Service Unavailable";
    case 504:
      return "Gateway Timeout";
    default:
      return "Status";
  }
}

// Now, in the form of RFC 9110, 5.6.7. Not strftime: names of days and months must not follow the
// locale.
std::string HttpDate() {
  static constexpr const char* kDays[] = {"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
  static constexpr const char* kMonths[] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                            "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&now, &utc);
  char text[64];
  std::snprintf(text, sizeof(text), "%s, %02d %s %04d %02d:%02d:%02d GMT", kDays[utc.tm_wday],
                utc.tm_mday, kMonths[utc.tm_mon], utc.tm_year + 1900, utc.tm_hour, utc.tm_min,
                utc.tm_sec);
  return text;
}

void AppendField(std::string_view name, std::string_view value, std::string& out) {
  out += name;
  out += ": ";
  for (const char c : value) {
    const auto byte = static_cast<unsigned char>(c);
    out += byte < 0x20 || byte == 0x7f ? ' ' : c;
  }
  out += "\r\n";
}

}  // namespace

std::string FormatHead(const HttpResponse& response, BodyFraming framing, bool keep_alive) {
  std::string head =
      StrCat("HTTP/1.1 ", response.status, " ", ReasonPhrase(response.status), "\r\n");
  AppendField("Date", HttpDate(), head);
  AppendField("Server", "erne", head);
  const bool has_body = response.status != 204 && response.status != 304;
  if (has_body) {
    if (!response.content_type.empty()) AppendField("Content-Type", response.content_type, head);
    if (framing == BodyFraming::kLength) {
      AppendField("Content-Length", std::to_string(response.body.size()), head);
    } else if (framing == BodyFraming::kChunked) {
      AppendField("Transfer-Encoding", "chunked", head);
    }
  }
  // HTTP/1.0 clients that asked for it wait to be told; later ones assume it.
  AppendField("Connection", keep_alive ? "keep-alive" : "close", head);
  for (const auto& [name, value] : response.headers) AppendField(name, value, head);
  head += "\r\n";
  return head;
}

void AppendChunk(std::string_view bytes, std::string& out) {
  char size[24];
  const int length = std::snprintf(size, sizeof(size), "%zx\r\n", bytes.size());
  out.append(size, length);
  out += bytes;
  out += "\r\n";
}

}  // namespace erne
