// Asks for /health again and again while a run puts load on the server, from a thread of its own:
// what it measures is how long the server takes, not how long the run's own clients keep its
// thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>

#include "base/status.h"
#include "load/http_connection.h"
#include "load/options.h"

namespace erne::load {

// The bytes of a request as the options want it.
std::string HttpText(const LoadOptions& options, std::string_view method, std::string_view path,
                     std::string_view body = "");

// GET /health over `connection`, which is opened (anew) when need be; the body of a 200.
boost::asio::awaitable<Result<std::string>> AskHealth(boost::asio::io_context& io,
                                                      ConnectionSet& set,
                                                      const LoadOptions& options,
                                                      const boost::asio::ip::tcp::endpoint& to,
                                                      std::unique_ptr<HttpConnection>& connection);

class HealthWatch {
 public:
  // `options` must outlive the watch.
  HealthWatch(const LoadOptions& options, const boost::asio::ip::tcp::endpoint& to);
  HealthWatch(const HealthWatch&) = delete;
  HealthWatch& operator=(const HealthWatch&) = delete;
  ~HealthWatch() { Stop(); }

  // Returns when the thread has ended; what it found may be read from then on.
  void Stop();
  std::vector<float>& times_ms() { return times_ms_; }  // of answers with 200
  int64_t not_ok() const { return not_ok_; }            // other answers, or none

 private:
  boost::asio::awaitable<void> Watch();
  boost::asio::awaitable<void> Tend();  // ends probes that hang, and the last one

  const LoadOptions& options_;
  const boost::asio::ip::tcp::endpoint to_;
  boost::asio::io_context io_{1};
  ConnectionSet connections_;
  std::vector<float> times_ms_;
  int64_t not_ok_ = 0;
  std::atomic<bool> stopped_{false};
  std::thread thread_;
};

}  // namespace erne::load
