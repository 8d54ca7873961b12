// One client connection: reads requests, hands each to the handler, writes its answer, notices when
// the client goes away.
//
// All state is owned by the connection's strand; what other threads call (ResponseWriter) goes into
// an Exchange under its mutex, and the strand picks it up. One request is answered at a time;
// further ones that a client sends ahead (pipelining) wait in the input buffer.
//
// Where does a connection live? Every one begins at the front: one thread that accepts, looks at
// the first bytes, and answers urgent requests (HttpServerOptions::urgent_path) itself. With its
// first other request the socket moves to the pool, the threads that read, answer and stream, and
// stays there. So whatever keeps the pool busy, a health check waits for nothing but other
// connections' first bytes.
//
// When is a client gone? A reset or a failed write says so. An end of file does not: it only means
// that the client sends no more, which a client that half-closes does on purpose (`nc -N`), while a
// closed program or a cancelled fetch looks just the same. Most servers take it for gone and cut
// such clients off. We ask: bytes that a client must ignore are sent, and the host of a closed
// socket answers them with a reset. Before the head of the answer those bytes are an interim "100
// Continue"; inside a chunked body they are a leading zero of the next chunk's size line. Two cases
// cannot be asked: HTTP/1.0 (neither interim answers nor chunks) and a stream whose probes are used
// up; in the first the end of file counts as gone, in the second the next write finds out.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_set>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/strand.hpp>

#include "api/http_types.h"
#include "http/admission.h"
#include "http/request_reader.h"
#include "http/server.h"

namespace erne {

class Connection;

// What the connections of a server share. Thread-safe; every connection holds it, so the io_context
// outlives the last of them, whoever keeps a writer.
struct ServerCore {
  ServerCore(HttpHandler& the_handler, const HttpServerOptions& the_options)
      : handler(the_handler),
        options(the_options),
        front(1),
        pool(the_options.threads),
        small_lane(std::max(1, the_options.threads - 2)),
        large_lane(1) {}

  // False when the server is closing: the connection must not start.
  bool Register(const std::shared_ptr<Connection>& connection);
  void Unregister(const std::shared_ptr<Connection>& connection);
  void AnswerBegins();
  void AnswerEnds();

  HttpHandler& handler;
  const HttpServerOptions options;
  boost::asio::io_context front;      // one thread
  boost::asio::io_context pool;       // options.threads
  WorkLane small_lane;                // the handler's work on requests with a body
  WorkLane large_lane;                // on those with a large one
  ByteCount waiting_bytes{0};         // of request bodies that are not yet handled
  std::atomic<bool> draining{false};  // answers say "Connection: close"

  std::mutex mutex;  // guards all below
  std::condition_variable idle;
  bool closing = false;
  int64_t answers = 0;  // in progress
  std::unordered_set<std::shared_ptr<Connection>> connections;
};

// One request and its answer, shared by the strand and by the threads that answer.
struct Exchange {
  enum class State { kOpen, kStreaming, kEnded, kGone };

  // Set before the handler runs.
  bool http11 = true;
  bool is_head = false;
  bool keep_alive = false;

  std::atomic<size_t> pending{0};  // bytes of the answer that the socket has not taken

  std::mutex mutex;  // guards all below but the callbacks; taken after no other lock
  State state = State::kOpen;
  bool chunked = false;
  bool has_body = true;
  bool flush_posted = false;
  std::string output;  // written and not yet picked up by the strand

  // Strand only.
  std::function<void()> on_drained;
  std::function<void()> on_disconnect;
};

class Connection : public std::enable_shared_from_this<Connection> {
 public:
  using Strand = boost::asio::strand<boost::asio::io_context::executor_type>;
  using Socket = boost::asio::basic_stream_socket<boost::asio::ip::tcp, Strand>;

  enum class Place { kFront, kPool };

  // `socket` is connected and its executor is this connection's strand, at `place`. `received` was
  // read from it and is not yet consumed.
  Connection(std::shared_ptr<ServerCore> core, Socket socket, Place place,
             std::string received = {});
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  // From any thread.
  void Start();
  void Close();  // as if the client had gone

 private:
  friend class Writer;
  using Clock = std::chrono::steady_clock;

  enum class Phase {
    kReading,    // waiting for a request, or in the middle of one
    kAnswering,  // a request is with the handler
    kLingering,  // the last answer is on its way; then waiting for the client to close
    kClosed,
  };

  // All on the strand.
  void ArmRead();
  void OnReadable(const boost::system::error_code& error);
  void OnEndOfFile();
  void Parse();
  void MoveToPool();
  void Dispatch();
  void RunHandler(HttpRequest request, std::shared_ptr<ResponseWriter> writer);
  void Refuse(int status, std::string message);
  void Flush(const std::shared_ptr<Exchange>& exchange);
  void WriteControl(std::string_view bytes);
  void StartWrite();
  void WriteSome();
  void OnWritten(const boost::system::error_code& error, size_t count);
  void AfterWriting();
  std::shared_ptr<Exchange> CloseExchange();
  void FinishAnswer();
  void Linger();
  void Probe();
  Clock::duration IdleTimeout() const;
  void SetDeadline(Clock::duration from_now);
  void ArmTimer();
  void OnTimer();
  void Gone();
  // Runs a callback of the handler's; its exceptions end here.
  template <typename Callback>
  void Guard(const char* what, Callback&& callback);

  const std::shared_ptr<ServerCore> core_;
  const Place place_;
  Socket socket_;
  boost::asio::steady_timer timer_;
  Phase phase_ = Phase::kReading;

  std::string input_;  // received and not yet consumed
  std::unique_ptr<RequestReader>
      reader_;            // of the request that is being read; null between requests
  ByteShare body_bytes_;  // of that request
  bool read_armed_ = false;
  bool end_of_file_ = false;
  int probes_ = 0;
  std::optional<boost::asio::steady_timer> probe_timer_;

  std::shared_ptr<Exchange> exchange_;  // while kAnswering
  std::string output_;                  // next to be written
  size_t output_answer_bytes_ = 0;      // bytes of the exchange among them
  std::string writing_;                 // with the socket now
  size_t written_ = 0;
  size_t writing_answer_bytes_ = 0;  // bytes of the exchange that are not yet written
  bool drain_due_ = false;           // bytes of the exchange were written since OnDrained last ran

  Clock::time_point deadline_ = Clock::time_point::max();
  Clock::time_point timer_at_ = Clock::time_point::max();  // when timer_ fires
};

}  // namespace erne
