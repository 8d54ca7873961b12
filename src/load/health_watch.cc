#include "load/health_watch.h"

#include <chrono>
#include <exception>
#include <utility>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "base/strings.h"

namespace erne::load {
namespace {

namespace asio = boost::asio;
using asio::awaitable;

constexpr std::chrono::milliseconds kInterval{10};
constexpr std::chrono::milliseconds kTendInterval{50};

}  // namespace

std::string HttpText(const LoadOptions& options, std::string_view method, std::string_view path,
                     std::string_view body) {
  std::string key;
  if (!options.api_key.empty()) key = StrCat("Authorization: Bearer ", options.api_key, "\r\n");
  return StrCat(method, " ", path, " HTTP/1.1\r\nHost: ", options.host, ":", options.port, "\r\n",
                key, "Content-Type: application/json\r\nContent-Length: ", body.size(), "\r\n\r\n",
                body);
}

awaitable<Result<std::string>> AskHealth(asio::io_context& io, ConnectionSet& set,
                                         const LoadOptions& options,
                                         const asio::ip::tcp::endpoint& to,
                                         std::unique_ptr<HttpConnection>& connection) {
  if (connection == nullptr || !connection->reusable()) {
    connection = std::make_unique<HttpConnection>(io, set, Pace{});
    const Status opened = co_await connection->Open(to);
    if (!opened.ok()) co_return Result<std::string>(opened);
  }
  const std::string request = HttpText(options, "GET", "/health");
  std::string body;
  const HttpConnection::BodySink sink = [&](const HttpReply&, std::string_view bytes) {
    body += bytes;
    return true;
  };
  const Result<HttpReply> reply = co_await connection->Ask(request, sink);
  if (!reply.ok()) co_return Result<std::string>(reply.status());
  if (reply->status != 200) {
    co_return Result<std::string>(Unavailable(StrCat("/health: HTTP ", reply->status, " ", body)));
  }
  co_return Result<std::string>(std::move(body));
}

HealthWatch::HealthWatch(const LoadOptions& options, const asio::ip::tcp::endpoint& to)
    : options_(options), to_(to) {
  for (awaitable<void> (HealthWatch::*task)() : {&HealthWatch::Watch, &HealthWatch::Tend}) {
    asio::co_spawn(io_, (this->*task)(), [](const std::exception_ptr& error) {
      if (error) std::rethrow_exception(error);
    });
  }
  thread_ = std::thread([this] { io_.run(); });
}

void HealthWatch::Stop() {
  stopped_.store(true);
  if (thread_.joinable()) thread_.join();
}

awaitable<void> HealthWatch::Watch() {
  std::unique_ptr<HttpConnection> connection;
  asio::steady_timer timer(io_);
  boost::system::error_code ignored;
  while (!stopped_.load()) {
    const Clock::time_point begin = Clock::now();
    const Result<std::string> body =
        co_await AskHealth(io_, connections_, options_, to_, connection);
    if (stopped_.load()) co_return;  // this one may have been cut off
    if (body.ok()) {
      times_ms_.push_back(static_cast<float>(Milliseconds(Clock::now() - begin)));
    } else {
      ++not_ok_;
    }
    timer.expires_at(begin + kInterval);
    co_await timer.async_wait(asio::redirect_error(asio::use_awaitable, ignored));
  }
}

awaitable<void> HealthWatch::Tend() {
  asio::steady_timer timer(io_);
  boost::system::error_code ignored;
  while (!stopped_.load()) {
    connections_.CloseHung(std::chrono::seconds(options_.timeout_s));
    timer.expires_after(kTendInterval);
    co_await timer.async_wait(asio::redirect_error(asio::use_awaitable, ignored));
  }
  connections_.CloseAll();
}

}  // namespace erne::load
