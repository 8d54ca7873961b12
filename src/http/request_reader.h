// From the bytes of a connection to one HttpRequest: Beast's parser behind a small interface, plus
// the checks that it leaves to us (Host, transfer codings, the request target). No sockets here, so
// that it can be fuzzed.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "api/http_types.h"

namespace erne {

struct RequestLimits {
  size_t max_header_bytes = 64 * 1024;       // request line and header fields; more is a 431
  size_t max_body_bytes = 32 * 1024 * 1024;  // after decoding; more is a 413
};

// Reads one request. Not thread-safe.
class RequestReader {
 public:
  enum class State { kNeedMore, kDone, kFailed };

  explicit RequestReader(const RequestLimits& limits);
  RequestReader(const RequestReader&) = delete;
  RequestReader& operator=(const RequestReader&) = delete;
  ~RequestReader();

  // Takes from the front of `input` what belongs to this request; the rest stays for the next call,
  // or for the next request after kDone. Never throws. After kFailed the connection has lost its
  // place and must be closed.
  State Read(std::string& input);

  // Bytes of the body that have arrived.
  size_t body_bytes() const;

  // True once, when the client waits for "100 Continue" before it sends the body.
  bool TakeContinue();

  // After kFailed: what to answer.
  int error_status() const { return error_status_; }
  const std::string& error_message() const { return error_message_; }

  // After kDone.
  HttpRequest TakeRequest();
  bool keep_alive() const { return keep_alive_; }
  bool http11() const { return http11_; }  // false: HTTP/1.0, which knows no chunks
  bool is_head() const { return is_head_; }

 private:
  struct Parser;

  State Fail(int status, std::string message);
  bool CheckFirstBytes(std::string_view input);
  bool TakeHeader();
  bool TakeTarget(std::string_view raw);
  State Put(std::string& input);

  const RequestLimits limits_;
  std::unique_ptr<Parser> parser_;
  bool first_bytes_checked_ = false;
  bool header_read_ = false;
  bool wants_continue_ = false;
  int error_status_ = 0;
  std::string error_message_;
  HttpRequest request_;
  bool keep_alive_ = false;
  bool http11_ = false;
  bool is_head_ = false;
};

}  // namespace erne
