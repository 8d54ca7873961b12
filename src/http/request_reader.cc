#include "http/request_reader.h"

#include <algorithm>
#include <exception>
#include <optional>
#include <utility>

#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>

#include "base/strings.h"
#include "base/utf8.h"

namespace erne {
namespace {

namespace http = boost::beast::http;

// The longest method that anybody uses is 17 letters (UPDATEREDIRECTREF).
constexpr size_t kMaxMethodBytes = 32;
// Room for the size line of a chunk with its extensions, or the last one's with the trailer; more
// is an attack.
constexpr size_t kMaxChunkLineBytes = 16 * 1024;
// The end of a chunked body is never shorter ("0\r\n\r\n"), so less than this is never enough.
// Beast 1.81 must not be called with less when it has seen the beginning of the last chunk already
// (it asserts that).
constexpr size_t kLeastChunkedRest = 5;

bool IsTokenChar(char c) {  // RFC 9110, 5.6.2
  if ((c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')) return true;
  return std::string_view("!#$%&'*+-.^_`|~").find(c) != std::string_view::npos && c != '\0';
}

std::optional<int> HexDigit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return std::nullopt;
}

// `text` with %XX replaced by the byte; nothing when an escape is broken or hides a NUL, or the
// result is no UTF-8.
std::optional<std::string> PercentDecode(std::string_view text) {
  std::string decoded;
  decoded.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      decoded += text[i];
      continue;
    }
    if (i + 2 >= text.size()) return std::nullopt;
    const std::optional<int> high = HexDigit(text[i + 1]);
    const std::optional<int> low = HexDigit(text[i + 2]);
    if (!high || !low || *high * 16 + *low == 0) return std::nullopt;
    decoded += static_cast<char>(*high * 16 + *low);
    i += 2;
  }
  if (FindInvalidUtf8(decoded) != std::string_view::npos) return std::nullopt;
  return decoded;
}

// "http://host:8000/path" (the form that proxies use) as "/path".
std::string_view OriginForm(std::string_view target) {
  for (const std::string_view scheme : {"http://", "https://"}) {
    if (target.size() < scheme.size() || ToLowerAscii(target.substr(0, scheme.size())) != scheme) {
      continue;
    }
    const size_t slash = target.find_first_of("/?", scheme.size());
    return slash == std::string_view::npos ? "/" : target.substr(slash);
  }
  return target;
}

}  // namespace

struct RequestReader::Parser {
  http::request_parser<http::string_body> http;
};

RequestReader::RequestReader(const RequestLimits& limits)
    : limits_(limits), parser_(std::make_unique<Parser>()) {
  parser_->http.header_limit(static_cast<std::uint32_t>(limits.max_header_bytes));
  parser_->http.body_limit(limits.max_body_bytes);
}

RequestReader::~RequestReader() = default;

RequestReader::State RequestReader::Fail(int status, std::string message) {
  error_status_ = status;
  error_message_ = std::move(message);
  return State::kFailed;
}

// Beast waits for a whole header before it judges the first line, so bytes that can never become
// one would wait for the timeout. This answers them at once.
bool RequestReader::CheckFirstBytes(std::string_view input) {
  if (input[0] == '\x16') {
    Fail(400,
         "this port speaks plain HTTP, and the client began with a TLS handshake: use http://");
    return false;
  }
  const size_t end = std::min(input.find(' '), input.size());
  const std::string_view method = input.substr(0, end);
  if (method.empty() || method.size() > kMaxMethodBytes ||
      !std::all_of(method.begin(), method.end(), IsTokenChar)) {
    Fail(400, "the request does not begin with an HTTP method");
    return false;
  }
  first_bytes_checked_ = end < input.size();  // until the method is complete, look again
  return true;
}

bool RequestReader::TakeHeader() {
  const auto& message = parser_->http.get();
  http11_ = message.version() >= 11;
  is_head_ = message.method() == http::verb::head;
  const auto hosts = message.count(http::field::host);
  if (hosts > 1 || (http11_ && hosts == 0)) {  // RFC 9112, 3.2
    Fail(400, hosts > 1 ? "the request has more than one Host header"
                        : "the request has no Host header");
    return false;
  }
  const auto coding = message.find(http::field::transfer_encoding);
  if (coding != message.end()) {
    // Anything but exactly "chunked" has no length that both sides agree on: a way to smuggle
    // requests.
    const std::string value =
        ToLowerAscii(std::string_view(coding->value().data(), coding->value().size()));
    if (value != "chunked" || message.count(http::field::transfer_encoding) > 1 || !http11_) {
      Fail(501, "Transfer-Encoding other than chunked is not supported");
      return false;
    }
  }
  const auto content = message.find(http::field::content_encoding);
  if (content != message.end() &&
      ToLowerAscii(std::string_view(content->value().data(), content->value().size())) !=
          "identity") {
    Fail(415, "Content-Encoding is not supported: send the body as it is");
    return false;
  }
  const auto expect = message.find(http::field::expect);
  if (expect != message.end() && http11_) {
    const std::string value =
        ToLowerAscii(std::string_view(expect->value().data(), expect->value().size()));
    if (value != "100-continue") {
      Fail(417, "Expect other than 100-continue is not supported");
      return false;
    }
    wants_continue_ = !parser_->http.is_done();
  }
  keep_alive_ = message.keep_alive();
  for (const auto& field : message) {
    const auto name = field.name_string();
    const auto value = field.value();
    request_.headers.emplace_back(ToLowerAscii(std::string_view(name.data(), name.size())),
                                  std::string(value.data(), value.size()));
  }
  request_.method = std::string(message.method_string().data(), message.method_string().size());
  return TakeTarget({message.target().data(), message.target().size()});
}

bool RequestReader::TakeTarget(std::string_view raw) {
  const std::string_view target = OriginForm(raw);
  std::optional<std::string> decoded = PercentDecode(target.substr(0, target.find_first_of("?#")));
  if (!decoded) {
    Fail(400, "the path of the request is not well-formed percent-encoded UTF-8");
    return false;
  }
  request_.path = std::move(*decoded);
  if (const size_t mark = target.find('?'); mark != std::string_view::npos) {
    request_.query = std::string(target.substr(mark + 1, target.find('#', mark) - mark - 1));
  }
  return true;
}

// Hands `input` to Beast, once: it takes all that it can use.
RequestReader::State RequestReader::Put(std::string& input) {
  boost::beast::error_code error;
  const size_t used =
      parser_->http.put(boost::asio::const_buffer(input.data(), input.size()), error);
  input.erase(0, used);
  if (error == http::error::header_limit) {
    return Fail(431,
                StrCat("the request header is larger than ", limits_.max_header_bytes, " bytes"));
  }
  if (error == http::error::body_limit || error == http::error::buffer_overflow) {
    return Fail(413, StrCat("the request body is larger than ", limits_.max_body_bytes, " bytes"));
  }
  if (error && error != http::error::need_more) {
    return Fail(400, StrCat("malformed HTTP request: ", error.message()));
  }
  return parser_->http.is_done() ? State::kDone : State::kNeedMore;
}

// Header and body are read apart, so that the header is judged and copied before a chunked body can
// add trailer fields to it: those must not pass for header fields (RFC 9110, 6.5.1).
RequestReader::State RequestReader::Read(std::string& input) try {
  if (!first_bytes_checked_) {
    // Empty lines before a request are skipped (RFC 9112, 2.2).
    input.erase(0, std::min(input.find_first_not_of("\r\n"), input.size()));
    if (input.empty()) return State::kNeedMore;
    if (!CheckFirstBytes(input)) return State::kFailed;
  }
  State state = State::kNeedMore;
  if (!header_read_) {
    state = Put(input);
    if (state == State::kFailed || !parser_->http.is_header_done()) return state;
    header_read_ = true;
    if (!TakeHeader()) return State::kFailed;
    parser_->http.eager(true);  // from here on as much of the body as there is
  }
  if (state != State::kDone) {
    if (input.empty()) return State::kNeedMore;
    if (parser_->http.chunked() && input.size() < kLeastChunkedRest) return State::kNeedMore;
    state = Put(input);
    if (state == State::kFailed) return state;
    if (state == State::kNeedMore) {
      if (input.size() <= kMaxChunkLineBytes) return state;
      return Fail(400, "malformed HTTP request: a chunk's size line or the trailer is too long");
    }
  }
  request_.body = std::move(parser_->http.get().body());
  return State::kDone;
} catch (const std::exception& error) {  // std::bad_alloc
  return Fail(500, StrCat("the request could not be read: ", error.what()));
}

size_t RequestReader::body_bytes() const { return parser_->http.get().body().size(); }

bool RequestReader::TakeContinue() { return std::exchange(wants_continue_, false); }

HttpRequest RequestReader::TakeRequest() { return std::move(request_); }

}  // namespace erne
