#include "cli/batch_lines.h"

#include <filesystem>
#include <fstream>
#include <sstream>

#include <gtest/gtest.h>
#include <unistd.h>

#include "api/errors.h"
#include "base/json.h"
#include "base/strings.h"

namespace erne {
namespace {

TEST(BatchLines, ARequest) {
  const BatchLine line = ParseBatchLine(
      R"({"custom_id":"a","method":"POST","url":"/v1/completions","body":{"prompt":"春"}})", 3);
  ASSERT_TRUE(line.fault.ok()) << line.fault.message();
  EXPECT_EQ(line.custom_id, "a");
  EXPECT_EQ(line.request.method, "POST");
  EXPECT_EQ(line.request.path, "/v1/completions");
  EXPECT_EQ(line.request.body, R"({"prompt":"春"})");
}

TEST(BatchLines, FaultsSayWhatIsWrong) {
  struct Case {
    const char* text;
    const char* custom_id;
    const char* says;
  };
  const Case cases[] = {
      {"{", "line-7", "invalid JSON at byte 1"},
      {"[]", "line-7", "JSON object"},
      {R"({"url":"/v1/completions","body":{}})", "line-7", "custom_id"},
      {R"({"custom_id":5,"url":"/v1/completions","body":{}})", "line-7", "custom_id"},
      {R"({"custom_id":"a","body":{}})", "a", "`url` is missing"},
      {R"({"custom_id":"a","url":"/v1/embeddings","body":{}})", "a", "\"/v1/embeddings\""},
      {R"({"custom_id":"a","url":"/v1/completions","method":"GET","body":{}})", "a", "\"GET\""},
      {R"({"custom_id":"a","url":"/v1/completions"})", "a", "`body` must be an object"},
      {R"({"custom_id":"a","url":"/v1/completions","body":{"stream":true}})", "a", "no streams"},
  };
  for (const Case& one : cases) {
    const BatchLine line = ParseBatchLine(one.text, 7);
    EXPECT_EQ(line.custom_id, one.custom_id);
    EXPECT_NE(line.fault.message().find(one.says), std::string::npos)
        << one.text << ": " << line.fault.message();
  }
}

Json Parsed(const std::string& line) {
  EXPECT_TRUE(line.ends_with("}\n"));
  return Json::Parse(line).value();
}

TEST(BatchLines, Answers) {
  HttpResponse good;
  good.body = R"({"choices":[]})";
  good.headers = {{"X-Request-Id", "r1"}};
  const Json answer = Parsed(AnswerLine("a\"", good));
  EXPECT_EQ(answer.Find("custom_id")->AsString(), "a\"");
  EXPECT_EQ(answer.Find("response")->Dump(),
            R"({"status_code":200,"request_id":"r1","body":{"choices":[]}})");
  EXPECT_TRUE(answer.Find("error")->is_null());
  const Json bad = Parsed(AnswerLine("b", ErrorResponse(InvalidArgument("wrong", "n"))));
  EXPECT_EQ(bad.Find("response")->Find("status_code")->AsInt(), 400);
  EXPECT_TRUE(bad.Find("response")->Find("body")->is_null());
  EXPECT_EQ(bad.Find("error")->Dump(),
            R"({"message":"wrong","type":"BadRequestError","param":"n","code":400})");
  const Json fault = Parsed(FaultLine("line-3", InvalidArgument("no JSON")));
  EXPECT_TRUE(fault.Find("response")->is_null());
  EXPECT_EQ(fault.Find("error")->Find("message")->AsString(), "no JSON");
}

class BatchOutputTest : public testing::Test {
 protected:
  void TearDown() override { std::filesystem::remove(path_); }
  void Put(const std::string& text) { std::ofstream(path_, std::ios::binary) << text; }
  std::string Text() const {
    std::ifstream file(path_, std::ios::binary);
    std::stringstream text;
    text << file.rdbuf();
    return text.str();
  }
  static std::string Line(const std::string& id) { return FaultLine(id, InvalidArgument("x")); }

  const std::string path_ =
      (std::filesystem::temp_directory_path() / StrCat("erne-batch-", ::getpid())).string();
};

// Killed at any byte of a line, what is whole stays, and the rest is written anew.
TEST_F(BatchOutputTest, GoesOnAfterAnyByte) {
  const std::string whole = Line("a") + Line("b");
  const size_t first = whole.find('\n') + 1;
  for (size_t end = 0; end <= whole.size(); ++end) {
    Put(whole.substr(0, end));
    const auto output = BatchOutput::Open(path_);
    ASSERT_TRUE(output.ok()) << end << ": " << output.status().message();
    EXPECT_EQ((*output)->answered().contains("a"), end >= first) << end;
    EXPECT_EQ((*output)->answered().contains("b"), end == whole.size()) << end;
    ASSERT_TRUE((*output)->Append(Line("c")).ok());
    EXPECT_TRUE(Text().starts_with(whole.substr(0, end < first          ? 0
                                                   : end < whole.size() ? first
                                                                        : end)));
    EXPECT_TRUE(Text().ends_with("}\n"));
  }
}

TEST_F(BatchOutputTest, OneRunAtATimeHasIt) {
  const auto first = BatchOutput::Open(path_);
  ASSERT_TRUE(first.ok());
  const auto second = BatchOutput::Open(path_);
  EXPECT_EQ(second.status().code(), StatusCode::kUnavailable);
}

TEST_F(BatchOutputTest, FilesThatHoldSomethingElseStayAsTheyAre) {
  for (const std::string text : {"my notes", "my\nnotes", "{\"id\":1}\n", "[]\n"}) {
    Put(text);
    EXPECT_FALSE(BatchOutput::Open(path_).ok()) << text;
    EXPECT_EQ(Text(), text);
  }
}

}  // namespace
}  // namespace erne
