// The terminal of `erne chat`: lines from standard input, ^C as something to wait for, and what a
// terminal may be shown.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "base/status.h"

namespace erne {

// A flag to wait for, which any thread and a signal handler may raise (an eventfd).
class Wakeup {
 public:
  static Result<std::shared_ptr<Wakeup>> Create();
  Wakeup(const Wakeup&) = delete;
  Wakeup& operator=(const Wakeup&) = delete;
  ~Wakeup();

  void Raise() const;  // async-signal-safe
  bool Take() const;   // whether it was raised; it is lowered
  int fd() const { return fd_; }

 private:
  explicit Wakeup(int fd) : fd_(fd) {}
  const int fd_;
};

// While this lives, SIGINT raises `wakeup` and does nothing else. One at a time.
class CatchInterrupts {
 public:
  explicit CatchInterrupts(std::shared_ptr<const Wakeup> wakeup);
  CatchInterrupts(const CatchInterrupts&) = delete;
  CatchInterrupts& operator=(const CatchInterrupts&) = delete;
  ~CatchInterrupts();

 private:
  const std::shared_ptr<const Wakeup> wakeup_;
};

// Waits until one of the two was raised; does not lower it. `other` may be null.
void WaitForEither(const Wakeup& one, const Wakeup* other);

// Lines of a file descriptor (a terminal, a pipe, a file).
class LineReader {
 public:
  enum class Event { kLine, kEnd, kInterrupt };

  // `interrupts` may be null.
  LineReader(int fd, std::shared_ptr<const Wakeup> interrupts)
      : fd_(fd), interrupts_(std::move(interrupts)) {}

  // Waits for a line, without its end; the last one need not have one. An interrupt is lowered, and
  // forgets what was read before it. An error of reading is the end.
  Event Next(std::string& line);

 private:
  const int fd_;
  const std::shared_ptr<const Wakeup> interrupts_;
  std::string buffer_;
  bool ended_ = false;
};

// `text` without the control characters (C0 but for line end and tab, DEL, C1) that a terminal
// obeys: a model says what it was told by anybody.
std::string ForTerminal(std::string_view text);

}  // namespace erne
