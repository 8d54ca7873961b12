// A client's connection to the server, on a single thread. Reading is Boost.Beast's strict parser
// and nothing of the server's own code, so that one does not forgive the other.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_set>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>

#include "base/status.h"

namespace erne::load {

using Clock = std::chrono::steady_clock;

inline double Milliseconds(Clock::duration time) {
  return std::chrono::duration<double, std::milli>(time).count();
}

// How fast a client takes what it is sent.
struct Pace {
  size_t read_bytes = 64 * 1024;      // at a time
  std::chrono::milliseconds pause{};  // before each time
  int receive_buffer = 0;             // of the socket; 0: the system's
};

struct HttpReply {
  int status = 0;
  bool has_retry_after = false;
};

class HttpConnection;

// All open connections of a run: to end them together, and to find those that hang.
class ConnectionSet {
 public:
  void CloseAll();
  // Closes those that have waited longer than `limit` for a byte.
  void CloseHung(Clock::duration limit);

 private:
  friend class HttpConnection;
  std::unordered_set<HttpConnection*> connections_;
};

class HttpConnection {
 public:
  // Of the body, as it comes; false: the client goes away, without a word.
  using BodySink = std::function<bool(const HttpReply& reply, std::string_view bytes)>;

  HttpConnection(boost::asio::io_context& io, ConnectionSet& set, const Pace& pace);
  HttpConnection(const HttpConnection&) = delete;
  HttpConnection& operator=(const HttpConnection&) = delete;
  ~HttpConnection();

  boost::asio::awaitable<Status> Open(const boost::asio::ip::tcp::endpoint& to);
  // Sends `request` and reads its answer. Errors: Cancelled when it was closed from here (Close, or
  // the sink), DeadlineExceeded when no byte came for too long, else Unavailable. Both arguments
  // must outlive the call.
  boost::asio::awaitable<Result<HttpReply>> Ask(const std::string& request, const BodySink& sink);

  // Open, and the server keeps it for another request.
  bool reusable() const { return reusable_; }
  // As the kernel does when the process is killed: unread bytes make it a reset.
  void Close();

 private:
  friend class ConnectionSet;
  Status Failure(std::string_view what, const boost::system::error_code& error) const;

  boost::asio::io_context& io_;
  ConnectionSet& set_;
  const Pace pace_;
  boost::asio::ip::tcp::socket socket_;
  Clock::time_point waiting_since_ = Clock::time_point::max();  // max: not waiting
  bool reusable_ = false;
  bool closed_here_ = false;
  bool hung_ = false;
};

}  // namespace erne::load
