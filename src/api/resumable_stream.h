// Streams that outlive their connection (stream_options.resumable_seconds).
//
//   AnswerSession -> a kept stream (its log of events) -> ResponseWriter of whoever listens
//
// To the session a kept stream is the writer of a client that is always there: it numbers the
// events, keeps them, and hands them to the listener of the moment. Listeners come and go; a second
// one takes over, because a client that lost its network comes back before the old connection is
// known to be dead. When nobody has listened for the grace time, the client is gone for the session
// too, and the engine drops the work. An answer that has ended is kept for the grace time as well.
//
// All of this lives on one thread of the keeper's own, which stands in for the connection's strand:
// the sessions' work runs there, and so do the timers. Other threads only hand it work.
//
// Memory. The log of a stream is bounded. While somebody listens, the oldest events make room (who
// then wants them back gets a 410); while nobody does, no more events are made: tokens wait in the
// TokenStream, where max_tokens bounds them, and nothing is lost. Over the bound of all logs
// together, the stream that has least of its grace time left goes first.
#pragma once

#include <chrono>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "api/http_types.h"
#include "base/status.h"

namespace erne {

struct StreamLimits {
  // An event of one token takes about 250 bytes: 16,000 of them, more than nearly any answer has.
  size_t max_stream_bytes = 4 * 1024 * 1024;
  size_t max_total_bytes = 64 * 1024 * 1024;
};

// Of a stream that is kept.
struct StreamKey {
  int64_t owner = -1;  // who may ask for it: the number of an API key
  std::string id = {};

  auto operator<=>(const StreamKey&) const = default;
};

// Thread-safe. The thread begins with the first stream.
class StreamKeeper {
 public:
  explicit StreamKeeper(const StreamLimits& limits = {});
  StreamKeeper(const StreamKeeper&) = delete;
  StreamKeeper& operator=(const StreamKeeper&) = delete;
  ~StreamKeeper();  // ends all streams: for their sessions the clients are gone

  // A writer for a session that streams; `listener` hears it first. What is posted to it runs after
  // BeginStream. InvalidArgument when a stream with that key is kept.
  Result<std::shared_ptr<ResponseWriter>> Open(StreamKey key, std::chrono::milliseconds grace,
                                               std::shared_ptr<ResponseWriter> listener);

  // Makes `listener` the one who hears the stream: the events after `last_event`, then what comes.
  // An error is an answer to it: 404 unknown, 400 an event that has not been, 410 one that is not
  // kept any more. `head` has the headers of either.
  void Resume(const StreamKey& key, uint64_t last_event, std::shared_ptr<ResponseWriter> listener,
              HttpResponse head);

  // From now on nobody can come back: streams end with their listeners.
  void Drain();

  // What is kept now, for tests.
  size_t streams() const;

 private:
  class Loop;
  class Stream;
  const std::shared_ptr<Loop> loop_;
};

}  // namespace erne
