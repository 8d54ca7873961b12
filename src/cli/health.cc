#include "cli/health.h"

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <memory>
#include <optional>
#include <string_view>

#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/status.h"
#include "base/strings.h"
#include "cli/command.h"
#include "cli/flags.h"

namespace erne {
namespace {

using Clock = std::chrono::steady_clock;

// The answer to /health is a line of JSON; what is longer comes from something else.
constexpr size_t kMaxAnswerBytes = 64 * 1024;

struct Address {
  std::string host;
  std::string port = "80";
  std::string path = "/health";
};

// http://host[:port][/path]; the path of a bare address is /health.
Result<Address> ParseUrl(std::string_view url) {
  constexpr std::string_view kScheme = "http://";
  if (!url.starts_with(kScheme)) {
    return InvalidArgument(StrCat("--url: '", url, "' does not begin with http://"), "--url");
  }
  const std::string_view rest = url.substr(kScheme.size());
  Address address;
  const size_t slash = rest.find('/');
  if (slash != std::string_view::npos && slash + 1 < rest.size()) address.path = rest.substr(slash);
  std::string_view authority = rest.substr(0, slash);
  const size_t bracket = authority.find(']');  // [::1]:8000
  const size_t colon = authority.find(':', bracket == std::string_view::npos ? 0 : bracket);
  if (colon != std::string_view::npos) {
    address.port = authority.substr(colon + 1);
    authority = authority.substr(0, colon);
  }
  if (authority.size() > 2 && authority.front() == '[') {
    authority = authority.substr(1, authority.size() - 2);
  }
  address.host = authority;
  if (address.host.empty() || !ParseNumber<uint16_t>(address.port)) {
    return InvalidArgument(StrCat("--url: '", url, "' is no host and port"), "--url");
  }
  return address;
}

// Closes what it holds.
class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  int get() const { return fd_; }

 private:
  int fd_;
};

Status WaitFor(int fd, short events, Clock::time_point deadline) {
  const auto left =
      std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
  pollfd wanted{fd, events, 0};
  const int ready = left > 0 ? ::poll(&wanted, 1, static_cast<int>(left)) : 0;
  if (ready > 0) return {};
  if (ready < 0 && errno != EINTR) return Unavailable(std::strerror(errno));
  return Unavailable("no answer in time");
}

Status Connect(int fd, const addrinfo& address, Clock::time_point deadline) {
  if (::connect(fd, address.ai_addr, address.ai_addrlen) == 0) return {};
  if (errno != EINPROGRESS) return Unavailable(std::strerror(errno));
  ERNE_RETURN_IF_ERROR(WaitFor(fd, POLLOUT, deadline));
  int error = 0;
  socklen_t size = sizeof(error);
  ::getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size);
  return error == 0 ? Status() : Unavailable(std::strerror(error));
}

// One GET; the whole answer as text. The socket does not block.
Result<std::string> Exchange(int fd, const Address& address, Clock::time_point deadline) {
  const std::string request = StrCat("GET ", address.path, " HTTP/1.1\r\nHost: ", address.host,
                                     "\r\nConnection: close\r\n\r\n");
  ERNE_RETURN_IF_ERROR(WaitFor(fd, POLLOUT, deadline));
  // So few bytes fit into the buffer of a fresh socket.
  if (::send(fd, request.data(), request.size(), MSG_NOSIGNAL) !=
      static_cast<ssize_t>(request.size())) {
    return Unavailable("the request could not be sent");
  }
  std::string answer;
  char buffer[4096];
  while (answer.size() < kMaxAnswerBytes) {
    ERNE_RETURN_IF_ERROR(WaitFor(fd, POLLIN, deadline));
    const ssize_t count = ::recv(fd, buffer, sizeof(buffer), 0);
    if (count < 0 && (errno == EAGAIN || errno == EINTR)) continue;
    if (count < 0) return Unavailable(std::strerror(errno));
    if (count == 0) break;
    answer.append(buffer, count);
  }
  return answer;
}

Result<std::string> Get(const Address& address, Clock::time_point deadline) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int error = ::getaddrinfo(address.host.c_str(), address.port.c_str(), &hints, &found);
  if (error != 0) return Unavailable(StrCat(address.host, ": ", ::gai_strerror(error)));
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> addresses(found, &::freeaddrinfo);
  Status status = Unavailable("no address");
  for (const addrinfo* entry = found; entry != nullptr; entry = entry->ai_next) {
    const Descriptor fd(::socket(entry->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    status = Connect(fd.get(), *entry, deadline);
    if (status.ok()) return Exchange(fd.get(), address, deadline);
  }
  return status;
}

Status CheckHealth(const Address& address, Clock::time_point deadline) {
  ERNE_ASSIGN_OR_RETURN(const std::string answer, Get(address, deadline));
  constexpr std::string_view kVersion = "HTTP/1.x ";
  const std::string_view text = answer;
  if (!text.starts_with("HTTP/1.") || text.size() < kVersion.size()) {
    return Unavailable("the answer is not HTTP");
  }
  const std::string_view status = text.substr(kVersion.size(), 3);
  if (status == "200") return {};
  const size_t body = text.find("\r\n\r\n");
  return Unavailable(
      StrCat("status ", status, ": ", body == std::string_view::npos ? "" : text.substr(body + 4)));
}

}  // namespace

int RunHealth(const std::vector<std::string>& arguments) {
  std::string url;
  std::string host = "127.0.0.1";
  int64_t port = 8000;
  double timeout = 5;
  FlagTable flags("erne health [flags]",
                  {"Asks a server whether it is healthy: prints 健康 and exits with 0, or prints "
                   "未响应 and exits "
                   "with 1.",
                   "询问服务是否正常：正常则打印“健康”并以 0 退出，否则打印“未响应”并以 1 退出。"});
  flags.Add("host", &host, "HOST", {"Where the server is", "服务所在的主机"});
  flags.Add("port", &port, "PORT", {"Its port", "服务端口"}).Range(1, 65535);
  flags
      .Add("url", &url, "URL",
           {"Its address, instead of both, with a path where that is not /health",
            "服务地址，代替以上两项；路径不是 /health 时一并写上"})
      .DefaultText("");
  flags.Add("timeout", &timeout, "SECONDS", {"How long to wait", "等待的秒数"}).Range(0.001, 3600);
  if (const std::optional<int> end = ParseOrEnd("health", flags, arguments)) return *end;
  if (!url.empty() && (flags.Given("host") || flags.Given("port"))) {
    return Fail(
        "health",
        InvalidArgument("--url says host and port already; leave --host and --port out", "--url"),
        2);
  }
  const bool bare_ipv6 = host.find(':') != std::string::npos && host.front() != '[';
  if (url.empty()) url = StrCat("http://", bare_ipv6 ? "[" + host + "]" : host, ":", port);
  const Result<Address> address = ParseUrl(url);
  if (!address.ok()) return Fail("health", address.status(), 2);
  const auto wait =
      std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(timeout));
  const Status status = CheckHealth(*address, Clock::now() + wait);
  std::puts(status.ok() ? "健康" : "未响应");
  if (!status.ok())
    std::fprintf(stderr, "erne health: %s: %s\n", url.c_str(), status.message().c_str());
  return status.ok() ? 0 : 1;
}

}  // namespace erne
