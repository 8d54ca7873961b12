// A ResponseWriter without a socket: the test is the connection's strand and the client.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "api/http_types.h"
#include "base/check.h"
#include "base/json.h"

namespace erne {

// Post may be called from any thread; everything else on the test's thread.
class TestWriter : public ResponseWriter {
 public:
  void Send(HttpResponse response) override {
    if (gone) return;
    ERNE_CHECK(!complete && !streaming) << "a second answer";
    head = std::move(response);
    body = head.body;
    Complete();
  }
  void BeginStream(HttpResponse response) override {
    if (gone) return;
    ERNE_CHECK(!complete && !streaming) << "a second answer";
    head = std::move(response);
    streaming = true;
  }
  void Write(std::string bytes) override {
    if (gone) return;
    ERNE_CHECK(streaming && !complete) << "a write outside a stream";
    body += bytes;
    writes.push_back(std::move(bytes));
  }
  void EndStream() override {
    if (gone) return;
    ERNE_CHECK(streaming && !complete) << "an end without a stream";
    Complete();
  }
  void Post(std::function<void()> work) override {
    {
      const std::lock_guard lock(mutex_);
      posted_.push_back(std::move(work));
    }
    changed_.notify_one();
  }
  size_t pending_bytes() const override { return pending; }
  void OnDrained(std::function<void()> callback) override { on_drained_ = std::move(callback); }
  void OnDisconnect(std::function<void()> callback) override {
    on_disconnect_ = std::move(callback);
  }

  // Runs what has been posted so far; false when there was nothing.
  bool RunPosted() {
    std::deque<std::function<void()>> work;
    {
      const std::lock_guard lock(mutex_);
      work.swap(posted_);
    }
    for (const auto& one : work) {
      if (!gone && !complete) one();
    }
    return !work.empty();
  }
  // Waits for posted work and runs it, until `condition` holds.
  template <typename Condition>
  void RunUntil(Condition condition) {
    while (!condition()) {
      {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [this] { return !posted_.empty(); });
      }
      RunPosted();
    }
  }
  void RunToEnd() {
    RunUntil([this] { return complete; });
  }

  void Disconnect() {
    const std::function<void()> callback = on_disconnect_;
    if (callback) callback();
    gone = true;
    DropCallbacks();
  }
  void Drain() {
    pending = 0;
    const std::function<void()> callback = on_drained_;
    if (callback) callback();
  }

  std::string Header(std::string_view name) const {
    for (const auto& [key, value] : head.headers) {
      if (key == name) return value;
    }
    return "";
  }
  Json BodyJson() const {
    Result<Json> json = Json::Parse(body);
    ERNE_CHECK(json.ok()) << json.status().message() << " in " << body;
    return *std::move(json);
  }
  // The payloads of a stream's `data: ` frames.
  std::vector<std::string> Frames() const {
    std::vector<std::string> frames;
    std::string_view rest = body;
    constexpr std::string_view kPrefix = "data: ";
    while (!rest.empty()) {
      const size_t end = rest.find("\n\n");
      ERNE_CHECK(end != rest.npos && rest.starts_with(kPrefix)) << body;
      frames.emplace_back(rest.substr(kPrefix.size(), end - kPrefix.size()));
      rest.remove_prefix(end + 2);
    }
    return frames;
  }

  HttpResponse head;
  std::string body;
  std::vector<std::string> writes;
  bool streaming = false;
  bool complete = false;
  bool gone = false;
  size_t pending = 0;

 private:
  void Complete() {
    complete = true;
    DropCallbacks();
  }
  void DropCallbacks() {
    on_drained_ = nullptr;
    on_disconnect_ = nullptr;
  }

  std::function<void()> on_drained_;
  std::function<void()> on_disconnect_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> posted_;  // guarded by mutex_
};

}  // namespace erne
