// The HTTP listener: Boost.Beast over a few threads, HTTP/1.1 with keep-alive, limits, streams with
// back-pressure, and an answer to health checks whatever the load.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "api/http_types.h"
#include "base/status.h"

namespace erne {

struct HttpServerOptions {
  // That read, answer and stream. The work on large requests keeps one of them busy, that on small
  // ones all but two, so of three or more one is left for what streams. (One more accepts.)
  int threads = 3;
  // GET and HEAD of this path and of those below it have a thread of their own: the one that
  // accepts. The handler must answer them in microseconds. Empty: none.
  std::string urgent_path;
  size_t max_body_bytes = 32 * 1024 * 1024;  // a larger one is a 413
  // Of requests that arrive or wait; one more large one is a 503. Small ones are always taken.
  size_t max_waiting_bytes = 256 * 1024 * 1024;
  size_t max_header_bytes = 64 * 1024;  // a larger one is a 431
  // Keep-alive connections; also the time to send one whole request, and the time in which a client
  // must take some of what is sent to it.
  int64_t idle_timeout_ms = 75'000;
};

// Thread-safe. The handler must outlive the server. HEAD reaches it as GET; the body of its answer
// is dropped. When a client counts as gone: see connection.h.
class HttpServer {
 public:
  HttpServer(HttpHandler& handler, const HttpServerOptions& options);
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;
  ~HttpServer();  // closes everything and joins

  // Binds and accepts from now on; several may be open. `host` is an address or a name (all of its
  // addresses are bound). Port 0 picks a free one. Errors name host, port and, where /proc tells,
  // the process that holds the port. Returns the port.
  Result<uint16_t> Listen(const std::string& host, uint16_t port);

  // From now on answers say "Connection: close". Requests are still accepted.
  void StopKeepAlive();
  // Stops accepting, too; open answers go on. Returns when the ports are free. Not to be called
  // from the handler.
  void StopAccepting();
  // Waits until no answer is in progress, at most `timeout_ms`.
  void Drain(int64_t timeout_ms);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace erne
