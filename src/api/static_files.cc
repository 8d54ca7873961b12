#include "api/static_files.h"

#include <cstdint>
#include <string>

#include "base/strings.h"
#include "embedded/page.h"

namespace erne {
namespace {

// Everything comes from this server, and no script or style stands in the page itself.
constexpr const char* kContentSecurityPolicy =
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'self'";

std::string FileName(std::string_view path) {
  if (path == "/") return "index.html";
  return std::string(path.substr(path.empty() ? 0 : 1));
}

const char* ContentType(std::string_view name) {
  if (name.ends_with(".html")) return "text/html; charset=utf-8";
  if (name.ends_with(".js")) return "text/javascript; charset=utf-8";
  if (name.ends_with(".css")) return "text/css; charset=utf-8";
  if (name.ends_with(".svg")) return "image/svg+xml";
  return "application/octet-stream";
}

// FNV-1a (64 bits): tells versions of a file apart, nothing more.
std::string ETag(std::string_view bytes) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const char c : bytes) hash = (hash ^ static_cast<uint8_t>(c)) * 0x100000001b3;
  return StrCat('"', std::hex, hash, '"');
}

}  // namespace

bool IsStaticPath(std::string_view path) { return EmbeddedPage().contains(FileName(path)); }

std::optional<HttpResponse> StaticFile(std::string_view path, const HttpRequest& request) {
  const std::string name = FileName(path);
  const auto found = EmbeddedPage().find(name);
  if (found == EmbeddedPage().end()) return std::nullopt;
  const std::string_view bytes(reinterpret_cast<const char*>(found->second.data()),
                               found->second.size());
  const std::string etag = ETag(bytes);
  HttpResponse response;
  response.content_type = ContentType(name);
  response.headers = {{"ETag", etag},
                      {"Cache-Control", "no-cache"},  // ask each time; mostly a 304
                      {"X-Content-Type-Options", "nosniff"},
                      {"Referrer-Policy", "no-referrer"},
                      {"Content-Security-Policy", kContentSecurityPolicy}};
  const std::string* known = request.Header("if-none-match");
  if (known != nullptr && known->find(etag) != std::string::npos) {
    response.status = 304;
  } else {
    response.body = bytes;
  }
  return response;
}

}  // namespace erne
