#include "http/first_bytes.h"

#include <string>

#include <gtest/gtest.h>

namespace erne {
namespace {

constexpr std::string_view kPath = "/health";

FirstBytes Look(std::string_view bytes) { return LookAtFirstBytes(bytes, kPath); }

TEST(FirstBytes, UrgentIsWhatReadsThePathOrSomethingBelowIt) {
  for (const std::string_view urgent :
       {"GET /health HTTP/1.1\r\n", "GET /health/", "GET /health/live HTTP/1.1", "GET /health?a=b",
        "HEAD /health HTTP/1.0"}) {
    EXPECT_EQ(Look(urgent), FirstBytes::kUrgent) << urgent;
  }
  for (const std::string_view ordinary :
       {"POST /health HTTP/1.1", "GET /healthy", "GET / HTTP/1.1", "GET /heal HTTP", "get /health ",
        "GET  /health ", "GET http://h/health HTTP/1.1", "\r\nGET /health ", "HEAL /health "}) {
    EXPECT_EQ(Look(ordinary), FirstBytes::kOrdinary) << ordinary;
  }
}

TEST(FirstBytes, EveryBeginningOfAnUrgentRequestWaitsForMore) {
  for (const std::string_view line : {"GET /health", "HEAD /health"}) {
    for (size_t length = 0; length <= line.size(); ++length) {
      EXPECT_EQ(Look(line.substr(0, length)), FirstBytes::kTooFew) << line.substr(0, length);
    }
  }
}

TEST(FirstBytes, WithoutAPathNothingIsUrgent) {
  EXPECT_EQ(LookAtFirstBytes("GET /health HTTP/1.1", ""), FirstBytes::kOrdinary);
  EXPECT_EQ(LookAtFirstBytes("", ""), FirstBytes::kOrdinary);
}

}  // namespace
}  // namespace erne
