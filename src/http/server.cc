#include "http/server.h"

#include <chrono>
#include <future>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/ip/v6_only.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/use_future.hpp>

#include "base/log.h"
#include "base/strings.h"
#include "http/connection.h"
#include "http/host_and_port.h"
#include "http/port_holder.h"

namespace erne {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

// After an accept that failed for want of descriptors or memory: long enough not to spin, short
// enough not to be felt.
constexpr auto kAcceptPause = std::chrono::milliseconds(100);

// Connections that are accepted in a row before other events of the front get their turn.
constexpr int kAcceptBatch = 64;

// One bound address. Its loop runs at the front.
class Listener : public std::enable_shared_from_this<Listener> {
 public:
  explicit Listener(std::shared_ptr<ServerCore> core)
      : core_(std::move(core)),
        acceptor_(asio::make_strand(core_->front)),
        timer_(acceptor_.get_executor()) {}

  error_code Open(const tcp::endpoint& endpoint) {
    error_code error;
    acceptor_.open(endpoint.protocol(), error);
    if (error) return error;
    // Lets a restart bind while connections of the last run are in TIME_WAIT; two listeners still
    // exclude each other.
    acceptor_.set_option(asio::socket_base::reuse_address(true), error);
    if (error) return error;
    if (endpoint.address().is_v6()) {
      // "::" takes IPv4 too, as people expect of "all addresses".
      acceptor_.set_option(asio::ip::v6_only(!endpoint.address().is_unspecified()), error);
      if (error) return error;
    }
    acceptor_.bind(endpoint, error);
    if (error) return error;
    acceptor_.listen(asio::socket_base::max_listen_connections, error);
    if (error) return error;
    acceptor_.non_blocking(true, error);
    return error;
  }

  uint16_t port() const {
    error_code error;
    return acceptor_.local_endpoint(error).port();
  }

  void Start() {
    asio::post(acceptor_.get_executor(), [self = shared_from_this()] { self->Accept(); });
  }

  // Returns when the port is free. Not from a thread of the server.
  void Close() {
    asio::post(acceptor_.get_executor(), asio::use_future([self = shared_from_this()] {
                 error_code ignored;
                 self->acceptor_.close(ignored);
                 self->timer_.cancel();
               }))
        .wait();
  }

 private:
  void Accept() {
    acceptor_.async_wait(tcp::acceptor::wait_read,
                         [self = shared_from_this()](const error_code& error) {
                           if (self->acceptor_.is_open()) self->AcceptSome(error);
                         });
  }

  // In batches, so that thousands who come at once do not fill the kernel's queue, where a further
  // one would wait for a second.
  void AcceptSome(error_code error) {
    for (int i = 0; i < kAcceptBatch && !error; ++i) {
      Connection::Socket socket(asio::make_strand(core_->front));
      acceptor_.accept(socket, error);
      // A client that gave up before we came to it is no matter.
      if (error == asio::error::connection_aborted) error = {};
      if (!error && socket.is_open()) {
        std::make_shared<Connection>(core_, std::move(socket), Connection::Place::kFront)->Start();
      }
    }
    if (!error || error == asio::error::would_block) return Accept();
    // Anything else (no descriptors, no memory) needs time.
    const auto now = std::chrono::steady_clock::now();
    if (now >= next_warning_) {
      next_warning_ = now + std::chrono::seconds(10);
      ERNE_LOG(kWarning, "http") << "cannot accept connections: " << error.message();
    }
    timer_.expires_after(kAcceptPause);
    timer_.async_wait([self = shared_from_this()](const error_code& timer_error) {
      if (!timer_error && self->acceptor_.is_open()) self->Accept();
    });
  }

  const std::shared_ptr<ServerCore> core_;
  asio::basic_socket_acceptor<tcp, Connection::Strand> acceptor_;
  asio::steady_timer timer_;
  std::chrono::steady_clock::time_point next_warning_;
};

Status BindError(const std::string& host, uint16_t port, const error_code& error) {
  const std::string where = StrCat("cannot listen on ", HostAndPort(host, port), ": ");
  if (error == asio::error::address_in_use) {
    const std::string holder = DescribePortHolder(port);
    return Unavailable(StrCat(where, "the port is in use", holder.empty() ? "" : " by ", holder));
  }
  if (error == asio::error::access_denied) {
    return InvalidArgument(StrCat(where, "not permitted (ports below 1024 need privileges)"));
  }
  if (error == boost::system::errc::address_not_available) {
    return InvalidArgument(StrCat(where, "this machine has no such address"));
  }
  return InvalidArgument(StrCat(where, error.message()));
}

}  // namespace

class HttpServer::Impl {
 public:
  Impl(HttpHandler& handler, const HttpServerOptions& options)
      : core_(std::make_shared<ServerCore>(handler, options)),
        front_work_(core_->front.get_executor()),
        pool_work_(core_->pool.get_executor()) {
    for (int i = 0; i < std::max(1, options.threads); ++i) {
      threads_.emplace_back([this] { Run(core_->pool); });
    }
    front_thread_ = std::thread([this] { Run(core_->front); });
  }

  ~Impl() {
    StopAccepting();
    std::unordered_set<std::shared_ptr<Connection>> connections;
    {
      const std::lock_guard lock(core_->mutex);
      core_->closing = true;
      connections = core_->connections;
    }
    for (const auto& connection : connections) connection->Close();
    connections.clear();
    // The threads end when what is posted has run. The front first: it may still move a connection
    // to the pool, which then refuses it.
    front_work_.reset();
    front_thread_.join();
    pool_work_.reset();
    for (std::thread& thread : threads_) thread.join();
  }

  Result<uint16_t> Listen(const std::string& host, uint16_t port) {
    // An IPv6 address may come in the brackets that it has in a URL.
    const bool bracketed = host.size() > 2 && host.front() == '[' && host.back() == ']';
    const std::string name = bracketed ? host.substr(1, host.size() - 2) : host;
    error_code error;
    const std::vector<asio::ip::address> addresses = AddressesOf(name, error);
    if (error) {
      return InvalidArgument(StrCat("cannot listen on '", host, "': ", error.message()));
    }
    // A name such as localhost stands for several addresses; those that this machine lacks (IPv6 is
    // often off) are left out as long as one remains.
    std::vector<std::shared_ptr<Listener>> opened;
    error_code last_error = asio::error::host_not_found;
    for (const asio::ip::address& address : addresses) {
      auto listener = std::make_shared<Listener>(core_);
      error = listener->Open({address, port});
      if (error == asio::error::address_in_use) return BindError(name, port, error);
      if (error) {
        last_error = error;
        continue;
      }
      port = listener->port();
      opened.push_back(std::move(listener));
    }
    if (opened.empty()) return BindError(name, port, last_error);
    const std::lock_guard lock(listeners_mutex_);
    for (const auto& listener : opened) {
      listener->Start();
      listeners_.push_back(listener);
    }
    return port;
  }

  void StopKeepAlive() { core_->draining.store(true); }

  void StopAccepting() {
    StopKeepAlive();
    std::vector<std::shared_ptr<Listener>> listeners;
    {
      const std::lock_guard lock(listeners_mutex_);
      listeners.swap(listeners_);
    }
    for (const auto& listener : listeners) listener->Close();
  }

  void Drain(int64_t timeout_ms) {
    std::unique_lock lock(core_->mutex);
    core_->idle.wait_for(lock, std::chrono::milliseconds(timeout_ms),
                         [this] { return core_->answers == 0; });
  }

 private:
  std::vector<asio::ip::address> AddressesOf(const std::string& name, error_code& error) {
    // Always the loopback addresses (RFC 6761, section 6.3), also where no /etc/hosts says so.
    if (ToLowerAscii(name) == "localhost") {
      return {asio::ip::address_v4::loopback(), asio::ip::address_v6::loopback()};
    }
    tcp::resolver resolver(core_->front);
    std::vector<asio::ip::address> addresses;
    for (const auto& entry : resolver.resolve(name, "0", tcp::resolver::passive, error)) {
      addresses.push_back(entry.endpoint().address());
    }
    return addresses;
  }

  void Run(asio::io_context& io) {
    while (true) {
      try {
        io.run();
        return;
      } catch (const std::exception&
                   error) {  // std::bad_alloc: that connection's step is lost, the others go on
        ERNE_LOG(kError, "http") << "a connection failed: " << error.what();
      }
    }
  }

  const std::shared_ptr<ServerCore> core_;
  asio::executor_work_guard<asio::io_context::executor_type> front_work_;
  asio::executor_work_guard<asio::io_context::executor_type> pool_work_;
  std::thread front_thread_;
  std::vector<std::thread> threads_;  // of the pool
  std::mutex listeners_mutex_;
  std::vector<std::shared_ptr<Listener>> listeners_;
};

HttpServer::HttpServer(HttpHandler& handler, const HttpServerOptions& options)
    : impl_(std::make_unique<Impl>(handler, options)) {}

HttpServer::~HttpServer() = default;

Result<uint16_t> HttpServer::Listen(const std::string& host, uint16_t port) {
  return impl_->Listen(host, port);
}

void HttpServer::StopKeepAlive() { impl_->StopKeepAlive(); }

void HttpServer::StopAccepting() { impl_->StopAccepting(); }

void HttpServer::Drain(int64_t timeout_ms) { impl_->Drain(timeout_ms); }

}  // namespace erne
