#include "api/resumable_stream.h"

#include <atomic>
#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <limits>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "api/errors.h"
#include "base/check.h"
#include "base/log.h"
#include "base/strings.h"

namespace erne {
namespace {

using Clock = std::chrono::steady_clock;

// Bytes that a listener has not taken; beyond them events wait in the log.
constexpr size_t kMaxListenerBytes = 1024 * 1024;
// What an event takes beside its text: a string in a deque, and its allocation.
constexpr size_t kEventOverhead = 64;

}  // namespace

// The thread, its queue and its timers, and the streams by key. Streams hold it; the keeper ends
// it.
class StreamKeeper::Loop {
 public:
  explicit Loop(const StreamLimits& limits) : limits_(limits) {}

  // Any thread. Work after Stop is dropped.
  void Post(std::function<void()> work);
  bool Reserve(const StreamKey& key);
  void Release(const StreamKey& key);
  std::shared_ptr<Stream> Find(const StreamKey& key) const;
  size_t streams() const;
  void Stop();

  // The loop's thread.
  void Keep(const StreamKey& key, std::shared_ptr<Stream> stream);
  void SetTimer(Stream& stream, Clock::time_point at);  // it has none
  void ClearTimer(Stream& stream);
  void Drain();
  bool draining() const { return draining_; }
  const StreamLimits& limits() const { return limits_; }
  void AddBytes(size_t count) { bytes_ += count; }
  void RemoveBytes(size_t count) { bytes_ -= count; }
  bool full() const { return bytes_ >= limits_.max_total_bytes; }
  // Ends streams that nobody listens to, but not `writing`, until there is room.
  void MakeRoom(const Stream& writing);

 private:
  void Run();
  void RunTimers();

  const StreamLimits limits_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::function<void()>> queue_;              // guarded by mutex_
  std::map<StreamKey, std::shared_ptr<Stream>> streams_;  // guarded by mutex_; null: reserved
  bool stopped_ = false;                                  // guarded by mutex_
  std::thread thread_;                                    // begun under mutex_

  // The loop's thread only.
  std::set<std::pair<Clock::time_point, Stream*>> timers_;
  size_t bytes_ = 0;
  bool draining_ = false;
};

// One kept stream. Everything runs on the loop's thread but the constructor, the destructor,
// BeginStream, Post and the setting of callbacks.
class StreamKeeper::Stream : public ResponseWriter, public std::enable_shared_from_this<Stream> {
 public:
  Stream(std::shared_ptr<Loop> loop, StreamKey key, std::chrono::milliseconds grace,
         std::shared_ptr<ResponseWriter> listener)
      : loop_(std::move(loop)),
        key_(std::move(key)),
        grace_(grace),
        first_listener_(std::move(listener)) {}
  ~Stream() override {
    if (!begun_) loop_->Release(key_);  // the engine did not take the request
  }

  // ResponseWriter, for the session.
  void Send(HttpResponse) override { ERNE_CHECK(false) << "a resumable answer is a stream"; }
  void BeginStream(HttpResponse head) override;
  void Write(std::string bytes) override;
  void EndStream() override;
  void Post(std::function<void()> work) override;
  size_t pending_bytes() const override;
  void OnDrained(std::function<void()> callback) override;
  void OnDisconnect(std::function<void()> callback) override;

  const StreamKey& key() const { return key_; }
  std::optional<Clock::time_point> timer;  // the loop's

  // `last_event` is one that has been and whose successors are kept.
  void Attach(std::shared_ptr<ResponseWriter> listener, HttpResponse head, uint64_t last_event);
  uint64_t last_event() const { return first_kept_ + log_.size() - 1; }
  uint64_t first_kept() const { return first_kept_; }
  bool has_listener() const { return listener_.has_value(); }
  // Nobody will listen any more.
  void End();

 private:
  struct Listener {
    std::shared_ptr<ResponseWriter> writer;
    uint64_t number = 0;  // of its kind, for its callbacks
    uint64_t next = 1;    // event
    size_t waiting = 0;   // bytes of the events from there on
  };

  void Begin(HttpResponse head);
  void Deliver();
  void ListenerGone(uint64_t number);
  void ListenerDrained(uint64_t number);
  void RunDrained();
  void Wait();
  void DropOldest();
  bool MayDropOldest() const;

  const std::shared_ptr<Loop> loop_;
  const StreamKey key_;
  const std::chrono::milliseconds grace_;
  std::shared_ptr<ResponseWriter> first_listener_;  // until Begin
  std::atomic<bool> begun_{false};

  bool running_ = false;                     // Begin has run
  std::vector<std::function<void()>> held_;  // posted before that
  std::function<void()> on_drained_;
  std::function<void()> on_disconnect_;
  std::optional<Listener> listener_;
  uint64_t listeners_ = 0;       // so far
  std::deque<std::string> log_;  // whole events, with their ids
  uint64_t first_kept_ = 1;      // id of the log's first
  size_t bytes_ = 0;             // of the log
  bool ended_ = false;           // the answer is complete
  bool over_ = false;            // End has run
};

void StreamKeeper::Loop::Post(std::function<void()> work) {
  {
    const std::lock_guard lock(mutex_);
    if (stopped_) return;
    queue_.push_back(std::move(work));
    if (!thread_.joinable()) thread_ = std::thread([this] { Run(); });
  }
  changed_.notify_one();
}

bool StreamKeeper::Loop::Reserve(const StreamKey& key) {
  const std::lock_guard lock(mutex_);
  return streams_.try_emplace(key).second;
}

void StreamKeeper::Loop::Release(const StreamKey& key) {
  const std::lock_guard lock(mutex_);
  streams_.erase(key);
}

std::shared_ptr<StreamKeeper::Stream> StreamKeeper::Loop::Find(const StreamKey& key) const {
  const std::lock_guard lock(mutex_);
  const auto found = streams_.find(key);
  return found == streams_.end() ? nullptr : found->second;
}

size_t StreamKeeper::Loop::streams() const {
  const std::lock_guard lock(mutex_);
  return streams_.size();
}

void StreamKeeper::Loop::Stop() {
  {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
  }
  changed_.notify_one();
  if (thread_.joinable()) thread_.join();
  // This thread is the loop's now.
  queue_.clear();
  std::map<StreamKey, std::shared_ptr<Stream>> streams;
  {
    const std::lock_guard lock(mutex_);
    streams.swap(streams_);
  }
  for (const auto& [key, stream] : streams) {
    if (stream != nullptr) stream->End();
  }
}

void StreamKeeper::Loop::Keep(const StreamKey& key, std::shared_ptr<Stream> stream) {
  const std::lock_guard lock(mutex_);
  streams_[key] = std::move(stream);
}

void StreamKeeper::Loop::SetTimer(Stream& stream, Clock::time_point at) {
  timers_.emplace(at, &stream);
  stream.timer = at;
}

void StreamKeeper::Loop::ClearTimer(Stream& stream) {
  if (stream.timer) timers_.erase({*stream.timer, &stream});
  stream.timer.reset();
}

void StreamKeeper::Loop::Drain() {
  draining_ = true;
  while (!timers_.empty()) timers_.begin()->second->End();
}

void StreamKeeper::Loop::MakeRoom(const Stream& writing) {
  for (auto next = timers_.begin(); full() && next != timers_.end();) {
    Stream* const stream = (next++)->second;
    if (stream != &writing) stream->End();
  }
}

void StreamKeeper::Loop::RunTimers() {
  const Clock::time_point now = Clock::now();
  while (!timers_.empty() && timers_.begin()->first <= now) timers_.begin()->second->End();
}

void StreamKeeper::Loop::Run() {
  std::vector<std::function<void()>> work;
  while (true) {
    {
      std::unique_lock lock(mutex_);
      const auto due = [this] { return stopped_ || !queue_.empty(); };
      if (timers_.empty()) {
        changed_.wait(lock, due);
      } else {
        changed_.wait_until(lock, timers_.begin()->first, due);
      }
      if (stopped_) return;
      work.swap(queue_);
    }
    for (const auto& one : work) {
      try {
        one();
      } catch (const std::exception& error) {  // std::bad_alloc: that stream's step is lost
        ERNE_LOG(kError, "api") << "a resumable stream failed: " << error.what();
      }
    }
    work.clear();
    RunTimers();
  }
}

void StreamKeeper::Stream::BeginStream(HttpResponse head) {
  begun_ = true;
  loop_->Post([self = shared_from_this(), head = std::move(head)]() mutable {
    self->Begin(std::move(head));
  });
}

void StreamKeeper::Stream::Begin(HttpResponse head) {
  running_ = true;
  loop_->Keep(key_, shared_from_this());
  Attach(std::exchange(first_listener_, nullptr), std::move(head), 0);
  for (const auto& work : std::exchange(held_, {})) work();
}

void StreamKeeper::Stream::Post(std::function<void()> work) {
  loop_->Post([self = shared_from_this(), work = std::move(work)]() mutable {
    if (self->over_ || self->ended_) return;
    try {
      self->running_ ? work() : self->held_.push_back(std::move(work));
    } catch (...) {
      self->End();  // part of the answer is lost: no half of it goes on
      throw;
    }
  });
}

void StreamKeeper::Stream::OnDrained(std::function<void()> callback) {
  loop_->Post([self = shared_from_this(), callback = std::move(callback)]() mutable {
    self->on_drained_ = std::move(callback);
  });
}

void StreamKeeper::Stream::OnDisconnect(std::function<void()> callback) {
  loop_->Post([self = shared_from_this(), callback = std::move(callback)]() mutable {
    self->on_disconnect_ = std::move(callback);
  });
}

// `bytes` are whole events, each ending with a blank line; none has one inside.
void StreamKeeper::Stream::Write(std::string bytes) {
  if (over_) return;
  constexpr std::string_view kEnd = "\n\n";
  std::string_view rest = bytes;
  while (!rest.empty()) {
    const size_t end = rest.find(kEnd);
    ERNE_CHECK(end != std::string_view::npos) << "half an event";
    const size_t size = end + kEnd.size();
    std::string event = "id: " + std::to_string(last_event() + 1) + "\n";
    event += rest.substr(0, size);
    rest.remove_prefix(size);
    bytes_ += event.size() + kEventOverhead;
    loop_->AddBytes(event.size() + kEventOverhead);
    if (listener_) listener_->waiting += event.size();
    log_.push_back(std::move(event));
  }
  Deliver();
  while (bytes_ > loop_->limits().max_stream_bytes && MayDropOldest()) DropOldest();
  if (loop_->full()) loop_->MakeRoom(*this);
  while (loop_->full() && MayDropOldest()) DropOldest();
}

// Only what the listener of the moment has been sent.
bool StreamKeeper::Stream::MayDropOldest() const {
  return listener_ && !log_.empty() && first_kept_ < listener_->next;
}

void StreamKeeper::Stream::DropOldest() {
  const size_t size = log_.front().size() + kEventOverhead;
  bytes_ -= size;
  loop_->RemoveBytes(size);
  log_.pop_front();
  ++first_kept_;
}

size_t StreamKeeper::Stream::pending_bytes() const {
  if (listener_) return listener_->writer->pending_bytes() + listener_->waiting;
  const bool full = bytes_ >= loop_->limits().max_stream_bytes || loop_->full();
  return full ? std::numeric_limits<size_t>::max() : 0;
}

// The session has said all: it drops out.
void StreamKeeper::Stream::EndStream() {
  if (over_) return;
  ended_ = true;
  on_drained_ = nullptr;
  on_disconnect_ = nullptr;
  if (listener_) return Deliver();  // which waits when that was all
  Wait();
}

void StreamKeeper::Stream::Attach(std::shared_ptr<ResponseWriter> listener, HttpResponse head,
                                  uint64_t last_event) {
  if (listener_) {
    listener_->writer->Write(": another client goes on with this stream\n\n");
    listener_->writer->EndStream();
  }
  loop_->ClearTimer(*this);
  const uint64_t number = ++listeners_;
  const auto posted = [weak = weak_from_this(), loop = loop_, number](auto what) {
    return [weak, loop, number, what] {
      loop->Post([weak, number, what] {
        if (const auto self = weak.lock()) (self.get()->*what)(number);
      });
    };
  };
  listener->OnDisconnect(posted(&Stream::ListenerGone));
  listener->OnDrained(posted(&Stream::ListenerDrained));
  head.headers.emplace_back("X-Stream-Id", key_.id);
  listener->BeginStream(std::move(head));
  listener_ = Listener{.writer = std::move(listener), .number = number, .next = last_event + 1};
  for (size_t i = last_event + 1 - first_kept_; i < log_.size(); ++i) {
    listener_->waiting += log_[i].size();
  }
  Deliver();
  RunDrained();  // what has waited for a listener
}

// Hands the listener what it can take.
void StreamKeeper::Stream::Deliver() {
  if (!listener_) return;
  std::string bytes;
  const size_t pending = listener_->writer->pending_bytes();
  while (listener_->next <= last_event() && pending + bytes.size() <= kMaxListenerBytes) {
    bytes += log_[listener_->next++ - first_kept_];
  }
  listener_->waiting -= bytes.size();
  if (!bytes.empty()) listener_->writer->Write(std::move(bytes));
  if (!ended_ || listener_->next <= last_event()) return;
  listener_->writer->EndStream();
  listener_.reset();
  Wait();
}

void StreamKeeper::Stream::ListenerGone(uint64_t number) {
  if (!listener_ || listener_->number != number) return;
  listener_.reset();
  Wait();
}

void StreamKeeper::Stream::ListenerDrained(uint64_t number) {
  if (!listener_ || listener_->number != number) return;
  Deliver();
  RunDrained();
}

// The session may go on. It may drop the callback while it runs.
void StreamKeeper::Stream::RunDrained() {
  const std::function<void()> callback = on_drained_;
  if (callback) callback();
}

// For a listener, as long as that is promised.
void StreamKeeper::Stream::Wait() {
  if (loop_->draining()) return End();
  loop_->ClearTimer(*this);
  loop_->SetTimer(*this, Clock::now() + grace_);
}

void StreamKeeper::Stream::End() {
  const std::shared_ptr<Stream> keep = weak_from_this().lock();
  over_ = true;
  loop_->ClearTimer(*this);
  loop_->RemoveBytes(std::exchange(bytes_, 0));
  log_.clear();
  listener_.reset();
  on_drained_ = nullptr;
  const std::function<void()> on_disconnect = std::exchange(on_disconnect_, nullptr);
  if (on_disconnect) on_disconnect();
  loop_->Release(key_);
}

StreamKeeper::StreamKeeper(const StreamLimits& limits) : loop_(std::make_shared<Loop>(limits)) {}

StreamKeeper::~StreamKeeper() { loop_->Stop(); }

Result<std::shared_ptr<ResponseWriter>> StreamKeeper::Open(
    StreamKey key, std::chrono::milliseconds grace, std::shared_ptr<ResponseWriter> listener) {
  if (!loop_->Reserve(key)) {
    return InvalidArgument(
        StrCat("a resumable stream with the id `", key.id, "` is kept already: ask with another"),
        "request_id");
  }
  return std::shared_ptr<ResponseWriter>(
      std::make_shared<Stream>(loop_, std::move(key), grace, std::move(listener)));
}

void StreamKeeper::Resume(const StreamKey& key, uint64_t last_event,
                          std::shared_ptr<ResponseWriter> listener, HttpResponse head) {
  loop_->Post([loop = loop_, key, last_event, listener = std::move(listener),
               head = std::move(head)]() mutable {
    const auto refuse = [&](int status, const std::string& why, const char* param) {
      HttpResponse response = ErrorResponse(status, why, param);
      response.headers.insert(response.headers.end(), head.headers.begin(), head.headers.end());
      listener->Send(std::move(response));
    };
    const std::shared_ptr<Stream> stream = loop->Find(key);
    if (stream == nullptr) {
      return refuse(404, StrCat("no stream with the id `", key.id, "` is kept here"), "");
    }
    if (last_event > stream->last_event()) {
      return refuse(400,
                    StrCat("`last_event_id` is ", last_event, ", and the stream's last event is ",
                           stream->last_event()),
                    "last_event_id");
    }
    if (last_event + 1 < stream->first_kept()) {
      return refuse(410,
                    StrCat("the events up to ", stream->first_kept() - 1,
                           " are not kept any more: `last_event_id` is ", last_event),
                    "last_event_id");
    }
    stream->Attach(std::move(listener), std::move(head), last_event);
  });
}

void StreamKeeper::Drain() {
  loop_->Post([loop = loop_] { loop->Drain(); });
}

size_t StreamKeeper::streams() const { return loop_->streams(); }

}  // namespace erne
