#include "http/request_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/strings.h"

namespace erne {
namespace {

using State = RequestReader::State;
using ::testing::HasSubstr;
using ::testing::Pair;
using ::testing::UnorderedElementsAre;

// Reads `text` in one piece.
struct Outcome {
  explicit Outcome(std::string text, RequestLimits limits = {})
      : reader(limits), rest(std::move(text)) {
    state = reader.Read(rest);
    if (state == State::kDone) request = reader.TakeRequest();
  }
  RequestReader reader;
  std::string rest;
  State state;
  HttpRequest request;
};

TEST(RequestReaderTest, ReadsARequestAndLeavesTheNext) {
  const Outcome got(
      "POST /v1/x?a=b%20c HTTP/1.1\r\nHost: h\r\nX-Two: 2 \r\nContent-Length: 3\r\n\r\nabcGET /");
  ASSERT_EQ(got.state, State::kDone);
  EXPECT_EQ(got.request.method, "POST");
  EXPECT_EQ(got.request.path, "/v1/x");
  EXPECT_EQ(got.request.query, "a=b%20c");
  EXPECT_EQ(got.request.body, "abc");
  EXPECT_THAT(got.request.headers, UnorderedElementsAre(Pair("host", "h"), Pair("x-two", "2"),
                                                        Pair("content-length", "3")));
  EXPECT_EQ(got.rest, "GET /");
  EXPECT_TRUE(got.reader.keep_alive());
  EXPECT_TRUE(got.reader.http11());
}

TEST(RequestReaderTest, AnyCutGivesTheSameRequest) {
  const std::string text =
      "\r\nPOST /p%C3%A9 HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"
      "3;ext=1\r\nabc\r\n02\r\nde\r\n0\r\nTrailer: t\r\n\r\nNEXT";
  for (size_t piece = 1; piece <= text.size(); ++piece) {
    RequestReader reader({});
    std::string input;
    State state = State::kNeedMore;
    size_t fed = 0;
    while (state == State::kNeedMore && fed < text.size()) {
      input += text.substr(fed, piece);
      fed += piece;
      state = reader.Read(input);
    }
    ASSERT_EQ(state, State::kDone) << "pieces of " << piece << ": " << reader.error_message();
    const HttpRequest request = reader.TakeRequest();
    EXPECT_EQ(request.body, "abcde");
    EXPECT_EQ(request.path, "/p\u00e9");
    EXPECT_EQ(input + (fed < text.size() ? text.substr(fed) : ""), "NEXT");
  }
}

TEST(RequestReaderTest, TrailersAreNoHeaders) {
  const Outcome got(
      "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"
      "0\r\nAuthorization: Bearer x\r\n\r\n");
  ASSERT_EQ(got.state, State::kDone);
  EXPECT_EQ(got.request.Header("authorization"), nullptr);
  EXPECT_EQ(Outcome("POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nHost: h\r\n\r\n")
                .reader.error_status(),
            400);
}

TEST(RequestReaderTest, AnEmptyChunkedBodyInAnyPieces) {
  const std::string text =
      "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n";
  for (size_t piece = 1; piece <= text.size(); ++piece) {
    RequestReader reader({});
    std::string input;
    State state = State::kNeedMore;
    for (size_t fed = 0; fed < text.size(); fed += piece) {
      ASSERT_EQ(state, State::kNeedMore);
      input += text.substr(fed, piece);
      state = reader.Read(input);
    }
    EXPECT_EQ(state, State::kDone) << "pieces of " << piece;
  }
}

TEST(RequestReaderTest, PathsAreDecodedAndJudged) {
  EXPECT_EQ(Outcome("GET /models/org%2Fname HTTP/1.1\r\nHost: h\r\n\r\n").request.path,
            "/models/org/name");
  EXPECT_EQ(Outcome("GET http://h:80/a?b HTTP/1.1\r\nHost: h\r\n\r\n").request.path, "/a");
  EXPECT_EQ(Outcome("GET http://h HTTP/1.1\r\nHost: h\r\n\r\n").request.path, "/");
  EXPECT_EQ(Outcome("OPTIONS * HTTP/1.1\r\nHost: h\r\n\r\n").request.path, "*");
  for (const char* path : {"/%", "/%4", "/%zz", "/%00", "/%ff", "/%c3"}) {
    const Outcome got(std::string("GET ") + path + " HTTP/1.1\r\nHost: h\r\n\r\n");
    EXPECT_EQ(got.state, State::kFailed) << path;
    EXPECT_EQ(got.reader.error_status(), 400) << path;
  }
}

TEST(RequestReaderTest, AmbiguousLengthsAreRefused) {
  for (const char* fields : {
           "Content-Length: 3\r\nContent-Length: 4\r\n",
           "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n",
           "Transfer-Encoding: chunked\r\nContent-Length: 3\r\n",
           "Transfer-Encoding: gzip\r\n",
           "Transfer-Encoding: chunked, gzip\r\n",
           "Transfer-Encoding: gzip, chunked\r\n",
           "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
           "Content-Length: -1\r\n",
           "Content-Length: 3x\r\n",
           "Content-Length: 99999999999999999999999\r\n",
       }) {
    const Outcome got(std::string("POST / HTTP/1.1\r\nHost: h\r\n") + fields +
                      "\r\n3\r\nabc\r\n0\r\n\r\n");
    EXPECT_EQ(got.state, State::kFailed) << fields;
    EXPECT_TRUE(got.reader.error_status() == 400 || got.reader.error_status() == 501) << fields;
  }
}

TEST(RequestReaderTest, OneHostHeader) {
  EXPECT_THAT(Outcome("GET / HTTP/1.1\r\n\r\n").reader.error_message(),
              HasSubstr("no Host header"));
  EXPECT_EQ(Outcome("GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n").reader.error_status(), 400);
  EXPECT_EQ(Outcome("GET / HTTP/1.0\r\n\r\n").state, State::kDone);
}

TEST(RequestReaderTest, Http10ClosesUnlessAsked) {
  const Outcome plain("GET / HTTP/1.0\r\n\r\n");
  EXPECT_FALSE(plain.reader.keep_alive());
  EXPECT_FALSE(plain.reader.http11());
  EXPECT_TRUE(Outcome("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n").reader.keep_alive());
  EXPECT_FALSE(
      Outcome("GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n").reader.keep_alive());
}

TEST(RequestReaderTest, Limits) {
  const RequestLimits limits{256, 10};
  const std::string head = "POST / HTTP/1.1\r\nHost: h\r\n";
  EXPECT_EQ(Outcome(head + "Content-Length: 10\r\n\r\n0123456789", limits).state, State::kDone);
  EXPECT_EQ(Outcome(head + "Content-Length: 11\r\n\r\n", limits).reader.error_status(), 413);
  EXPECT_EQ(Outcome(head + "Transfer-Encoding: chunked\r\n\r\nb\r\n01234567890\r\n", limits)
                .reader.error_status(),
            413);
  EXPECT_EQ(
      Outcome(head + "X: " + std::string(300, 'x') + "\r\n\r\n", limits).reader.error_status(),
      431);
  EXPECT_EQ(Outcome(head + "X: " + std::string(300, 'x'), limits).reader.error_status(), 431);
  EXPECT_EQ(
      Outcome("GET /" + std::string(300, 'x') + " HTTP/1.1\r\n\r\n", limits).reader.error_status(),
      431);
  EXPECT_EQ(
      Outcome(head + "Transfer-Encoding: chunked\r\n\r\n1;" + std::string(40'000, 'x'), limits)
          .reader.error_status(),
      400);
}

TEST(RequestReaderTest, GarbageIsRefusedAtOnce) {
  const std::string garbage[] = {std::string("\x16\x03\x01\x02", 4),
                                 std::string("\0\0\0\0", 4),
                                 "\xff\xfe",
                                 "{\"json\": 1}",
                                 std::string(1000, 'A'),
                                 "GET / HTTP/9.9\r\n\r\n",
                                 "GET /\r\n\r\n",
                                 "GET / HTTP/1.1\r\nNo colon\r\n\r\n"};
  for (const std::string& text : garbage) {
    const Outcome got(text);
    EXPECT_EQ(got.state, State::kFailed) << text.substr(0, 40);
    EXPECT_EQ(got.reader.error_status(), 400) << text.substr(0, 40);
  }
  EXPECT_THAT(Outcome("\x16\x03\x01").reader.error_message(), HasSubstr("TLS"));
}

TEST(RequestReaderTest, BodiesAreNotCompressed) {
  const auto status = [](std::string_view field) {
    return Outcome(StrCat("POST / HTTP/1.1\r\nHost: h\r\n", field, "\r\n\r\n"))
        .reader.error_status();
  };
  EXPECT_EQ(status("Content-Encoding: gzip"), 415);
  EXPECT_EQ(status("Content-Encoding: Identity"), 0);
}

TEST(RequestReaderTest, ExpectContinue) {
  Outcome got("POST / HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n");
  EXPECT_EQ(got.state, State::kNeedMore);
  EXPECT_TRUE(got.reader.TakeContinue());
  EXPECT_FALSE(got.reader.TakeContinue());
  EXPECT_EQ(Outcome("POST / HTTP/1.1\r\nHost: h\r\nExpect: tea\r\n\r\n").reader.error_status(),
            417);
}

}  // namespace
}  // namespace erne
