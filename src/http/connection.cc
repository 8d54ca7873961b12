#include "http/connection.h"

#include <algorithm>
#include <array>
#include <exception>
#include <utility>

#include <boost/asio/buffer.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/post.hpp>
#include <netinet/tcp.h>
#include <unistd.h>

#include "api/errors.h"
#include "base/check.h"
#include "base/log.h"
#include "base/machine.h"
#include "http/first_bytes.h"
#include "http/host_and_port.h"
#include "http/response_format.h"

namespace erne {
namespace {

namespace asio = boost::asio;
using boost::system::error_code;

// Bytes that a client may send ahead while it waits for an answer; beyond them nothing is read
// until the answer is out.
constexpr size_t kMaxReadAhead = 64 * 1024;
// A body above this is a large request. Smaller ones are handled in about a millisecond.
constexpr size_t kLargeBody = 16 * 1024;
// A body above this leaves so many small pieces of freed memory that giving them back is worth some
// milliseconds: JSON takes about 20 times the bytes of its text.
constexpr size_t kHugeBody = 1024 * 1024;
// How long a client may take to read the last answer of a connection and close its side.
constexpr auto kLingerTime = std::chrono::seconds(2);
// A relay between us and the client may swallow the first probe, so a few are sent. Their number is
// bounded because parsers bound the digits of a chunk's size (Go: 16).
constexpr int kMaxProbes = 4;
constexpr auto kProbeInterval = std::chrono::seconds(1);
constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";

// Lets a host that vanished without a word (power, network) be found within about two minutes.
void WatchTheHost(int fd) {
  const int idle_seconds = 60;
  const int interval_seconds = 15;
  const int count = 4;
  ::setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_seconds, sizeof(idle_seconds));
  ::setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval_seconds, sizeof(interval_seconds));
  ::setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &count, sizeof(count));
}

std::string ClientOf(const Connection::Socket& socket) {
  error_code error;
  const asio::ip::tcp::endpoint endpoint = socket.remote_endpoint(error);
  if (error) return "a client that has gone";
  return HostAndPort(endpoint.address().to_string(), endpoint.port());
}

}  // namespace

// The handler's side of an exchange. Output is appended under the exchange's mutex and flushed by
// the strand, so that calls from several threads keep their order and never wait for the socket.
class Writer : public ResponseWriter {
 public:
  Writer(std::shared_ptr<Connection> connection, std::shared_ptr<Exchange> exchange)
      : connection_(std::move(connection)), exchange_(std::move(exchange)) {}

  // A handler that forgets its request must not leave the client waiting. Where there is no memory
  // for that, the client waits until it gives up, and the other connections go on.
  ~Writer() override {
    connection_->Guard("the end of a forgotten request", [this] { EndForgotten(); });
  }

  void Send(HttpResponse response) override {
    Exchange& exchange = *exchange_;
    const std::lock_guard lock(exchange.mutex);
    if (exchange.state == Exchange::State::kGone) return;
    ERNE_CHECK(exchange.state == Exchange::State::kOpen) << "a request was answered twice";
    exchange.state = Exchange::State::kEnded;
    exchange.keep_alive = exchange.keep_alive && !connection_->core_->draining.load();
    std::string bytes = FormatHead(response, BodyFraming::kLength, exchange.keep_alive);
    if (!exchange.is_head && response.status != 204 && response.status != 304)
      bytes += response.body;
    Append(bytes);
  }

  void BeginStream(HttpResponse head) override {
    Exchange& exchange = *exchange_;
    const std::lock_guard lock(exchange.mutex);
    if (exchange.state == Exchange::State::kGone) return;
    ERNE_CHECK(exchange.state == Exchange::State::kOpen) << "a request was answered twice";
    exchange.state = Exchange::State::kStreaming;
    exchange.chunked = exchange.http11;
    exchange.has_body = !exchange.is_head;
    exchange.keep_alive =
        exchange.keep_alive && exchange.chunked && !connection_->core_->draining.load();
    Append(FormatHead(head, exchange.chunked ? BodyFraming::kChunked : BodyFraming::kClose,
                      exchange.keep_alive));
  }

  void Write(std::string bytes) override {
    Exchange& exchange = *exchange_;
    const std::lock_guard lock(exchange.mutex);
    if (exchange.state == Exchange::State::kGone) return;
    ERNE_CHECK(exchange.state == Exchange::State::kStreaming) << "Write outside of a stream";
    if (bytes.empty() || !exchange.has_body) return;
    if (!exchange.chunked) {
      Append(bytes);
      return;
    }
    std::string chunk;
    chunk.reserve(bytes.size() + 16);
    AppendChunk(bytes, chunk);
    Append(chunk);
  }

  void EndStream() override {
    Exchange& exchange = *exchange_;
    const std::lock_guard lock(exchange.mutex);
    if (exchange.state == Exchange::State::kGone) return;
    ERNE_CHECK(exchange.state == Exchange::State::kStreaming) << "EndStream outside of a stream";
    exchange.state = Exchange::State::kEnded;
    Append(exchange.chunked && exchange.has_body ? kLastChunk : "");
  }

  void Post(std::function<void()> work) override {
    PostIfHere([work = std::move(work)](Connection& connection) {
      if (connection.phase_ != Connection::Phase::kClosed) connection.Guard("posted work", work);
    });
  }

  size_t pending_bytes() const override {
    return exchange_->pending.load(std::memory_order_relaxed);
  }

  void OnDrained(std::function<void()> callback) override {
    PostIfHere(
        [exchange = exchange_, callback = std::move(callback)](Connection& connection) mutable {
          if (connection.exchange_ == exchange) exchange->on_drained = std::move(callback);
        });
  }

  void OnDisconnect(std::function<void()> callback) override {
    // Where the client has gone before the callback could be stored, it runs now: nobody would
    // later.
    auto store = [connection = connection_, exchange = exchange_,
                  callback = std::move(callback)]() mutable {
      if (connection->exchange_ == exchange) {
        exchange->on_disconnect = std::move(callback);
      } else if (connection->phase_ == Connection::Phase::kClosed) {
        connection->Guard("OnDisconnect", callback);
      }
    };
    const std::lock_guard lock(connection_->core_->mutex);
    if (!connection_->core_->closing)
      asio::post(connection_->socket_.get_executor(), std::move(store));
  }

 private:
  void EndForgotten() {
    Exchange::State state;
    {
      const std::lock_guard lock(exchange_->mutex);
      state = exchange_->state;
    }
    if (state == Exchange::State::kOpen) {
      Send(ErrorResponse(500, "the server gave no answer"));
    } else if (state == Exchange::State::kStreaming) {
      PostIfHere([](Connection& connection) { connection.Gone(); });
    }
  }

  // Adds `bytes` to the output and wakes the strand. The mutex is held.
  void Append(std::string_view bytes) {
    exchange_->output += bytes;
    exchange_->pending.fetch_add(bytes.size(), std::memory_order_relaxed);
    if (std::exchange(exchange_->flush_posted, true)) return;
    asio::post(connection_->socket_.get_executor(),
               [connection = connection_, exchange = exchange_] { connection->Flush(exchange); });
  }

  // Runs `work` on the strand; false when the client is gone. Posting under the mutex means that
  // what is posted runs before the server ends: it marks every exchange as gone, under the same
  // mutex, while its threads still run.
  template <typename Work>
  bool PostIfHere(Work work) {
    const std::lock_guard lock(exchange_->mutex);
    if (exchange_->state == Exchange::State::kGone) return false;
    asio::post(connection_->socket_.get_executor(),
               [connection = connection_, work = std::move(work)]() mutable { work(*connection); });
    return true;
  }

  const std::shared_ptr<Connection> connection_;
  const std::shared_ptr<Exchange> exchange_;
};

bool ServerCore::Register(const std::shared_ptr<Connection>& connection) {
  const std::lock_guard lock(mutex);
  if (closing) return false;
  connections.insert(connection);
  return true;
}

void ServerCore::Unregister(const std::shared_ptr<Connection>& connection) {
  const std::lock_guard lock(mutex);
  connections.erase(connection);
}

void ServerCore::AnswerBegins() {
  const std::lock_guard lock(mutex);
  ++answers;
}

void ServerCore::AnswerEnds() {
  const std::lock_guard lock(mutex);
  if (--answers == 0) idle.notify_all();
}

Connection::Connection(std::shared_ptr<ServerCore> core, Socket socket, Place place,
                       std::string received)
    : core_(std::move(core)),
      place_(place),
      socket_(std::move(socket)),
      timer_(socket_.get_executor()),
      input_(std::move(received)),
      body_bytes_(core_->waiting_bytes) {}

void Connection::Start() {
  asio::post(socket_.get_executor(), [self = shared_from_this()] {
    if (!self->core_->Register(self)) return;
    error_code ignored;  // the peer may have gone already: reading finds out
    self->socket_.non_blocking(true, ignored);
    if (self->place_ == Place::kPool) {  // the front answers in one piece, or not for long
      self->socket_.set_option(asio::ip::tcp::no_delay(true), ignored);
      self->socket_.set_option(asio::socket_base::keep_alive(true), ignored);
      WatchTheHost(self->socket_.native_handle());
    }
    self->SetDeadline(self->IdleTimeout());
    if (!self->input_.empty()) self->Parse();
    self->ArmRead();
  });
}

void Connection::Close() {
  asio::post(socket_.get_executor(), [self = shared_from_this()] { self->Gone(); });
}

template <typename Callback>
void Connection::Guard(const char* what, Callback&& callback) try {
  callback();
} catch (const std::exception& error) {
  ERNE_LOG(kError, "http") << what << " threw: " << error.what();
} catch (...) {
  ERNE_LOG(kError, "http") << what << " threw an unknown exception";
}

// Waits for readability without a buffer: an idle connection costs no buffer, and while an answer
// is pending this is what notices that the client has gone.
void Connection::ArmRead() {
  if (read_armed_ || end_of_file_ || phase_ == Phase::kClosed) return;
  if (phase_ == Phase::kAnswering && input_.size() >= kMaxReadAhead) return;
  read_armed_ = true;
  socket_.async_wait(Socket::wait_read, [self = shared_from_this()](const error_code& error) {
    self->read_armed_ = false;
    self->OnReadable(error);
  });
}

void Connection::OnReadable(const error_code& error) {
  if (phase_ == Phase::kClosed) return;
  if (error) return Gone();
  thread_local std::array<char, 64 * 1024> buffer;
  error_code read_error;
  const size_t count = socket_.read_some(asio::buffer(buffer), read_error);
  if (read_error == asio::error::would_block || read_error == asio::error::interrupted)
    return ArmRead();
  if (read_error == asio::error::eof) return OnEndOfFile();
  if (read_error) return Gone();
  if (phase_ != Phase::kLingering) input_.append(buffer.data(), count);
  if (phase_ == Phase::kReading) Parse();
  ArmRead();
}

void Connection::OnEndOfFile() {
  end_of_file_ = true;
  if (phase_ == Phase::kLingering && !writing_.empty()) return;  // AfterWriting closes
  if (phase_ != Phase::kAnswering || !exchange_->http11) return Gone();
  socket_.async_wait(Socket::wait_error, [self = shared_from_this()](const error_code&) {
    if (self->phase_ != Phase::kClosed) self->Gone();
  });
  Probe();
}

// Asks a client that has closed its sending side whether it is still there; see connection.h.
// Repeated, because a relay between us and the client may swallow the first one.
void Connection::Probe() {
  if (phase_ != Phase::kAnswering || probes_++ >= kMaxProbes) return;
  {
    const std::lock_guard lock(exchange_->mutex);
    // Only between whole pieces of output: then the next bytes on the wire are a head, or a chunk's
    // size line.
    if (exchange_->output.empty() && output_.empty() && writing_.empty()) {
      if (exchange_->state == Exchange::State::kOpen) output_ = kContinue;
      if (exchange_->state == Exchange::State::kStreaming && exchange_->has_body) output_ = "0";
    }
  }
  StartWrite();
  if (!probe_timer_) probe_timer_.emplace(socket_.get_executor());
  probe_timer_->expires_after(kProbeInterval);
  probe_timer_->async_wait([self = shared_from_this()](const error_code& error) {
    if (!error) self->Probe();
  });
}

void Connection::Parse() {
  if (!reader_) {
    if (place_ == Place::kFront) {
      const FirstBytes first = LookAtFirstBytes(input_, core_->options.urgent_path);
      if (first == FirstBytes::kTooFew) return;
      if (first == FirstBytes::kOrdinary) return MoveToPool();
    }
    reader_ = std::make_unique<RequestReader>(
        RequestLimits{core_->options.max_header_bytes, core_->options.max_body_bytes});
    // From its first byte a request has this long to arrive as a whole, however slowly it trickles.
    SetDeadline(IdleTimeout());
  }
  switch (reader_->Read(input_)) {
    case RequestReader::State::kNeedMore:
      body_bytes_.Set(reader_->body_bytes());
      if (body_bytes_.bytes() > kLargeBody &&
          core_->waiting_bytes.load() > core_->options.max_waiting_bytes) {
        return Refuse(503, "too many large requests at once: try again soon");
      }
      if (reader_->TakeContinue()) WriteControl(kContinue);
      return;
    case RequestReader::State::kFailed:
      return Refuse(reader_->error_status(), reader_->error_message());
    case RequestReader::State::kDone:
      return Dispatch();
  }
}

// The socket and what was read from it go on as another connection. Nothing is being written:
// requests are parsed when the last answer is out.
void Connection::MoveToPool() {
  error_code error;
  const asio::ip::tcp protocol = socket_.local_endpoint(error).protocol();
  Socket socket(asio::make_strand(core_->pool));
  const int fd = error ? -1 : socket_.release(error);
  if (!error) socket.assign(protocol, fd, error);
  if (error) {
    if (fd >= 0) ::close(fd);
    return Gone();
  }
  std::make_shared<Connection>(core_, std::move(socket), Place::kPool, std::move(input_))->Start();
  Gone();  // what is left holds no socket
}

void Connection::Dispatch() {
  auto exchange = std::make_shared<Exchange>();
  exchange->http11 = reader_->http11();
  exchange->is_head = reader_->is_head();
  exchange->keep_alive = reader_->keep_alive();
  HttpRequest request = reader_->TakeRequest();
  request.client = ClientOf(socket_);
  reader_.reset();
  if (input_.empty()) input_.shrink_to_fit();
  // Handlers see GET: the answer to HEAD is GET's without its body, which is dropped here (RFC
  // 9110, 9.3.2).
  request.is_head = exchange->is_head;
  if (request.is_head) request.method = "GET";
  phase_ = Phase::kAnswering;
  exchange_ = exchange;
  deadline_ = Clock::time_point::max();  // the handler may take as long as it likes
  core_->AnswerBegins();
  RunHandler(std::move(request), std::make_shared<Writer>(shared_from_this(), std::move(exchange)));
  if (end_of_file_) {  // a pipelined request of a client that sends no more
    probes_ = 0;
    Probe();
  }
}

// Calls the handler, on the strand: at once where nothing but a head is to be read, and else when
// the request's turn has come.
void Connection::RunHandler(HttpRequest request, std::shared_ptr<ResponseWriter> writer) {
  // An exception drops the writer, and with it goes an answer 500.
  const auto handle = [this](HttpRequest& taken, std::shared_ptr<ResponseWriter>& to) {
    Guard("the handler", [&] { core_->handler.Handle(std::move(taken), std::move(to)); });
  };
  const size_t size = request.body.size();
  if (place_ == Place::kFront || size == 0) {
    body_bytes_.Set(0);
    return handle(request, writer);
  }
  body_bytes_.Set(size);
  WorkLane& lane = size > kLargeBody ? core_->large_lane : core_->small_lane;
  struct Work {
    HttpRequest request;
    std::shared_ptr<ResponseWriter> writer;
    ByteShare bytes;
  };
  auto work = std::make_shared<Work>(std::move(request), std::move(writer), std::move(body_bytes_));
  lane.Enter([self = shared_from_this(), work = std::move(work), handle, size, &lane] {
    asio::post(self->socket_.get_executor(), [self, work, handle, size, &lane] {
      if (self->phase_ != Phase::kClosed) handle(work->request, work->writer);
      if (size > kHugeBody) ReturnFreeMemory();
      lane.Leave();
    });
  });
}

// Answers a request that could not be read, and closes: where the next one begins is unknown.
void Connection::Refuse(int status, std::string message) {
  reader_.reset();
  body_bytes_.Set(0);
  input_.clear();
  phase_ = Phase::kLingering;
  SetDeadline(IdleTimeout());
  Guard("OnRefused", [&] { core_->handler.OnRefused(status); });
  const HttpResponse response = ErrorResponse(status, message);
  WriteControl(FormatHead(response, BodyFraming::kLength, false) + response.body);
}

void Connection::WriteControl(std::string_view bytes) {
  output_ += bytes;
  StartWrite();
}

// Picks up what was written to the exchange.
void Connection::Flush(const std::shared_ptr<Exchange>& exchange) {
  {
    const std::lock_guard lock(exchange->mutex);
    exchange->flush_posted = false;
    if (exchange != exchange_) return;  // gone
    output_answer_bytes_ += exchange->output.size();
    output_ += exchange->output;
    exchange->output.clear();
  }
  if (!writing_.empty()) return;               // OnWritten goes on
  if (output_.empty()) return AfterWriting();  // the end of a body that has no last chunk
  StartWrite();
}

void Connection::StartWrite() {
  if (!writing_.empty() || output_.empty() || phase_ == Phase::kClosed) return;
  writing_.swap(output_);
  written_ = 0;
  writing_answer_bytes_ = std::exchange(output_answer_bytes_, 0);
  drain_due_ = drain_due_ || writing_answer_bytes_ > 0;
  WriteSome();
}

// Each piece must be taken within the idle timeout: a client that stops reading is as good as gone,
// and what is queued for it must not stay for ever.
void Connection::WriteSome() {
  if (phase_ == Phase::kAnswering) SetDeadline(IdleTimeout());
  socket_.async_write_some(asio::buffer(writing_.data() + written_, writing_.size() - written_),
                           [self = shared_from_this()](const error_code& error, size_t count) {
                             self->OnWritten(error, count);
                           });
}

void Connection::OnWritten(const error_code& error, size_t count) {
  if (phase_ == Phase::kClosed) return;
  if (error) return Gone();
  written_ += count;
  const size_t answered = std::min(count, writing_answer_bytes_);
  writing_answer_bytes_ -= answered;
  if (exchange_) exchange_->pending.fetch_sub(answered, std::memory_order_relaxed);
  if (written_ < writing_.size()) return WriteSome();
  writing_.clear();
  if (phase_ == Phase::kAnswering) deadline_ = Clock::time_point::max();
  if (!output_.empty()) return StartWrite();
  AfterWriting();
}

// Everything that reached the strand is with the socket.
void Connection::AfterWriting() {
  if (phase_ == Phase::kLingering) return Linger();
  if (phase_ != Phase::kAnswering) return;
  bool ended = false;
  {
    const std::lock_guard lock(exchange_->mutex);
    if (!exchange_->output.empty()) return;  // a Flush is on its way
    ended = exchange_->state == Exchange::State::kEnded;
  }
  if (ended) return FinishAnswer();
  if (!std::exchange(drain_due_, false) || !exchange_->on_drained) return;
  const std::shared_ptr<Exchange> exchange = exchange_;  // the callback may end the answer
  Guard("OnDrained", exchange->on_drained);
}

// Takes the exchange out of the connection: its callbacks are dropped, and the writer's calls
// become no-ops.
std::shared_ptr<Exchange> Connection::CloseExchange() {
  std::shared_ptr<Exchange> exchange = std::move(exchange_);
  exchange_ = nullptr;
  {
    const std::lock_guard lock(exchange->mutex);
    exchange->state = Exchange::State::kGone;
    exchange->output = {};
    exchange->pending.store(0, std::memory_order_relaxed);
  }
  exchange->on_drained = nullptr;
  drain_due_ = false;
  core_->AnswerEnds();
  return exchange;
}

void Connection::FinishAnswer() {
  const std::shared_ptr<Exchange> exchange = CloseExchange();
  exchange->on_disconnect = nullptr;
  if (!exchange->keep_alive) {
    phase_ = Phase::kLingering;
    input_.clear();
    return Linger();
  }
  phase_ = Phase::kReading;
  SetDeadline(IdleTimeout());
  if (!input_.empty()) Parse();
  if (phase_ == Phase::kReading && end_of_file_) return Gone();  // nothing more can come
  ArmRead();
}

// Closes our side first and the socket when the client has closed its own: closing at once with
// unread bytes in the socket would send a reset, and that can destroy the answer on its way.
void Connection::Linger() {
  if (end_of_file_) return Gone();
  error_code ignored;
  socket_.shutdown(Socket::shutdown_send, ignored);
  SetDeadline(kLingerTime);
  ArmRead();
}

Connection::Clock::duration Connection::IdleTimeout() const {
  return std::chrono::milliseconds(core_->options.idle_timeout_ms);
}

// Moving the deadline is frequent and its passing rare, so the timer is left alone while it fires
// early enough.
void Connection::SetDeadline(Clock::duration from_now) {
  deadline_ = Clock::now() + from_now;
  if (timer_at_ > deadline_) ArmTimer();
}

void Connection::ArmTimer() {
  timer_at_ = deadline_;
  timer_.expires_at(timer_at_);
  timer_.async_wait([self = shared_from_this()](const error_code& error) {
    if (!error) self->OnTimer();
  });
}

void Connection::OnTimer() {
  timer_at_ = Clock::time_point::max();
  if (phase_ == Phase::kClosed || deadline_ == Clock::time_point::max()) return;
  if (Clock::now() < deadline_) return ArmTimer();
  if (phase_ == Phase::kReading && reader_) {
    return Refuse(408, "the request did not arrive within the time limit");
  }
  Gone();
}

// The connection ends: the client closed it, or is no longer there, or took too long, or the server
// closes.
void Connection::Gone() {
  if (phase_ == Phase::kClosed) return;
  phase_ = Phase::kClosed;
  const std::shared_ptr<Connection> self = shared_from_this();
  core_->Unregister(self);
  error_code ignored;
  socket_.close(ignored);
  timer_.cancel();
  probe_timer_.reset();
  reader_.reset();
  body_bytes_.Set(0);
  input_ = {};
  if (!exchange_) return;
  bool ended = false;
  {
    const std::lock_guard lock(exchange_->mutex);
    ended = exchange_->state == Exchange::State::kEnded;
  }
  const std::shared_ptr<Exchange> exchange = CloseExchange();
  const std::function<void()> on_disconnect = std::exchange(exchange->on_disconnect, nullptr);
  // Once the handler has given its whole answer there is nothing left that it could stop.
  if (on_disconnect && !ended) Guard("OnDisconnect", on_disconnect);
}

}  // namespace erne
