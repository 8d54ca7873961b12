#include "cli/terminal.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstring>

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/check.h"
#include "base/strings.h"
#include "base/utf8.h"

namespace erne {
namespace {

// The one that the handler raises; lock-free, as a handler needs it, which runs on any thread.
std::atomic<const Wakeup*> caught_by{nullptr};
static_assert(std::atomic<const Wakeup*>::is_always_lock_free);

void OnInterrupt(int) {
  const int saved = errno;
  if (const Wakeup* wakeup = caught_by.load(); wakeup != nullptr) wakeup->Raise();
  errno = saved;
}

}  // namespace

Result<std::shared_ptr<Wakeup>> Wakeup::Create() {
  const int fd = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (fd < 0) return Internal(StrCat("eventfd: ", std::strerror(errno)));
  return std::shared_ptr<Wakeup>(new Wakeup(fd));
}

Wakeup::~Wakeup() { ::close(fd_); }

void Wakeup::Raise() const {
  const uint64_t one = 1;
  // It fails when it was raised 2^64 times, and then it is raised.
  [[maybe_unused]] const ssize_t ignored = ::write(fd_, &one, sizeof(one));
}

bool Wakeup::Take() const {
  uint64_t count = 0;
  return ::read(fd_, &count, sizeof(count)) == sizeof(count);
}

CatchInterrupts::CatchInterrupts(std::shared_ptr<const Wakeup> wakeup)
    : wakeup_(std::move(wakeup)) {
  ERNE_CHECK(caught_by == nullptr) << "interrupts are caught already";
  caught_by = wakeup_.get();
  struct sigaction action = {};
  action.sa_handler = &OnInterrupt;
  action.sa_flags = SA_RESTART;
  ::sigaction(SIGINT, &action, nullptr);
}

CatchInterrupts::~CatchInterrupts() {
  std::signal(SIGINT, SIG_DFL);
  caught_by = nullptr;
}

void WaitForEither(const Wakeup& one, const Wakeup* other) {
  // poll passes over negative descriptors.
  pollfd wanted[] = {{one.fd(), POLLIN, 0}, {other == nullptr ? -1 : other->fd(), POLLIN, 0}};
  while (::poll(wanted, 2, -1) < 0 && errno == EINTR) {
  }
}

LineReader::Event LineReader::Next(std::string& line) {
  while (true) {
    if (const size_t end = buffer_.find('\n'); end != std::string::npos) {
      line = buffer_.substr(0, end);
      buffer_.erase(0, end + 1);
      return Event::kLine;
    }
    if (ended_) {
      line = std::move(buffer_);
      buffer_.clear();
      return line.empty() ? Event::kEnd : Event::kLine;
    }
    pollfd wanted[] = {{fd_, POLLIN, 0},
                       {interrupts_ == nullptr ? -1 : interrupts_->fd(), POLLIN, 0}};
    if (::poll(wanted, 2, -1) < 0) {
      if (errno != EINTR) ended_ = true;
      continue;
    }
    if (wanted[1].revents != 0 && interrupts_->Take()) {
      buffer_.clear();
      return Event::kInterrupt;
    }
    if (wanted[0].revents == 0) continue;
    char bytes[4096];
    const ssize_t count = ::read(fd_, bytes, sizeof(bytes));
    if (count > 0) {
      buffer_.append(bytes, static_cast<size_t>(count));
    } else if (count == 0 || (errno != EINTR && errno != EAGAIN)) {
      ended_ = true;
    }
  }
}

std::string ForTerminal(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const Utf8Char next = DecodeUtf8(text);
    const auto length = static_cast<size_t>(std::max(next.length, 1));
    const char32_t c = next.code_point;
    const bool obeyed =
        next.length == 0 || (c < 0x20 && c != '\n' && c != '\t') || (c >= 0x7F && c < 0xA0);
    if (!obeyed) out += text.substr(0, length);
    text.remove_prefix(length);
  }
  return out;
}

}  // namespace erne
