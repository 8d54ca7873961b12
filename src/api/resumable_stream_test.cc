#include "api/resumable_stream.h"

#include <atomic>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "api/answer_session.h"
#include "api/chat_format.h"
#include "api/test_model.h"
#include "base/json.h"
#include "base/strings.h"

namespace erne {
namespace {

using namespace std::chrono_literals;
using Tok = TestTokenizer;

// A client of one connection. Thread-safe: the keeper's thread writes.
class Listener : public ResponseWriter {
 public:
  void Send(HttpResponse response) override {
    const std::lock_guard lock(mutex_);
    head_ = std::move(response);
    body_ = head_.body;
    complete_ = true;
    changed_.notify_all();
  }
  void BeginStream(HttpResponse head) override {
    const std::lock_guard lock(mutex_);
    head_ = std::move(head);
    begun_ = true;
    changed_.notify_all();
  }
  void Write(std::string bytes) override {
    const std::lock_guard lock(mutex_);
    if (gone_) return;
    EXPECT_TRUE(begun_ && !complete_);
    body_ += bytes;
    changed_.notify_all();
  }
  void EndStream() override {
    const std::lock_guard lock(mutex_);
    complete_ = true;
    changed_.notify_all();
  }
  void Post(std::function<void()>) override { FAIL() << "nothing runs on a listener's strand"; }
  size_t pending_bytes() const override { return pending; }
  void OnDrained(std::function<void()> callback) override { on_drained_ = std::move(callback); }
  void OnDisconnect(std::function<void()> callback) override {
    on_disconnect_ = std::move(callback);
  }

  void Disconnect() {
    {
      const std::lock_guard lock(mutex_);
      gone_ = true;
    }
    on_disconnect_();
  }
  void Drained() {
    pending = 0;
    on_drained_();
  }
  void WaitFor(std::string_view text) {
    Wait([&] { return body_.find(text) != std::string::npos; });
  }
  void WaitForHead() {
    Wait([&] { return begun_ || complete_; });
  }
  void WaitForEnd() {
    Wait([&] { return complete_; });
  }
  std::string body() const {
    const std::lock_guard lock(mutex_);
    return body_;
  }
  int status() const { return head_.status; }
  std::string Header(std::string_view name) const {
    for (const auto& [key, value] : head_.headers) {
      if (key == name) return value;
    }
    return "";
  }

  std::atomic<size_t> pending{0};

 private:
  template <typename Condition>
  void Wait(Condition condition) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, condition);
  }

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  HttpResponse head_;
  std::string body_;
  bool begun_ = false;
  bool complete_ = false;
  bool gone_ = false;
  std::function<void()> on_drained_;
  std::function<void()> on_disconnect_;
};

constexpr auto kLong = 60s;
constexpr auto kShort = 20ms;
const StreamKey kKey = {.owner = 1, .id = "cmpl-1"};

class ResumableStreamTest : public testing::Test {
 protected:
  void TearDown() override { keeper_.reset(); }  // it may call back until then
  // A stream whose session is the test.
  void Open(std::chrono::milliseconds grace = kLong, const StreamKey& key = kKey) {
    listener_ = std::make_shared<Listener>();
    stream_ = keeper_->Open(key, grace, listener_).value();
    stream_->OnDrained([this] { ++drained_; });
    stream_->OnDisconnect([this] { gone_ = true; });
    stream_->BeginStream({});
  }
  // Runs on the keeper's thread, behind all that was posted so far.
  void Do(const std::function<void()>& work) {
    std::mutex mutex;
    std::condition_variable changed;
    bool done = false;
    stream_->Post([&] {
      work();
      const std::lock_guard lock(mutex);
      done = true;
      changed.notify_all();
    });
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return done; });
  }
  void Say(const std::vector<std::string>& events) {
    Do([&] {
      std::string bytes;
      for (const std::string& event : events) bytes += "data: " + event + "\n\n";
      stream_->Write(bytes);
    });
  }
  void End() {
    Do([&] { stream_->EndStream(); });
  }
  std::shared_ptr<Listener> Resume(uint64_t last_event, const StreamKey& key = kKey) {
    auto listener = std::make_shared<Listener>();
    keeper_->Resume(key, last_event, listener, {});
    listener->WaitForHead();
    return listener;
  }
  void WaitUntil(const std::function<bool()>& condition) {
    while (!condition()) std::this_thread::sleep_for(1ms);
  }

  std::unique_ptr<StreamKeeper> keeper_ = std::make_unique<StreamKeeper>();
  std::shared_ptr<Listener> listener_;
  std::shared_ptr<ResponseWriter> stream_;
  std::atomic<int> drained_{0};
  std::atomic<bool> gone_{false};
};

TEST_F(ResumableStreamTest, EventsAreNumbered) {
  Open();
  Say({"a"});
  Say({"b", "c"});
  End();
  listener_->WaitForEnd();
  EXPECT_EQ(listener_->body(), "id: 1\ndata: a\n\nid: 2\ndata: b\n\nid: 3\ndata: c\n\n");
  EXPECT_EQ(listener_->Header("X-Stream-Id"), "cmpl-1");
  EXPECT_FALSE(gone_) << "the answer was complete";
}

TEST_F(ResumableStreamTest, AClientComesBackForTheRest) {
  Open();
  Say({"a", "b"});
  listener_->WaitFor("b");
  listener_->Disconnect();
  Say({"c", "d"});
  EXPECT_FALSE(gone_);
  const auto second = Resume(1);
  EXPECT_EQ(second->Header("X-Stream-Id"), "cmpl-1");
  second->WaitFor("data: d");
  EXPECT_EQ(second->body(), "id: 2\ndata: b\n\nid: 3\ndata: c\n\nid: 4\ndata: d\n\n");
  Say({"e"});
  second->WaitFor("id: 5\ndata: e\n\n");
  second->Disconnect();
  const auto third = Resume(5);
  EXPECT_EQ(third->body(), "") << "it has everything";
  Say({"f"});
  third->WaitFor("id: 6\ndata: f\n\n");
}

TEST_F(ResumableStreamTest, OnlyTheOwnerFindsIt) {
  Open();
  Say({"a"});
  for (const StreamKey& key : {StreamKey{1, "cmpl-2"}, StreamKey{2, "cmpl-1"}, StreamKey{-1, ""}}) {
    const auto other = Resume(0, key);
    EXPECT_EQ(other->status(), 404);
    EXPECT_NE(other->body().find("NotFoundError"), std::string::npos) << other->body();
  }
  const auto early = Resume(2);
  EXPECT_EQ(early->status(), 400);
  EXPECT_NE(early->body().find(R"("param":"last_event_id")"), std::string::npos) << early->body();
  Say({"b"});
  listener_->WaitFor("data: b");  // none of them took the stream over
}

TEST_F(ResumableStreamTest, WhenNobodyComesBackTheClientIsGone) {
  Open(kShort);
  Say({"a"});
  listener_->Disconnect();
  WaitUntil([&] { return gone_ && keeper_->streams() == 0; });
  EXPECT_EQ(Resume(0)->status(), 404);
  stream_->Post([] { ADD_FAILURE() << "the session is over"; });
}

TEST_F(ResumableStreamTest, AListenerKeepsIt) {
  Open(kShort);
  listener_->WaitForHead();
  std::this_thread::sleep_for(3 * kShort);
  Say({"a"});
  listener_->WaitFor("a");
  EXPECT_FALSE(gone_);
}

TEST_F(ResumableStreamTest, AnAnswerThatHasEndedIsKeptForAWhile) {
  Open(500ms);
  Say({"a", "b"});
  listener_->WaitFor("b");
  listener_->Disconnect();
  Say({"[DONE]"});
  End();
  for (const uint64_t last : {0, 2, 3}) {
    const auto again = Resume(last);
    again->WaitForEnd();
    EXPECT_EQ(again->status(), 200);
    EXPECT_EQ(again->body().find("id: ") == std::string::npos, last == 3);
    EXPECT_EQ(again->body().ends_with("id: 3\ndata: [DONE]\n\n"), last < 3);
  }
  WaitUntil([&] { return keeper_->streams() == 0; });
  EXPECT_EQ(Resume(0)->status(), 404);
  EXPECT_FALSE(gone_);
}

TEST_F(ResumableStreamTest, TheSecondListenerTakesOver) {
  Open();
  Say({"a"});
  const auto second = Resume(1);
  listener_->WaitForEnd();
  EXPECT_TRUE(listener_->body().ends_with(": another client goes on with this stream\n\n"));
  listener_->Disconnect();  // is no matter any more
  Say({"b"});
  second->WaitFor("data: b");
  EXPECT_EQ(listener_->body().find("data: b"), std::string::npos);
}

TEST_F(ResumableStreamTest, ASlowListenerHoldsTheSessionBack) {
  Open();
  listener_->WaitForHead();
  listener_->pending = 2 * 1024 * 1024;
  Say({"a", "b"});
  EXPECT_EQ(listener_->body(), "");
  Do([&] { EXPECT_GT(stream_->pending_bytes(), listener_->pending); });
  const int drained = drained_;
  listener_->Drained();
  listener_->WaitFor("data: b");
  WaitUntil([&] { return drained_ > drained; });
  Do([&] { EXPECT_EQ(stream_->pending_bytes(), 0u); });
}

TEST_F(ResumableStreamTest, TheOldestEventsMakeRoomForAListener) {
  keeper_ = std::make_unique<StreamKeeper>(StreamLimits{.max_stream_bytes = 1000});
  Open();
  for (int i = 0; i < 20; ++i) Say({std::string(100, 'x')});
  listener_->WaitFor("id: 20\n");
  const auto late = Resume(1);
  EXPECT_EQ(late->status(), 410);
  EXPECT_NE(late->body().find("GoneError"), std::string::npos) << late->body();
  const auto soon = Resume(19);
  soon->WaitFor("id: 20\n");
}

TEST_F(ResumableStreamTest, AFullLogWaitsForAListener) {
  keeper_ = std::make_unique<StreamKeeper>(StreamLimits{.max_stream_bytes = 1000});
  Open();
  listener_->WaitForHead();
  listener_->Disconnect();
  int said = 0;
  const auto may_say = [&] {
    bool may = false;
    Do([&] { may = stream_->pending_bytes() <= AnswerSession::kMaxPendingBytes; });
    return may;
  };
  for (; may_say(); ++said) Say({std::string(100, 'x')});
  EXPECT_GE(said, 4);
  EXPECT_LE(said, 6);
  const int drained = drained_;
  const auto back = Resume(0);
  back->WaitFor(StrCat("id: ", said, "\n"));
  EXPECT_TRUE(back->body().starts_with("id: 1\n")) << "nothing was dropped";
  WaitUntil([&] { return drained_ > drained; });  // the session goes on
  EXPECT_TRUE(may_say());
}

TEST_F(ResumableStreamTest, TheOneWithTheLeastTimeLeftMakesRoomForOthers) {
  keeper_ = std::make_unique<StreamKeeper>(
      StreamLimits{.max_stream_bytes = 10'000, .max_total_bytes = 2'000});
  Open(kLong);
  Say({std::string(700, 'x')});
  listener_->Disconnect();
  const auto first = stream_;
  Open(kLong / 2, {1, "cmpl-2"});
  Say({std::string(700, 'x')});
  listener_->Disconnect();
  EXPECT_FALSE(gone_);
  Open(kLong, {1, "cmpl-3"});
  Say({std::string(700, 'x')});
  WaitUntil([&] { return gone_.load(); });
  EXPECT_EQ(Resume(0, {1, "cmpl-2"})->status(), 404);
  EXPECT_EQ(Resume(0, kKey)->status(), 200);
  EXPECT_EQ(Resume(0, {1, "cmpl-3"})->status(), 200);
}

TEST_F(ResumableStreamTest, WhenTheServerEndsNobodyIsWaitedFor) {
  Open();
  Say({"a"});
  const auto listener = listener_;
  const auto listened_to = stream_;
  Open(kLong, {1, "cmpl-2"});
  listener_->WaitForHead();
  listener_->Disconnect();
  keeper_->Drain();
  WaitUntil([&] { return gone_.load(); });
  EXPECT_EQ(keeper_->streams(), 1u);
  gone_ = false;
  stream_ = listened_to;
  Say({"b"});
  listener->WaitFor("data: b");  // running answers go on
  listener->Disconnect();
  WaitUntil([&] { return gone_ && keeper_->streams() == 0; });
}

TEST_F(ResumableStreamTest, TheKeepersEndIsTheClientsEnd) {
  Open();
  Say({"a"});
  keeper_.reset();
  EXPECT_TRUE(gone_);
  stream_->Post([] { ADD_FAILURE(); });
  listener_->Disconnect();  // later, and quietly
}

TEST_F(ResumableStreamTest, AnIdIsForOneStreamAtATime) {
  Open();
  const auto twice = keeper_->Open(kKey, kLong, std::make_shared<Listener>());
  ASSERT_FALSE(twice.ok());
  EXPECT_EQ(twice.status().param(), "request_id");
  EXPECT_TRUE(keeper_->Open({2, "cmpl-1"}, kLong, std::make_shared<Listener>()).ok());
  EXPECT_EQ(keeper_->streams(), 1u) << "one that never began is forgotten";
}

TEST_F(ResumableStreamTest, WhatIsPostedEarlyRunsAfterTheBeginning) {
  listener_ = std::make_shared<Listener>();
  stream_ = keeper_->Open(kKey, kLong, listener_).value();
  stream_->Post([&] { stream_->Write("data: a\n\n"); });
  std::this_thread::sleep_for(5ms);
  stream_->BeginStream({});
  listener_->WaitFor("data: a");
}

// The session of a real answer, whose engine is the test: whoever comes back has the same text.
TEST_F(ResumableStreamTest, AnAnswerGoesOnWithoutItsClient) {
  const TestTokenizer tokenizer;
  listener_ = std::make_shared<Listener>();
  std::shared_ptr<TokenStream> tokens;
  {
    auto session = AnswerSession::Create(
        keeper_->Open(kKey, kLong, listener_).value(),
        std::make_unique<ChatFormat>("chatcmpl-1", 1, "m", LogprobWriter(tokenizer, true)),
        tokenizer, nullptr, {.choices = {{.prompt_tokens = 2}}, .stop = {"END"}, .stream = true});
    tokens = session->stream(0);
    tokens->Push({.token = 'a'});  // before Start
    session->Start({});
  }
  listener_->WaitFor(R"("content":"a")");
  listener_->Disconnect();
  for (const char c : std::string_view("bcEN")) tokens->Push({.token = c});
  const auto second = Resume(2);
  second->WaitFor(R"("content":"c")");
  second->Disconnect();
  for (const char c : std::string_view("Dxyz")) tokens->Push({.token = c});
  WaitUntil([&] { return tokens->cancelled(); });  // its stop string is found with nobody there
  const auto third = Resume(0);
  third->WaitForEnd();
  std::string text;
  uint64_t id = 0;
  for (const std::string& line : Split(third->body(), '\n')) {
    if (line.starts_with("id: ")) {
      EXPECT_EQ(line, StrCat("id: ", ++id));
    }
    if (!line.starts_with("data: {")) continue;
    const Json chunk = Json::Parse(line.substr(6)).value();
    text += chunk.Find("choices")->AsArray()[0].Find("delta")->Find("content")->AsString();
  }
  EXPECT_EQ(text, "abc");
  EXPECT_TRUE(third->body().ends_with("data: [DONE]\n\n"));
}

TEST_F(ResumableStreamTest, ASessionWithoutClientIsCancelledInTheEnd) {
  const TestTokenizer tokenizer;
  listener_ = std::make_shared<Listener>();
  auto session = AnswerSession::Create(
      keeper_->Open(kKey, kShort, listener_).value(),
      std::make_unique<ChatFormat>("chatcmpl-1", 1, "m", LogprobWriter(tokenizer, true)), tokenizer,
      nullptr, {.choices = {{2}, {2}}, .stream = true});
  const std::vector<std::shared_ptr<TokenStream>> tokens = {session->stream(0), session->stream(1)};
  session->Start({});
  const std::weak_ptr<AnswerSession> weak = std::exchange(session, nullptr);
  listener_->WaitForHead();
  listener_->Disconnect();
  WaitUntil([&] { return tokens[0]->cancelled() && tokens[1]->cancelled() && weak.expired(); });
}

}  // namespace
}  // namespace erne
