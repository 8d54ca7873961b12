#include "load/http_connection.h"

#include <utility>
#include <vector>

#include <boost/asio/buffer.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>

#include "base/strings.h"

namespace erne::load {
namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using boost::system::error_code;

using Parser = http::response_parser<http::string_body>;

HttpReply ReplyOf(const Parser& parser) {
  return {.status = static_cast<int>(parser.get().result_int()),
          .has_retry_after = parser.get().count(http::field::retry_after) == 1};
}

}  // namespace

void ConnectionSet::CloseAll() {
  for (HttpConnection* connection : connections_) connection->Close();
}

void ConnectionSet::CloseHung(Clock::duration limit) {
  const Clock::time_point now = Clock::now();
  for (HttpConnection* connection : connections_) {
    if (connection->waiting_since_ > now || now - connection->waiting_since_ <= limit) continue;
    connection->hung_ = true;
    connection->Close();
  }
}

HttpConnection::HttpConnection(asio::io_context& io, ConnectionSet& set, const Pace& pace)
    : io_(io), set_(set), pace_(pace), socket_(io) {
  set_.connections_.insert(this);
}

HttpConnection::~HttpConnection() { set_.connections_.erase(this); }

void HttpConnection::Close() {
  closed_here_ = true;
  reusable_ = false;
  error_code ignored;
  socket_.close(ignored);
}

Status HttpConnection::Failure(std::string_view what, const error_code& error) const {
  if (hung_) return DeadlineExceeded(StrCat(what, ": no byte came within the time limit"));
  if (closed_here_) return Cancelled("closed by the client");
  return Unavailable(StrCat(what, ": ", error.message()));
}

asio::awaitable<Status> HttpConnection::Open(const asio::ip::tcp::endpoint& to) {
  error_code error;
  socket_.open(to.protocol(), error);
  if (error) co_return Failure("socket", error);
  if (pace_.receive_buffer > 0) {  // before the connection: it decides about the window
    socket_.set_option(asio::socket_base::receive_buffer_size(pace_.receive_buffer), error);
  }
  waiting_since_ = Clock::now();
  co_await socket_.async_connect(to, asio::redirect_error(asio::use_awaitable, error));
  waiting_since_ = Clock::time_point::max();
  if (error) co_return Failure("connect", error);
  socket_.set_option(asio::ip::tcp::no_delay(true), error);
  reusable_ = true;
  co_return Status();
}

asio::awaitable<Result<HttpReply>> HttpConnection::Ask(const std::string& request,
                                                       const BodySink& sink) {
  const bool keep = std::exchange(reusable_, false);
  if (!keep) co_return Result<HttpReply>(Failure("send", asio::error::not_connected));
  error_code error;
  waiting_since_ = Clock::now();
  co_await asio::async_write(socket_, asio::buffer(request),
                             asio::redirect_error(asio::use_awaitable, error));
  if (error) co_return Result<HttpReply>(Failure("send", error));

  Parser parser;
  parser.eager(true);
  parser.body_limit(boost::none);
  std::string pending;  // received and not yet parsed
  std::vector<char> buffer(pace_.read_bytes);
  asio::steady_timer pause(io_);
  while (!parser.is_done()) {
    if (pace_.pause.count() > 0) {
      pause.expires_after(pace_.pause);
      co_await pause.async_wait(asio::redirect_error(asio::use_awaitable, error));
    }
    waiting_since_ = Clock::now();
    const size_t count = co_await socket_.async_read_some(
        asio::buffer(buffer), asio::redirect_error(asio::use_awaitable, error));
    waiting_since_ = Clock::time_point::max();
    if (error == asio::error::eof && pending.empty() && parser.got_some()) {
      parser.put_eof(error);  // the end of a body without a length
      if (!error && parser.is_done()) break;
      error = asio::error::eof;
    }
    if (error) co_return Result<HttpReply>(Failure("receive", error));
    pending.append(buffer.data(), count);
    while (!pending.empty() && !parser.is_done()) {
      pending.erase(0, parser.put(asio::buffer(pending), error));
      if (error) break;
    }
    if (error && error != http::error::need_more) {
      co_return Result<HttpReply>(Failure("the answer is no HTTP", error));
    }
    if (!parser.is_header_done() || parser.get().body().empty()) continue;
    const std::string body = std::exchange(parser.get().body(), {});
    if (!sink(ReplyOf(parser), body)) {
      Close();
      co_return Result<HttpReply>(Failure("receive", {}));
    }
  }
  if (!pending.empty()) {
    co_return Result<HttpReply>(Unavailable("bytes came after the end of the answer"));
  }
  reusable_ = parser.keep_alive() && !closed_here_;
  co_return Result<HttpReply>(ReplyOf(parser));
}

}  // namespace erne::load
