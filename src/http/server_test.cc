// The server is driven through raw sockets, as hostile and ordinary clients do.
#include "http/server.h"

#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <stdexcept>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/json.h"
#include "base/strings.h"
#include "http/test_client.h"

namespace erne {
namespace {

using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

using WriterPtr = std::shared_ptr<ResponseWriter>;

class TestHandler : public HttpHandler {
 public:
  using Route = std::function<void(HttpRequest, WriterPtr)>;

  void Handle(HttpRequest request, WriterPtr writer) override {
    const auto found = routes.find(request.path);
    if (found != routes.end()) return found->second(std::move(request), std::move(writer));
    HttpResponse response;
    response.content_type = "text/plain";
    response.body = StrCat(request.method, " ", request.path, " ", request.body);
    writer->Send(std::move(response));
  }

  std::map<std::string, Route> routes;
};

class ServerTest : public ::testing::Test {
 protected:
  // Keeps the writer of a request for the test to answer.
  void KeepWriter(const std::string& path) {
    handler_.routes[path] = [this](HttpRequest, WriterPtr writer) {
      writer->OnDisconnect([this] { gone_.Set(); });
      const std::lock_guard lock(mutex_);
      kept_ = std::move(writer);
      arrived_.Set();
    };
  }
  WriterPtr Kept() {
    EXPECT_TRUE(arrived_.Wait());
    const std::lock_guard lock(mutex_);
    return kept_;
  }
  void Start(HttpServerOptions options = {}) {
    server_ = std::make_unique<HttpServer>(handler_, options);
    const Result<uint16_t> port = server_->Listen("127.0.0.1", 0);
    ASSERT_TRUE(port.ok()) << port.status().message();
    port_ = *port;
  }
  void TearDown() override {
    server_.reset();
    kept_.reset();
  }

  TestHandler handler_;
  std::unique_ptr<HttpServer> server_;
  uint16_t port_ = 0;
  std::mutex mutex_;
  WriterPtr kept_;
  Flag arrived_;
  Flag gone_;
};

TEST_F(ServerTest, KeepAliveServesManyRequests) {
  Start();
  Client client(port_);
  for (int i = 0; i < 50; ++i) {
    client.Get(StrCat("/n", i));
    EXPECT_THAT(client.ReceiveResponse(),
                AllOf(StartsWith("HTTP/1.1 200 OK\r\n"), EndsWith(StrCat("GET /n", i, " "))));
  }
  client.Get("/last", "Connection: close\r\n");
  EXPECT_THAT(client.ReceiveAll(), AllOf(HasSubstr("Connection: close"), EndsWith("GET /last ")));
}

TEST_F(ServerTest, PipelinedRequestsAreAnsweredInOrder) {
  handler_.routes["/slow"] = [](HttpRequest, WriterPtr writer) {
    std::thread([writer] {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      writer->Send({200, "text/plain", "slow", {}});
    }).detach();
  };
  Start();
  Client client(port_);
  std::string all;
  for (int i = 0; i < 200; ++i) {
    all += StrCat("POST ", i == 0 ? "/slow" : "/x",
                  " HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\n\r\n", 1000 + i);
  }
  client.Send(all);
  EXPECT_THAT(client.ReceiveResponse(), EndsWith("\r\n\r\nslow"));
  for (int i = 1; i < 200; ++i) {
    ASSERT_THAT(client.ReceiveResponse(), EndsWith(StrCat("POST /x ", 1000 + i)));
  }
}

TEST_F(ServerTest, MoreThanTheReadAheadMayBePipelined) {
  KeepWriter("/wait");
  Start();
  Client client(port_);
  const std::string body(300'000, 'b');
  std::thread sender([&] {
    client.Send("GET /wait HTTP/1.1\r\nHost: h\r\n\r\n");
    client.Send(
        StrCat("POST /big HTTP/1.1\r\nHost: h\r\nContent-Length: ", body.size(), "\r\n\r\n", body));
  });
  Kept()->Send({200, "text/plain", "first", {}});
  EXPECT_THAT(client.ReceiveResponse(), EndsWith("first"));
  EXPECT_THAT(client.ReceiveResponse(), EndsWith("POST /big " + body));
  sender.join();
}

TEST_F(ServerTest, ChunkedRequestBody) {
  Start();
  Client client(port_);
  client.Send(
      "POST /c HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: "
      "chunked\r\n\r\n4\r\nabcd\r\n2\r\nef\r\n0\r\n\r\n");
  EXPECT_THAT(client.ReceiveResponse(), EndsWith("POST /c abcdef"));
}

TEST_F(ServerTest, ARequestThatTricklesIsServed) {
  Start();
  Client client(port_);
  for (const char c : std::string("POST /t HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\nok")) {
    client.Send(std::string(1, c));
  }
  EXPECT_THAT(client.ReceiveResponse(), EndsWith("POST /t ok"));
}

TEST_F(ServerTest, ARequestThatNeverEndsIsCutOff) {
  HttpServerOptions options;
  options.idle_timeout_ms = 300;
  Start(options);
  Client client(port_);
  client.Send("GET /t HTTP/1.1\r\nHost: h\r\n");
  // Bytes keep coming: each one alone must not extend the time.
  std::thread dripper([&] {
    for (int i = 0; i < 30; ++i) {
      client.Send("x");
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
  });
  EXPECT_THAT(client.ReceiveUntil("}}"),
              AllOf(StartsWith("HTTP/1.1 408 "), HasSubstr("time limit")));
  dripper.join();
}

TEST_F(ServerTest, AnIdleConnectionIsClosedQuietly) {
  HttpServerOptions options;
  options.idle_timeout_ms = 200;
  Start(options);
  Client client(port_);
  client.Get("/a");
  EXPECT_THAT(client.ReceiveResponse(), EndsWith("GET /a "));
  EXPECT_EQ(client.ReceiveAll(), "");
}

TEST_F(ServerTest, AnAnswerMayTakeLongerThanTheIdleTimeout) {
  HttpServerOptions options;
  options.idle_timeout_ms = 100;
  KeepWriter("/wait");
  Start(options);
  Client client(port_);
  client.Get("/wait");
  const WriterPtr writer = Kept();
  std::this_thread::sleep_for(std::chrono::milliseconds(400));
  EXPECT_FALSE(gone_.IsSet());
  writer->Send({200, "text/plain", "late", {}});
  EXPECT_THAT(client.ReceiveResponse(), EndsWith("late"));
}

TEST_F(ServerTest, OversizeBodyAndHeader) {
  HttpServerOptions options;
  options.max_body_bytes = 1000;
  options.max_header_bytes = 2000;
  Start(options);
  Client body(port_);
  body.Send("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 1000000\r\n\r\n" +
            std::string(200'000, 'x'));
  const std::string refused = body.ReceiveAll();
  EXPECT_THAT(refused, AllOf(StartsWith("HTTP/1.1 413 "), HasSubstr("Connection: close")));
  const Result<Json> error = Json::Parse(refused.substr(refused.find("\r\n\r\n") + 4));
  ASSERT_TRUE(error.ok()) << error.status().message() << " in " << refused;
  EXPECT_EQ(*error->Find("error")->Find("code"), Json(413));
  Client header(port_);
  header.Get("/", "X: " + std::string(5000, 'x') + "\r\n");
  EXPECT_THAT(header.ReceiveAll(), StartsWith("HTTP/1.1 431 "));
}

TEST_F(ServerTest, GarbageIsAnsweredAndTheServerLives) {
  Start();
  for (const std::string_view garbage :
       {std::string_view("\x16\x03\x01\x00\xa5", 5), std::string_view("\0\0\0", 3),
        std::string_view("hello\r\n\r\n"), std::string_view("GET / HTTP/1.1\r\n\r\n"),
        std::string_view(
            "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n")}) {
    Client client(port_);
    client.Send(garbage);
    EXPECT_THAT(client.ReceiveAll(),
                AllOf(StartsWith("HTTP/1.1 400 "), HasSubstr("\"type\":\"BadRequestError\"")));
  }
  Client client(port_);
  client.Get("/alive");
  EXPECT_THAT(client.ReceiveResponse(), EndsWith("GET /alive "));
}

TEST_F(ServerTest, ExpectContinue) {
  Start();
  Client client(port_);
  client.Send("POST /e HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n");
  EXPECT_EQ(client.ReceiveUntil("\r\n\r\n"), "HTTP/1.1 100 Continue\r\n\r\n");
  client.Send("ok");
  EXPECT_THAT(client.ReceiveResponse(), EndsWith("POST /e ok"));
}

TEST_F(ServerTest, HeadHasTheHeadOfGet) {
  Start();
  Client client(port_);
  client.Send("HEAD /h HTTP/1.1\r\nHost: h\r\n\r\n");
  EXPECT_THAT(client.ReceiveUntil("\r\n\r\n"), HasSubstr("Content-Length: 7\r\n"));
  client.Get("/next");  // nothing of a body is in between
  EXPECT_THAT(client.ReceiveResponse(), AllOf(StartsWith("HTTP/1.1 200"), EndsWith("GET /next ")));
}

TEST_F(ServerTest, AFieldValueCannotForgeAField) {
  handler_.routes["/f"] = [](HttpRequest, WriterPtr writer) {
    writer->Send({200, "text/plain", "", {{"X-Id", "a\r\nX-Evil: b"}}});
  };
  Start();
  Client client(port_);
  client.Get("/f");
  EXPECT_THAT(client.ReceiveResponse(),
              AllOf(HasSubstr("X-Id: a  X-Evil: b\r\n"), Not(HasSubstr("\nX-Evil"))));
}

TEST_F(ServerTest, StreamsAreChunked) {
  handler_.routes["/s"] = [](HttpRequest, WriterPtr writer) {
    writer->BeginStream({200, "text/event-stream", "", {}});
    writer->Write("data: 1\n\n");
    writer->Write("");  // must not end the stream
    writer->Write(std::string(20, 'x'));
    writer->EndStream();
  };
  Start();
  Client client(port_);
  client.Get("/s");
  EXPECT_THAT(client.ReceiveUntil("0\r\n\r\n"),
              AllOf(HasSubstr("Transfer-Encoding: chunked\r\n"),
                    HasSubstr("Content-Type: text/event-stream"),
                    EndsWith("9\r\ndata: 1\n\n\r\n14\r\nxxxxxxxxxxxxxxxxxxxx\r\n0\r\n\r\n")));
  client.Get("/after");
  EXPECT_THAT(client.ReceiveResponse(), EndsWith("GET /after "));
}

TEST_F(ServerTest, EachWriteArrivesAtOnce) {
  KeepWriter("/s");
  Start();
  Client client(port_);
  client.Get("/s");
  const WriterPtr writer = Kept();
  writer->BeginStream({});
  client.ReceiveUntil("\r\n\r\n");
  for (int i = 0; i < 20; ++i) {
    writer->Write(StrCat("token", i, ";"));
    EXPECT_THAT(client.ReceiveUntil(";"), EndsWith(StrCat("token", i, ";")));
  }
  writer->EndStream();
  EXPECT_EQ(client.ReceiveUntil("0\r\n\r\n"), "\r\n0\r\n\r\n");
}

TEST_F(ServerTest, Http10StreamsEndWithTheConnection) {
  handler_.routes["/s"] = [](HttpRequest, WriterPtr writer) {
    writer->BeginStream({});
    writer->Write("abc");
    writer->EndStream();
  };
  Start();
  Client client(port_);
  client.Send("GET /s HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
  EXPECT_THAT(client.ReceiveAll(), AllOf(Not(HasSubstr("chunked")), EndsWith("\r\n\r\nabc")));
}

TEST_F(ServerTest, DisconnectBeforeTheAnswer) {
  KeepWriter("/wait");
  Start();
  Client client(port_);
  client.Get("/wait");
  const WriterPtr writer = Kept();
  client.Close();
  EXPECT_TRUE(gone_.Wait());
  writer->Send({});  // a quiet no-op
}

TEST_F(ServerTest, DisconnectInAStreamThatSaysNothing) {
  KeepWriter("/wait");
  Start();
  Client client(port_);
  client.Get("/wait");
  const WriterPtr writer = Kept();
  writer->BeginStream({});
  writer->Write("first");
  client.ReceiveUntil("first");
  client.Close();
  EXPECT_TRUE(gone_.Wait());
  writer->Write("more");
  writer->EndStream();
  EXPECT_EQ(writer->pending_bytes(), 0U);
}

TEST_F(ServerTest, ResetIsADisconnect) {
  KeepWriter("/wait");
  Start();
  Client client(port_);
  client.Get("/wait");
  const WriterPtr writer = Kept();
  client.Reset();
  EXPECT_TRUE(gone_.Wait());
}

TEST_F(ServerTest, AHalfClosedClientGetsItsAnswer) {
  KeepWriter("/wait");
  Start();
  Client client(port_);
  client.Get("/wait");
  const WriterPtr writer = Kept();
  client.HalfClose();
  // The question whether it is still there: an interim answer, which clients skip.
  EXPECT_EQ(client.ReceiveUntil("\r\n\r\n"), "HTTP/1.1 100 Continue\r\n\r\n");
  EXPECT_FALSE(gone_.IsSet());
  writer->Send({200, "text/plain", "answer", {}});
  EXPECT_THAT(client.ReceiveAll(), EndsWith("answer"));
}

TEST_F(ServerTest, AHalfClosedClientGetsItsStream) {
  KeepWriter("/wait");
  Start();
  Client client(port_);
  client.Get("/wait");
  const WriterPtr writer = Kept();
  writer->BeginStream({});
  writer->Write("abc");
  client.ReceiveUntil("3\r\nabc\r\n");
  client.HalfClose();
  EXPECT_EQ(client.ReceiveUntil("0"), "0");  // the first digit of the next chunk's size
  writer->Write("defgh");
  EXPECT_EQ(client.ReceiveUntil("\r\ndefgh\r\n"), "5\r\ndefgh\r\n");
  writer->EndStream();
  EXPECT_THAT(client.ReceiveAll(), EndsWith("0\r\n\r\n"));
  EXPECT_FALSE(gone_.IsSet());
}

TEST_F(ServerTest, PipelinedRequestsBeforeAHalfCloseAreAnswered) {
  KeepWriter("/wait");
  Start();
  Client client(port_);
  client.Get("/wait");
  client.Get("/second");
  client.HalfClose();
  Kept()->Send({200, "text/plain", "first", {}});
  EXPECT_THAT(client.ReceiveAll(), AllOf(HasSubstr("first"), EndsWith("GET /second ")));
}

TEST_F(ServerTest, CallbacksAreDroppedWhenTheAnswerIsComplete) {
  const auto token = std::make_shared<int>(1);
  handler_.routes["/d"] = [token](HttpRequest, WriterPtr writer) {
    writer->OnDisconnect([token, writer] { ADD_FAILURE() << "the client did not go"; });  // a cycle
    writer->OnDrained([token, writer] {});
    writer->Send({});
  };
  Start();
  Client client(port_);
  for (int i = 0; i < 3; ++i) {
    client.Get("/d");
    client.ReceiveResponse();
  }
  client.Close();
  server_.reset();
  handler_.routes.clear();
  EXPECT_EQ(token.use_count(), 1);
}

TEST_F(ServerTest, BackPressure) {
  constexpr size_t kHighWater = 256 * 1024;
  constexpr size_t kTotal = 30 * 1024 * 1024;
  std::atomic<size_t> produced{0};
  std::atomic<size_t> most_pending{0};
  Flag paused;
  handler_.routes["/big"] = [&](HttpRequest, WriterPtr writer) {
    const auto pump = [&, raw = writer.get()] {
      while (produced < kTotal && raw->pending_bytes() < kHighWater) {
        raw->Write(std::string(64 * 1024, 'y'));
        produced += 64 * 1024;
        most_pending = std::max<size_t>(most_pending, raw->pending_bytes());
      }
      if (produced >= kTotal) return raw->EndStream();
      paused.Set();
    };
    writer->OnDrained(pump);
    writer->OnDisconnect([writer] {});  // keeps the writer while the answer is under way
    writer->BeginStream({});
    pump();
  };
  Start();
  Client client(port_, 64 * 1024);
  client.Get("/big");
  ASSERT_TRUE(paused.Wait());
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_LT(produced, kTotal);  // nobody reads, so it stands still
  const std::string all = client.ReceiveUntil("\r\n0\r\n\r\n");
  EXPECT_GT(all.size(), kTotal);
  EXPECT_LT(most_pending, kHighWater + 2 * 64 * 1024);
}

TEST_F(ServerTest, AClientThatNeverReadsIsGivenUp) {
  HttpServerOptions options;
  options.idle_timeout_ms = 300;
  KeepWriter("/big");
  Start(options);
  Client client(port_, 4096);
  client.Get("/big");
  const WriterPtr writer = Kept();
  writer->BeginStream({});
  writer->Write(std::string(32 * 1024 * 1024, 'z'));
  EXPECT_TRUE(gone_.Wait());
  EXPECT_EQ(writer->pending_bytes(), 0U);
}

TEST_F(ServerTest, WritesFromManyThreadsKeepTheirOrder) {
  KeepWriter("/s");
  Start();
  Client client(port_);
  client.Get("/s");
  const WriterPtr writer = Kept();
  writer->BeginStream({});
  std::mutex order;
  int next = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      while (true) {
        const std::lock_guard lock(order);
        if (next == 2000) return;
        writer->Write(StrCat("<", next++, ">"));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  writer->EndStream();
  const std::string all = client.ReceiveUntil("\r\n0\r\n\r\n");
  size_t at = 0;
  for (int i = 0; i < 2000; ++i) {
    at = all.find(StrCat("<", i, ">"), at);
    ASSERT_NE(at, std::string::npos) << i;
  }
}

TEST_F(ServerTest, PostRunsOnTheStrandUntilTheClientIsGone) {
  KeepWriter("/wait");
  Start();
  Client client(port_);
  client.Get("/wait");
  const WriterPtr writer = Kept();
  Flag ran;
  writer->Post([&] { ran.Set(); });
  EXPECT_TRUE(ran.Wait());
  client.Reset();
  EXPECT_TRUE(gone_.Wait());
  Flag late;
  writer->Post([&] { late.Set(); });
  server_.reset();  // all that was posted has run
  EXPECT_FALSE(late.IsSet());
}

TEST_F(ServerTest, AForgottenRequestIsAnswered) {
  handler_.routes["/forget"] = [](HttpRequest, WriterPtr) {};
  handler_.routes["/throw"] = [](HttpRequest, WriterPtr) { throw std::runtime_error("oops"); };
  handler_.routes["/half"] = [](HttpRequest, WriterPtr writer) {
    writer->BeginStream({});
    writer->Write("some");
  };
  Start();
  Client client(port_);
  client.Get("/forget");
  EXPECT_THAT(client.ReceiveResponse(), StartsWith("HTTP/1.1 500 "));
  client.Get("/throw");
  EXPECT_THAT(client.ReceiveResponse(), StartsWith("HTTP/1.1 500 "));
  client.Get("/half");
  EXPECT_THAT(client.ReceiveAll(), Not(HasSubstr("0\r\n\r\n")));  // cut off, and seen to be
}

TEST_F(ServerTest, ThrowingCallbacksHurtNobody) {
  handler_.routes["/cb"] = [](HttpRequest, WriterPtr writer) {
    writer->Post([writer] { throw std::runtime_error("posted"); });
    writer->Post([writer] { writer->Send({200, "text/plain", "fine", {}}); });
  };
  Start();
  Client client(port_);
  client.Get("/cb");
  EXPECT_THAT(client.ReceiveResponse(), EndsWith("fine"));
}

TEST_F(ServerTest, ManyIdleConnections) {
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
  ::getrlimit(RLIMIT_NOFILE, &limit);
  const size_t count = std::min<size_t>(3000, limit.rlim_cur / 2 - 100);
  Start();
  std::vector<std::unique_ptr<Client>> clients;
  for (size_t i = 0; i < count; ++i) {
    clients.push_back(std::make_unique<Client>(port_));
    ASSERT_TRUE(clients.back()->connected());
  }
  for (size_t i = 0; i < count; i += 97) {
    clients[i]->Get("/one");
    EXPECT_THAT(clients[i]->ReceiveResponse(), EndsWith("GET /one "));
  }
}

TEST_F(ServerTest, RunningOutOfDescriptorsIsSurvived) {
  Start();
  Client before(port_);
  before.Get("/a");
  EXPECT_THAT(before.ReceiveResponse(), EndsWith("GET /a "));
  rlimit old_limit{};
  ::getrlimit(RLIMIT_NOFILE, &old_limit);
  // Clients' and server's sockets are in this one process: take descriptors until none is left.
  rlimit small = old_limit;
  small.rlim_cur = 64;
  ::setrlimit(RLIMIT_NOFILE, &small);
  auto waiting = std::make_unique<Client>(port_);  // its own descriptor first
  std::vector<int> taken;
  for (int fd = ::dup(0); fd >= 0; fd = ::dup(0)) taken.push_back(fd);
  std::vector<std::unique_ptr<Client>> clients;
  for (int i = 0; i < 8 && !taken.empty(); ++i) {  // each connects with the last free descriptor
    ::close(taken.back());
    taken.pop_back();
    clients.push_back(std::make_unique<Client>(port_));
  }
  before.Get("/b");  // connections that are open go on
  EXPECT_THAT(before.ReceiveResponse(), EndsWith("GET /b "));
  for (const int fd : taken) ::close(fd);
  ::setrlimit(RLIMIT_NOFILE, &old_limit);
  for (const auto& client : clients) {
    client->Get("/c");
    EXPECT_THAT(client->ReceiveResponse(), EndsWith("GET /c "));
  }
}

TEST_F(ServerTest, StopAcceptingLeavesOpenAnswers) {
  KeepWriter("/wait");
  Start();
  Client client(port_);
  client.Get("/wait");
  const WriterPtr writer = Kept();
  server_->StopAccepting();
  EXPECT_FALSE(Client(port_).connected());
  server_->Drain(20);  // returns though the answer is open
  std::thread answer([writer] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    writer->Send({200, "text/plain", "done", {}});
  });
  server_->Drain(20'000);
  EXPECT_THAT(client.ReceiveAll(), AllOf(HasSubstr("Connection: close"), EndsWith("done")));
  answer.join();
}

TEST_F(ServerTest, WithoutKeepAliveRequestsAreStillAnswered) {
  Start();
  Client open(port_);
  open.Get("/a");
  EXPECT_THAT(open.ReceiveResponse(), HasSubstr("Connection: keep-alive"));
  server_->StopKeepAlive();
  open.Get("/b");
  EXPECT_THAT(open.ReceiveAll(), AllOf(HasSubstr("Connection: close"), EndsWith("GET /b ")));
  Client fresh(port_);
  fresh.Get("/c");
  EXPECT_THAT(fresh.ReceiveAll(), AllOf(HasSubstr("Connection: close"), EndsWith("GET /c ")));
}

TEST_F(ServerTest, ClosingTheServerEndsOpenAnswers) {
  KeepWriter("/wait");
  Start();
  Client waiting(port_);
  waiting.Get("/wait");
  const WriterPtr writer = Kept();
  Client idle(port_);
  idle.Get("/a");
  idle.ReceiveResponse();
  Client half(port_);
  half.Send("GET / HT");
  server_.reset();
  EXPECT_TRUE(gone_.IsSet());
  EXPECT_EQ(waiting.ReceiveAll(), "");
  EXPECT_EQ(idle.ReceiveAll(), "");
  // The writer outlives the server: every call is a no-op.
  writer->Post([] { ADD_FAILURE(); });
  writer->OnDisconnect([] {});
  writer->Send({});
}

TEST_F(ServerTest, BusyPortNamesItsHolder) {
  Start();
  HttpServer other(handler_, {});
  const Result<uint16_t> port = other.Listen("127.0.0.1", port_);
  ASSERT_FALSE(port.ok());
  EXPECT_THAT(port.status().message(),
              AllOf(HasSubstr(StrCat("127.0.0.1:", port_)), HasSubstr("in use"),
                    HasSubstr(StrCat("process ", ::getpid(), " ("))));
}

TEST_F(ServerTest, Hosts) {
  Start();
  EXPECT_TRUE(server_->Listen("localhost", 0).ok());
  EXPECT_TRUE(server_->Listen("0.0.0.0", 0).ok());
  EXPECT_THAT(server_->Listen("no.such.host.invalid", 0).status().message(),
              HasSubstr("no.such.host.invalid"));
  EXPECT_THAT(server_->Listen("192.0.2.1", 0).status().message(), HasSubstr("no such address"));
  const int probe = ::socket(AF_INET6, SOCK_STREAM, 0);
  sockaddr_in6 loopback{};
  loopback.sin6_family = AF_INET6;
  loopback.sin6_addr = in6addr_loopback;
  const bool has_ipv6 =
      probe >= 0 && ::bind(probe, reinterpret_cast<sockaddr*>(&loopback), sizeof(loopback)) == 0;
  if (probe >= 0) ::close(probe);
  if (!has_ipv6) GTEST_SKIP() << "no IPv6 here";
  EXPECT_TRUE(server_->Listen("[::1]", 0).ok());
  const Result<uint16_t> any = server_->Listen("::", 0);
  ASSERT_TRUE(any.ok());
  Client client(*any);  // IPv4 reaches it too
  client.Get("/six");
  EXPECT_THAT(client.ReceiveResponse(), EndsWith("GET /six "));
}

}  // namespace
}  // namespace erne
