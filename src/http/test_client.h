// What tests of the server share: a client that sends bytes as they are, and a flag between
// threads.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/strings.h"

namespace erne {

// How long a test waits for what must happen; reached only when it fails.
inline constexpr auto kPatience = std::chrono::seconds(20);

// A blocking client.
class Client {
 public:
  explicit Client(uint16_t port, int receive_buffer = 0) {
    fd_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (receive_buffer > 0) {
      ::setsockopt(fd_, SOL_SOCKET, SO_RCVBUF, &receive_buffer, sizeof(receive_buffer));
    }
    const timeval timeout{std::chrono::seconds(kPatience).count(), 0};
    ::setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    connected_ = ::connect(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0;
  }
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;
  ~Client() { Close(); }

  bool connected() const { return connected_; }
  void Close() {
    if (fd_ >= 0) ::close(fd_);
    fd_ = -1;
  }
  void HalfClose() { ::shutdown(fd_, SHUT_WR); }
  void Reset() {
    const linger now{1, 0};
    ::setsockopt(fd_, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
    Close();
  }

  void Send(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t sent = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent <= 0) return;  // the server may have closed: the test sees what it answered
      bytes.remove_prefix(sent);
    }
  }

  void Get(std::string_view path, std::string_view fields = "") {
    Send(StrCat("GET ", path, " HTTP/1.1\r\nHost: h\r\n", fields, "\r\n"));
  }

  // More bytes into `received`; false at the end (or after a long wait).
  bool Receive() {
    char buffer[16384];
    const ssize_t count = ::recv(fd_, buffer, sizeof(buffer), 0);
    if (count <= 0) return false;
    received.append(buffer, count);
    return true;
  }

  // Everything until `marker` has arrived (included); takes it out of `received`.
  std::string ReceiveUntil(std::string_view marker) {
    size_t from = 0;
    size_t found = std::string::npos;
    while ((found = received.find(marker, from)) == std::string::npos) {
      from = received.size() < marker.size() ? 0 : received.size() - marker.size() + 1;
      if (!Receive()) return std::exchange(received, "");
    }
    const size_t end = found + marker.size();
    std::string text = received.substr(0, end);
    received.erase(0, end);
    return text;
  }

  // One response with a Content-Length: head and body.
  std::string ReceiveResponse() {
    std::string text = ReceiveUntil("\r\n\r\n");
    const size_t field = text.find("Content-Length: ");
    if (field == std::string::npos) return text;
    const size_t length = std::stoul(text.substr(field + 16));
    while (received.size() < length && Receive()) {
    }
    text += received.substr(0, length);
    received.erase(0, length);
    return text;
  }

  // Everything until the server closes.
  std::string ReceiveAll() {
    while (Receive()) {
    }
    return std::exchange(received, "");
  }

  std::string received;

 private:
  int fd_ = -1;
  bool connected_ = false;
};

// Something that another thread makes true.
class Flag {
 public:
  void Set() {
    const std::lock_guard lock(mutex_);
    set_ = true;
    changed_.notify_all();
  }
  bool Wait() {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, kPatience, [this] { return set_; });
  }
  bool IsSet() {
    const std::lock_guard lock(mutex_);
    return set_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool set_ = false;
};

}  // namespace erne
