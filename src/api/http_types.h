// What api and http say to each other: api knows no sockets, http knows no tokens.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace erne {

using HttpHeaders = std::vector<std::pair<std::string, std::string>>;

struct HttpRequest {
  std::string method;   // "POST"; of a HEAD "GET"
  std::string path;     // decoded, without the query: "/v1/models"
  std::string query;    // raw, without '?'
  HttpHeaders headers;  // names lower-cased
  std::string body;
  std::string client = {};  // who sent it, for logs: "127.0.0.1:53412"

  bool is_head = false;  // only the head of the answer is sent

  // The first value of header `name` (lower case); nullptr when absent.
  const std::string* Header(std::string_view name) const {
    for (const auto& [key, value] : headers) {
      if (key == name) return &value;
    }
    return nullptr;
  }
};

struct HttpResponse {
  int status = 200;
  std::string content_type = "application/json";
  std::string body;
  HttpHeaders headers;  // others: Retry-After, X-Request-Id
};

// The way back for one request. Every method may be called from any thread; callbacks run on the
// connection's own strand, one at a time. Exactly one answer is given: Send, or BeginStream ...
// EndStream. After the client has gone every call is a quiet no-op.
class ResponseWriter {
 public:
  virtual ~ResponseWriter() = default;

  virtual void Send(HttpResponse response) = 0;

  // Starts a chunked answer; `head.body` is ignored.
  virtual void BeginStream(HttpResponse head) = 0;
  // Queues bytes; they are written at once, in order.
  virtual void Write(std::string bytes) = 0;
  virtual void EndStream() = 0;

  // Runs `work` on the connection's strand, soon; dropped when the connection is gone.
  virtual void Post(std::function<void()> work) = 0;
  // Bytes queued and not yet taken by the socket: for back-pressure.
  virtual size_t pending_bytes() const = 0;
  // `callback` runs on the strand whenever pending_bytes() has fallen to 0 after a Write. Set once,
  // before BeginStream.
  virtual void OnDrained(std::function<void()> callback) = 0;
  // `callback` runs on the strand when the client goes away before the answer is complete. Set
  // once. It may hold the only references that keep a request alive; all callbacks are dropped when
  // the answer is complete or the client is gone.
  virtual void OnDisconnect(std::function<void()> callback) = 0;
};

// What http serves. Called on a connection's strand; must not block (no waiting for tokens).
// Thread-safe.
class HttpHandler {
 public:
  virtual ~HttpHandler() = default;
  virtual void Handle(HttpRequest request, std::shared_ptr<ResponseWriter> writer) = 0;
  // http answered a request with `status` by itself: it could not be read, or was too large.
  virtual void OnRefused(int /*status*/) {}
};

}  // namespace erne
