// The judge must find each fault that it is there for.
#include "load/answer_check.h"

#include <gtest/gtest.h>

#include "base/strings.h"

namespace erne::load {
namespace {

std::string Chunk(const std::string& members) {
  return R"(data: {"id":"a","object":"chat.completion.chunk",)" + members + "}\n\n";
}
std::string Delta(const std::string& delta, const std::string& reason = "null") {
  return Chunk(R"("choices":[{"index":0,"delta":{)" + delta +
               R"(},"logprobs":null,"finish_reason":)" + reason + "}]");
}
const std::string kRole = Delta(R"("role":"assistant","content":"")");
const std::string kEnd = Delta(R"("content":"")", R"("length")");
const std::string kUsage = Chunk(
    R"("choices":[],"usage":{"prompt_tokens":5,"total_tokens":7,"completion_tokens":2,"prompt_tokens_details":{"cached_tokens":3}})");
const std::string kDone = "data: [DONE]\n\n";

std::string Said(const std::string& text) { return Delta(R"("content":")" + text + '"'); }

std::string FaultOf(const std::string& body, Expectation expected = {.max_tokens = 2}) {
  AnswerCheck check(expected);
  check.Add(body);
  check.End();
  return check.fault();
}

TEST(AnswerCheck, AWholeStreamIsGoodHoweverItIsCut) {
  const std::string body =
      kRole + Said("你") + "id: 7\n" + Said("好") + ": alive\n\n" + kEnd + kUsage + kDone;
  for (const size_t size : {size_t{1}, size_t{7}, body.size()}) {
    AnswerCheck check({.max_tokens = 2});
    int64_t pieces = 0;
    for (size_t at = 0; at < body.size(); at += size) pieces += check.Add(body.substr(at, size));
    check.End();
    EXPECT_EQ(check.fault(), "");
    EXPECT_EQ(pieces, 2);
    EXPECT_EQ(check.prompt_tokens(), 5);
    EXPECT_EQ(check.cached_tokens(), 3);
    EXPECT_EQ(check.completion_tokens(), 2);
    EXPECT_EQ(check.broken_characters(), 0);
  }
}

TEST(AnswerCheck, FindsEveryFaultOfAStream) {
  const std::string good = kRole + Said("a") + Said("b");
  const struct {
    const char* says;
    std::string body;
  } kCases[] = {
      {"without [DONE]", good + kEnd + kUsage},
      {"no finish_reason", good + kDone},
      {"no usage", good + kEnd + kDone},
      {"usage before", good + kUsage + kEnd + kDone},
      {"usage came twice", good + kEnd + kUsage + kUsage + kDone},
      {"after [DONE]", good + kEnd + kUsage + kDone + Said("c")},
      {"after the finish_reason", good + kEnd + Said("c") + kUsage + kDone},
      {"pieces of text", good + Said("c") + kEnd + kUsage + kDone},
      {"role came twice", kRole + kRole + kEnd + kUsage + kDone},
      {"before the role", Said("a")},
      {"middle of an event", good + kEnd + kUsage + "data: [DONE]"},
      {"two lines of data", "data: {}\ndata: {}\n\n"},
      {"without data", "data: \n\n"},
      {"no line of", "dat: {}\n\n"},
      {"invalid JSON", "data: {\n\n"},
      {"invalid JSON", kRole + Said("\xe4\xbd")},
      {"another id",
       kRole + R"(data: {"id":"b","object":"chat.completion.chunk","choices":[]})" + "\n\n"},
      {"no chat.completion.chunk", "data: {\"id\":\"a\",\"object\":\"x\"}\n\n"},
      {"without choices", Chunk(R"("choices":null)")},
      {"neither choice nor usage", Chunk(R"("choices":[])")},
      {"without a delta", Chunk(R"("choices":[{"index":0}])")},
      {"more choices", Chunk(R"("choices":[{"index":0},{"index":1}])")},
      {"no string", kRole + Delta(R"("content":5)")},
      {"finish_reason stop", good + Delta(R"("content":"")", R"("stop")")},
      {"error in the stream", good + "data: {\"error\":{\"message\":\"gone\"}}\n\n" + kDone},
      {"does not add up",
       good + kEnd +
           Chunk(
               R"("choices":[],"usage":{"prompt_tokens":5,"total_tokens":9,"completion_tokens":2})") +
           kDone},
      {"usage counts 3",
       good + kEnd +
           Chunk(
               R"("choices":[],"usage":{"prompt_tokens":5,"total_tokens":8,"completion_tokens":3})") +
           kDone},
  };
  for (const auto& test : kCases) {
    EXPECT_NE(FaultOf(test.body).find(test.says), std::string::npos)
        << test.says << " was not found in: " << FaultOf(test.body);
  }
}

TEST(AnswerCheck, CountsBrokenCharacters) {
  AnswerCheck check({.max_tokens = 2});
  check.Add(kRole + Said("\uFFFDx\uFFFD") + Said("\uFFFD") + kEnd + kUsage + kDone);
  check.End();
  EXPECT_EQ(check.fault(), "");
  EXPECT_EQ(check.broken_characters(), 3);
}

TEST(AnswerCheck, LogprobsAreCountedAndTheirBytesAreTheText) {
  const auto scored = [](const std::string& text, const std::string& bytes) {
    return Chunk(R"("choices":[{"index":0,"delta":{"content":")" + text +
                 R"("},"logprobs":{"content":)" + bytes + R"(},"finish_reason":null}])");
  };
  const Expectation expected = {.max_tokens = 2, .logprobs = true};
  const auto fault = [&](const std::string& chunks) {
    return FaultOf(kRole + chunks + kEnd + kUsage + kDone, expected);
  };
  EXPECT_EQ(fault(scored("ab", R"([{"bytes":[97]},{"bytes":[98]}])")), "");
  EXPECT_EQ(fault(scored("a", R"([{"bytes":[97]},{"bytes":null}])")), "") << "an end token";
  EXPECT_EQ(fault(scored("\uFFFDb", R"([{"bytes":[228]},{"bytes":[98]}])")), "");
  EXPECT_EQ(fault(scored("a", R"([{"bytes":[97]},{"bytes":[228,189]}])")), "") << "unfinished";
  EXPECT_NE(fault(scored("\uFFFD", R"([{"bytes":[228,189]},{"bytes":[160]}])")), "") << "cut";
  EXPECT_NE(fault(scored("a", R"([{"bytes":[97]},{"bytes":[98]}])")), "") << "text is lost";
  EXPECT_NE(fault(scored("a", R"([{"bytes":[97]}])")), "") << "a token is lost";
  EXPECT_NE(fault(Said("ab")), "");
}

TEST(AnswerCheck, WholeAnswers) {
  const std::string usage = R"("usage":{"prompt_tokens":5,"total_tokens":7,"completion_tokens":2})";
  const auto body = [&](const std::string& choice) {
    return R"({"choices":[{)" + choice + "}]," + usage + "}";
  };
  const Expectation whole = {.stream = false, .max_tokens = 2};
  EXPECT_EQ(FaultOf(body(R"("message":{"content":"ab"},"finish_reason":"length")"), whole), "");
  EXPECT_NE(FaultOf(body(R"("message":{"content":"ab"},"finish_reason":"abort")"), whole), "");
  EXPECT_NE(FaultOf(body(R"("message":{},"finish_reason":"length")"), whole), "");
  EXPECT_NE(FaultOf(body(R"("message":{"content":"ab"})"), whole), "");
  EXPECT_NE(FaultOf(R"({"choices":[]})", whole), "");
  EXPECT_NE(FaultOf("{", whole), "");
}

TEST(AnswerCheck, RefusalsMustBeErrors) {
  const auto fault = [](int status, const std::string& body, bool retry) {
    AnswerCheck check({});
    check.Refusal(status, body, retry);
    return check.fault();
  };
  const std::string full =
      R"({"error":{"message":"full","type":"RateLimitError","param":null,"code":429}})";
  EXPECT_EQ(fault(429, full, true), "");
  EXPECT_NE(fault(429, full, false), "") << "without Retry-After";
  EXPECT_NE(fault(503, full, true), "") << "another code in the body";
  EXPECT_NE(fault(429, "busy", true), "");
  EXPECT_NE(fault(400, R"({"error":{"message":"no","type":"BadRequestError","code":400}})", true),
            "")
      << "nothing that a load test asks for is a bad request";
}

}  // namespace
}  // namespace erne::load
