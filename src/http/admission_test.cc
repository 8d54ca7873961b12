// Large requests must not stand in the way of small ones, small ones not in the way of streams, and
// nothing at all in the way of a health check.
#include "http/admission.h"

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/strings.h"
#include "http/server.h"
#include "http/test_client.h"

namespace erne {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST(WorkLane, LetsInAsManyAsItHasSlotsAndTheOthersInOrder) {
  WorkLane lane(2);
  std::vector<int> begun;
  for (int i = 0; i < 5; ++i) lane.Enter([&begun, i] { begun.push_back(i); });
  EXPECT_THAT(begun, ElementsAre(0, 1));
  lane.Leave();
  EXPECT_THAT(begun, ElementsAre(0, 1, 2));
  for (int i = 0; i < 4; ++i) lane.Leave();
  EXPECT_THAT(begun, ElementsAre(0, 1, 2, 3, 4));
  for (int i = 5; i < 8; ++i) lane.Enter([&begun, i] { begun.push_back(i); });
  EXPECT_THAT(begun, ElementsAre(0, 1, 2, 3, 4, 5, 6));
}

// `from` goes on with nothing.
ByteShare TakeOver(ByteShare& from) { return std::move(from); }

TEST(ByteShare, IsGivenBack) {
  ByteCount all = 7;
  {
    ByteShare share(all);
    share.Set(100);
    share.Set(40);
    EXPECT_EQ(all, 47u);
    const ByteShare heir = TakeOver(share);
    share.Set(3);
    EXPECT_EQ(all, 50u);
    EXPECT_EQ(heir.bytes(), 40u);
  }
  EXPECT_EQ(all, 7u);
}

// Says what it was asked; requests to /work wait at a gate first, on the server's threads.
class GatedHandler : public HttpHandler {
 public:
  void Handle(HttpRequest request, std::shared_ptr<ResponseWriter> writer) override {
    if (request.path == "/work") {
      ++at_the_gate;
      begun.Set();
      EXPECT_TRUE(gate.Wait());
    }
    writer->Send({200, "text/plain", StrCat(request.path, " ", request.body.size()), {}});
  }

  std::atomic<int> at_the_gate{0};
  Flag begun;
  Flag gate;
};

std::string Post(std::string_view path, size_t bytes) {
  return StrCat("POST ", path, " HTTP/1.1\r\nHost: h\r\nContent-Length: ", bytes, "\r\n\r\n",
                std::string(bytes, 'x'));
}

class AdmissionTest : public ::testing::Test {
 protected:
  void Start(const HttpServerOptions& options) {
    server_ = std::make_unique<HttpServer>(handler_, options);
    port_ = server_->Listen("127.0.0.1", 0).value();
  }

  GatedHandler handler_;
  std::unique_ptr<HttpServer> server_;
  uint16_t port_ = 0;
};

TEST_F(AdmissionTest, LargeRequestsLeaveAThreadToTheOthers) {
  constexpr size_t kLarge = 100'000;
  HttpServerOptions options;
  options.threads = 3;
  Start(options);
  std::vector<std::unique_ptr<Client>> large;
  for (int i = 0; i < 6; ++i) {
    large.push_back(std::make_unique<Client>(port_));
    large.back()->Send(Post("/work", kLarge));
  }
  ASSERT_TRUE(handler_.begun.Wait());
  for (int i = 0; i < 20; ++i) {  // all threads but one are at the gate
    Client small(port_);
    small.Get("/health");
    EXPECT_THAT(small.ReceiveResponse(), EndsWith("/health 0"));
    small.Send(Post("/small", 1000));
    EXPECT_THAT(small.ReceiveResponse(), EndsWith("/small 1000"));
  }
  large[3]->Reset();  // gone while it waits for its turn
  handler_.gate.Set();
  for (const int i : {0, 1, 2, 4, 5}) {
    EXPECT_THAT(large[i]->ReceiveResponse(), EndsWith("/work 100000"));
  }
}

TEST_F(AdmissionTest, SmallRequestsLeaveAThreadToTheOthersToo) {
  Start({});
  std::vector<std::unique_ptr<Client>> busy;
  for (const size_t bytes : {1000, 1000, 1000, 1000, 100'000, 100'000}) {
    busy.push_back(std::make_unique<Client>(port_));
    busy.back()->Send(Post("/work", bytes));
  }
  ASSERT_TRUE(handler_.begun.Wait());
  for (int i = 0; i < 20; ++i) {
    Client other(port_);
    other.Get("/page");
    EXPECT_THAT(other.ReceiveResponse(), EndsWith("/page 0"));
  }
  handler_.gate.Set();
  for (const auto& client : busy) EXPECT_THAT(client->ReceiveResponse(), HasSubstr("/work 100"));
}

TEST_F(AdmissionTest, AnUrgentRequestIsAnsweredWhenEveryThreadIsBusy) {
  HttpServerOptions options;
  options.urgent_path = "/health";
  Start(options);
  std::vector<std::unique_ptr<Client>> busy;
  for (int i = 0; i < 2 * options.threads; ++i) {
    busy.push_back(std::make_unique<Client>(port_));
    busy.back()->Get("/work");  // nothing to read: handled wherever it arrives
  }
  while (handler_.at_the_gate < options.threads) std::this_thread::yield();
  Client kept(port_);
  for (const std::string_view path : {"/health", "/health/live", "/health"}) {
    kept.Get(path);
    EXPECT_THAT(kept.ReceiveResponse(), EndsWith(StrCat(path, " 0")));
    Client fresh(port_);
    for (const char c : StrCat("GET ", path, " HTTP/1.1\r\nHost: h\r\n\r\n")) {
      fresh.Send(std::string(1, c));
    }
    EXPECT_THAT(fresh.ReceiveResponse(), EndsWith(StrCat(path, " 0")));
  }
  kept.Get("/work");  // the same connection goes where it has to wait
  kept.Get("/health");
  Client fresh(port_);
  fresh.Get("/health");
  EXPECT_THAT(fresh.ReceiveResponse(), EndsWith("/health 0"));
  EXPECT_EQ(handler_.at_the_gate, options.threads);
  handler_.gate.Set();
  for (const auto& client : busy) EXPECT_THAT(client->ReceiveResponse(), EndsWith("/work 0"));
  EXPECT_THAT(kept.ReceiveResponse(), EndsWith("/work 0"));
  EXPECT_THAT(kept.ReceiveResponse(), EndsWith("/health 0"));
}

TEST_F(AdmissionTest, PipelinedRequestsOfEitherKindKeepTheirOrder) {
  HttpServerOptions options;
  options.urgent_path = "/health";
  Start(options);
  Client client(port_);
  std::string all;
  for (int i = 0; i < 50; ++i) {
    all += StrCat("GET /health/", i, " HTTP/1.1\r\nHost: h\r\n\r\n");
    if (i % 2 == 1) all += Post(StrCat("/x", i), 10);
  }
  client.Send(all);
  for (int i = 0; i < 50; ++i) {
    ASSERT_THAT(client.ReceiveResponse(), EndsWith(StrCat("/health/", i, " 0")));
    if (i % 2 == 0) continue;
    ASSERT_THAT(client.ReceiveResponse(), EndsWith(StrCat("/x", i, " 10")));
  }
  EXPECT_EQ(client.received, "");
}

TEST_F(AdmissionTest, TheServerEndsWhileConnectionsMove) {
  HttpServerOptions options;
  options.urgent_path = "/health";
  for (int round = 0; round < 20; ++round) {
    Start(options);
    std::vector<std::unique_ptr<Client>> clients;
    for (int i = 0; i < 20; ++i) {
      clients.push_back(std::make_unique<Client>(port_));
      clients.back()->Send(i % 2 == 0 ? Post("/small", 10) : "GET /health");
    }
    server_.reset();
    for (const auto& client : clients) {
      const std::string answer = client->ReceiveAll();
      EXPECT_TRUE(answer.empty() || answer.starts_with("HTTP/1.1 200 ")) << answer;
    }
  }
}

TEST_F(AdmissionTest, TheServerEndsWhileLargeRequestsWait) {
  Start({});
  std::vector<std::unique_ptr<Client>> large;
  for (int i = 0; i < 4; ++i) {
    large.push_back(std::make_unique<Client>(port_));
    large.back()->Send(Post("/work", 100'000));
  }
  ASSERT_TRUE(handler_.begun.Wait());
  handler_.gate.Set();
  server_.reset();
}

TEST_F(AdmissionTest, BytesThatWaitAreBounded) {
  HttpServerOptions options;
  options.max_waiting_bytes = 1'000'000;
  Start(options);
  Client first(port_);
  first.Send(Post("/work", 600'000));
  ASSERT_TRUE(handler_.begun.Wait());
  Client second(port_);
  second.Send(Post("/a", 600'000));
  EXPECT_THAT(second.ReceiveResponse(),
              AllOf(StartsWith("HTTP/1.1 503 "), HasSubstr("Retry-After"), HasSubstr("too many")));
  Client small(port_);
  small.Send(Post("/small", 1000));
  EXPECT_THAT(small.ReceiveResponse(), EndsWith("/small 1000"));
  handler_.gate.Set();
  EXPECT_THAT(first.ReceiveResponse(), EndsWith("/work 600000"));
  std::string answer;
  do {  // the bytes are given back soon after the answer
    Client again(port_);
    again.Send(Post("/a", 600'000));
    answer = again.ReceiveResponse();
  } while (answer.starts_with("HTTP/1.1 503 "));
  EXPECT_THAT(answer, EndsWith("/a 600000"));
}

}  // namespace
}  // namespace erne
