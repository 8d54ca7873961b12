#include "api/answer_session.h"

#include <gtest/gtest.h>

#include "api/chat_format.h"
#include "api/completion_format.h"
#include "api/test_model.h"
#include "api/test_writer.h"

namespace erne {
namespace {

using Tok = TestTokenizer;
using Ids = std::vector<int32_t>;

// A session whose engine is the test.
class AnswerSessionTest : public testing::Test {
 protected:
  std::unique_ptr<const AnswerFormat> Chat() const {
    return std::make_unique<ChatFormat>("chatcmpl-1", 1700000000, "m",
                                        LogprobWriter(tokenizer_, true));
  }
  std::unique_ptr<const AnswerFormat> Completion() const {
    return std::make_unique<CompletionFormat>("cmpl-1", 1700000000, "m",
                                              LogprobWriter(tokenizer_, true));
  }
  void Start(AnswerSessionOptions options, std::unique_ptr<const AnswerFormat> format = nullptr) {
    options.prompt_tokens = 7;
    options.primary_end_token = Tok::kEnd;
    if (options.choices.empty()) options.choices = {{.prompt_tokens = 7}};
    auto session = AnswerSession::Create(writer_, format ? std::move(format) : Chat(), tokenizer_,
                                         std::make_shared<int>(1), options);
    for (size_t i = 0; i < options.choices.size(); ++i) {
      tokens_.push_back(session->stream(static_cast<int64_t>(i)));
    }
    session_ = session;
    HttpResponse head;
    head.headers = {{"X-Request-Id", "1"}};
    session->Start(std::move(head));
  }
  void TearDown() override {
    if (!writer_->complete) writer_->Disconnect();
  }
  void Push(const std::vector<int32_t>& tokens, size_t choice = 0) {
    for (const int32_t token : tokens) tokens_[choice]->Push({.token = token});
    writer_->RunPosted();
  }
  void Push(std::string_view text) { Push(Tok::Bytes(text)); }
  void PushEnd(TokenEvent event, size_t choice = 0) {
    tokens_[choice]->Push(std::move(event));
    writer_->RunPosted();
  }
  void PushStop(int32_t token = Tok::kEnd, size_t choice = 0) {
    PushEnd({.token = token, .finish = FinishReason::kStop, .stop_token = token}, choice);
  }
  // The texts of the content chunks of a stream so far.
  std::vector<std::string> Contents() const {
    std::vector<std::string> contents;
    for (const std::string& frame : writer_->Frames()) {
      if (frame == "[DONE]") continue;
      const Json json = Json::Parse(frame).value();
      if (json.Find("error") != nullptr || json.Find("choices")->AsArray().empty()) continue;
      const std::string& text =
          json.Find("choices")->AsArray()[0].Find("delta")->Find("content")->AsString();
      if (!text.empty()) contents.push_back(text);
    }
    return contents;
  }
  // A prompt of characters, each a token of its own.
  static std::shared_ptr<const Echo> Echoed(std::string text, Ids ids = {}) {
    auto echo = std::make_shared<Echo>();
    echo->text = std::move(text);
    for (const int32_t id : ids) {
      echo->tokens.push_back({id, static_cast<int64_t>(echo->tokens.size())});
    }
    return echo;
  }
  Json Choice() const { return writer_->BodyJson().Find("choices")->AsArray()[0]; }

  TestTokenizer tokenizer_;
  std::shared_ptr<TestWriter> writer_ = std::make_shared<TestWriter>();
  std::vector<std::shared_ptr<TokenStream>> tokens_;
  std::weak_ptr<AnswerSession> session_;
};

TEST_F(AnswerSessionTest, StreamIsWhatClientsExpectByteForByte) {
  Start({.stream = true, .include_usage = true});
  EXPECT_TRUE(writer_->streaming) << "the head goes out at once";
  EXPECT_EQ(writer_->body, "") << "and the first chunk with the first token";
  Push({Tok::kHello, '\n', '"'});
  PushStop();
  const std::string head =
      R"(data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1700000000,"model":"m","choices":[)";
  const auto chunk = [&](const std::string& delta, const std::string& finish) {
    return head + R"({"index":0,"delta":)" + delta + R"(,"logprobs":null,"finish_reason":)" +
           finish + "}]}\n\n";
  };
  EXPECT_EQ(
      writer_->body,
      chunk(R"({"role":"assistant","content":""})", "null") +
          chunk(R"({"content":"你好"})", "null") + chunk(R"({"content":"\n"})", "null") +
          chunk(R"({"content":"\""})", "null") +
          chunk(R"({"content":""})", R"("stop","stop_reason":null)") + head +
          R"(],"usage":{"prompt_tokens":7,"total_tokens":11,"completion_tokens":4,"prompt_tokens_details":{"cached_tokens":0}},"system_fingerprint":"erne-)" +
          ERNE_VERSION + "\"}\n\ndata: [DONE]\n\n");
  EXPECT_TRUE(writer_->complete);
  EXPECT_TRUE(session_.expired()) << "nothing may keep a finished session";
}

TEST_F(AnswerSessionTest, WholeAnswer) {
  Start({});
  Push("hi");
  PushStop();
  EXPECT_EQ(writer_->head.status, 200);
  EXPECT_EQ(writer_->head.content_type, "application/json");
  EXPECT_EQ(writer_->Header("X-Request-Id"), "1");
  EXPECT_EQ(
      writer_->body,
      R"({"id":"chatcmpl-1","object":"chat.completion","created":1700000000,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"hi","refusal":null,"reasoning":null},"logprobs":null,"finish_reason":"stop","stop_reason":null,"token_ids":null}],"service_tier":null,"system_fingerprint":"erne-)" ERNE_VERSION
      R"(","usage":{"prompt_tokens":7,"total_tokens":10,"completion_tokens":3,"prompt_tokens_details":{"cached_tokens":0}},"prompt_logprobs":null,"kv_transfer_params":null})");
  EXPECT_TRUE(session_.expired());
}

TEST_F(AnswerSessionTest, CharactersAreNeverBroken) {
  Start({.stream = true});
  const std::string text = "世🦅é";
  for (const char byte : text) Push(std::string_view(&byte, 1));
  EXPECT_EQ(Contents(), (std::vector<std::string>{"世", "🦅", "é"}));
  PushEnd({.token = 'x', .finish = FinishReason::kLength});
  EXPECT_EQ(Contents().back(), "x");
}

TEST_F(AnswerSessionTest, AnUnfinishedCharacterAtTheEndIsNotShown) {
  Start({.stream = true});
  Push("\xe4\xb8");
  EXPECT_TRUE(Contents().empty());
  PushEnd({.token = 0xe4, .finish = FinishReason::kLength});
  std::string all;
  for (const std::string& content : Contents()) all += content;
  EXPECT_EQ(all, "\uFFFD");  // E4 B8 can no longer become a character; the second E4 still could
}

TEST_F(AnswerSessionTest, EachTokenIsWrittenAsItComes) {
  Start({.stream = true});
  Push("a");
  ASSERT_EQ(writer_->writes.size(), 1u);
  Push("b");
  ASSERT_EQ(writer_->writes.size(), 2u);
  EXPECT_NE(writer_->writes[1].find(R"("content":"b")"), std::string::npos);
}

TEST_F(AnswerSessionTest, StopStringsOverTokenEdgesNeverLeak) {
  Start({.stop = {"END", "结束"}, .stream = true});
  Push("a E");
  EXPECT_EQ(Contents(), (std::vector<std::string>{"a", " "}));
  Push("N");
  Push("x结");
  EXPECT_EQ(Contents().back(), "ENx") << "that was no stop, and 结 may become one";
  Push("束 more");
  ASSERT_TRUE(writer_->complete);
  std::string all;
  for (const std::string& content : Contents()) all += content;
  EXPECT_EQ(all, "a ENx");
  EXPECT_NE(writer_->body.find(R"("finish_reason":"stop","stop_reason":"结束")"),
            std::string::npos);
  EXPECT_TRUE(tokens_[0]->cancelled()) << "the engine need not go on";
}

// Text that is cut into tokens at every byte, with characters of one to four bytes and emoji that
// are several characters joined (ZWJ, skin tone, flags).
TEST_F(AnswerSessionTest, StopStringsAtEveryPlaceOfManyBytedText) {
  const std::string text =
      "写首诗：春眠👩‍👩‍👧‍👦不觉🇨🇳晓é👍🏽。";
  std::vector<size_t> borders = {0};
  for (size_t i = 1; i <= text.size(); ++i) {
    if (i == text.size() || (static_cast<uint8_t>(text[i]) & 0xC0) != 0x80) borders.push_back(i);
  }
  for (size_t begin = 0; begin + 1 < borders.size(); ++begin) {
    for (size_t end = begin + 1; end < borders.size(); ++end) {
      const std::string stop = text.substr(borders[begin], borders[end] - borders[begin]);
      writer_ = std::make_shared<TestWriter>();
      tokens_.clear();
      Start({.stop = {stop}, .stream = true});
      for (const char byte : text) {
        if (!writer_->complete) Push(std::string_view(&byte, 1));
      }
      ASSERT_TRUE(writer_->complete) << stop;
      std::string all;
      for (const std::string& content : Contents()) all += content;
      EXPECT_EQ(all, text.substr(0, text.find(stop))) << stop;
    }
  }
}

TEST_F(AnswerSessionTest, ManyBytedTextComesWholeInTokensOfAnySize) {
  const std::string text =
      "写首诗：春眠👩‍👩‍👧‍👦不觉🇨🇳晓é👍🏽。";
  for (size_t size = 1; size <= text.size(); ++size) {
    writer_ = std::make_shared<TestWriter>();
    tokens_.clear();
    Start({.stream = true});
    for (size_t i = 0; i < text.size(); i += size) Push(std::string_view(text).substr(i, size));
    PushStop();
    std::string all;
    for (const std::string& content : Contents()) {
      EXPECT_EQ(content.find("\uFFFD"), std::string::npos) << size;
      all += content;
    }
    EXPECT_EQ(all, text) << size;
  }
}

TEST_F(AnswerSessionTest, TokensAfterAStopStringAreNotCounted) {
  Start({.stop = {"bc"}});
  Push("abcdefgh");
  EXPECT_EQ(Choice().Find("message")->Find("content")->AsString(), "a");
  EXPECT_EQ(writer_->BodyJson().Find("usage")->Find("completion_tokens")->AsInt(), 3);
  EXPECT_TRUE(tokens_[0]->cancelled());
  EXPECT_EQ(tokens_[0]->cancelled_as(), FinishReason::kStop);
}

TEST_F(AnswerSessionTest, TheStopStringIsShownOnRequest) {
  Start({.stop = {"bc"}, .include_stop = true});
  Push("abcd");
  EXPECT_EQ(Choice().Find("message")->Find("content")->AsString(), "abc");
  EXPECT_EQ(Choice().Find("stop_reason")->AsString(), "bc");
}

TEST_F(AnswerSessionTest, HeldTextComesOutAtTheEnd) {
  Start({.stop = {"abcd"}});
  Push("xabc");
  PushStop();
  EXPECT_EQ(Choice().Find("message")->Find("content")->AsString(), "xabc");
  EXPECT_TRUE(Choice().Find("stop_reason")->is_null());
}

TEST_F(AnswerSessionTest, AStopStringCompleteWithTheLastTokenIsAStop) {
  Start({.stop = {"bc"}});
  Push("ab");
  PushEnd({.token = 'c', .finish = FinishReason::kLength});
  EXPECT_EQ(Choice().Find("finish_reason")->AsString(), "stop");
  EXPECT_EQ(Choice().Find("message")->Find("content")->AsString(), "a");
}

TEST_F(AnswerSessionTest, OtherStopTokensAreNamedAndNotShown) {
  Start({});
  Push("hi");
  PushStop('!');
  EXPECT_EQ(Choice().Find("stop_reason")->AsInt(), '!');
  EXPECT_EQ(Choice().Find("message")->Find("content")->AsString(), "hi");
  EXPECT_EQ(writer_->BodyJson().Find("usage")->Find("completion_tokens")->AsInt(), 3);
}

TEST_F(AnswerSessionTest, AStopTokenIsShownOnRequest) {
  Start({.include_stop = true});
  Push("hi");
  PushStop('!');
  EXPECT_EQ(Choice().Find("message")->Find("content")->AsString(), "hi!");
}

TEST_F(AnswerSessionTest, ALoopIsAStopThatSaysSo) {
  Start({});
  Push("hah");
  PushEnd({.token = 'a', .finish = FinishReason::kRepetition});
  EXPECT_EQ(Choice().Find("finish_reason")->AsString(), "stop");
  EXPECT_EQ(Choice().Find("stop_reason")->AsString(), "repetition");
  EXPECT_EQ(Choice().Find("message")->Find("content")->AsString(), "haha");
}

TEST_F(AnswerSessionTest, ControlTokensAreShownOnlyOnRequest) {
  Start({});
  Push({'a', Tok::kSentence, 'b'});
  PushStop();
  EXPECT_EQ(Choice().Find("message")->Find("content")->AsString(), "ab");

  writer_ = std::make_shared<TestWriter>();
  tokens_.clear();
  Start({.skip_special_tokens = false});
  Push({'a', Tok::kSentence, 'b'});
  PushStop();
  EXPECT_EQ(Choice().Find("message")->Find("content")->AsString(), "a<|end_of_sentence|>b");
}

TEST_F(AnswerSessionTest, ContinuousUsage) {
  Start({.stream = true, .include_usage = true, .continuous_usage = true});
  Push("ab");
  PushStop();
  std::vector<int64_t> counts;
  for (const std::string& frame : writer_->Frames()) {
    if (frame == "[DONE]") continue;
    counts.push_back(Json::Parse(frame)->Find("usage")->Find("completion_tokens")->AsInt());
  }
  EXPECT_EQ(counts, (std::vector<int64_t>{0, 1, 2, 3, 3}));
}

TEST_F(AnswerSessionTest, AnErrorInAStreamIsAnEventAndThenDone) {
  Start({.stream = true});
  Push("a");
  PushEnd({.finish = FinishReason::kAbort, .error = Internal("the device is gone")});
  const std::vector<std::string> frames = writer_->Frames();
  ASSERT_GE(frames.size(), 2u);
  EXPECT_EQ(
      frames[frames.size() - 2],
      R"({"error":{"message":"the device is gone","type":"InternalServerError","param":null,"code":500}})");
  EXPECT_EQ(frames.back(), "[DONE]");
  EXPECT_TRUE(writer_->complete);
}

TEST_F(AnswerSessionTest, AnErrorOfAWholeAnswerIsAnHttpError) {
  Start({});
  Push("a");
  PushEnd({.finish = FinishReason::kAbort, .error = Unavailable("the engine is shutting down")});
  EXPECT_EQ(writer_->head.status, 503);
  EXPECT_EQ(writer_->Header("Retry-After"), "1");
  EXPECT_EQ(writer_->Header("X-Request-Id"), "1");
}

TEST_F(AnswerSessionTest, ADisconnectCancelsStreamOrNot) {
  for (const bool stream : {true, false}) {
    writer_ = std::make_shared<TestWriter>();
    tokens_.clear();
    Start({.choices = {{7}, {7}}, .stream = stream});
    Push("a");
    writer_->Disconnect();
    EXPECT_TRUE(tokens_[0]->cancelled() && tokens_[1]->cancelled());
    EXPECT_TRUE(session_.expired());
    tokens_[0]->Push({.token = 'b'});  // the step in flight
    writer_->RunPosted();
  }
}

TEST_F(AnswerSessionTest, ASessionThatWasNeverStartedCancels) {
  auto session = AnswerSession::Create(writer_, Chat(), tokenizer_, nullptr, {.choices = {{7}}});
  const auto tokens = session->stream(0);
  session.reset();
  EXPECT_TRUE(tokens->cancelled());
}

TEST_F(AnswerSessionTest, ASlowClientHoldsTheTokensBack) {
  Start({.stream = true});
  Push("a");
  writer_->pending = AnswerSession::kMaxPendingBytes + 1;
  Push("bcd");
  EXPECT_EQ(writer_->writes.size(), 1u);
  writer_->Drain();
  EXPECT_EQ(Contents(), (std::vector<std::string>{"a", "b", "c", "d"}));
  Push("e");
  EXPECT_EQ(Contents().back(), "e");
}

TEST_F(AnswerSessionTest, ACompletionStreamByteForByte) {
  Start({.choices = {{.prompt_tokens = 7, .echo = Echoed("你好 ")}},
         .stream = true,
         .include_usage = true},
        Completion());
  EXPECT_EQ(writer_->body, "");
  Push("a");
  PushEnd({.token = 'b', .finish = FinishReason::kLength});
  const std::string head =
      R"(data: {"id":"cmpl-1","object":"text_completion","created":1700000000,"model":"m","choices":[)";
  const auto chunk = [&](const std::string& text, const std::string& finish) {
    return head + R"({"index":0,"text":")" + text + R"(","logprobs":null,"finish_reason":)" +
           finish + R"(,"stop_reason":null}]})" + "\n\n";
  };
  EXPECT_EQ(
      writer_->body,
      chunk("你好 ", "null") + chunk("a", "null") + chunk("b", "null") + chunk("", R"("length")") +
          head +
          R"(],"usage":{"prompt_tokens":7,"total_tokens":9,"completion_tokens":2,"prompt_tokens_details":{"cached_tokens":0}},"system_fingerprint":"erne-)" +
          ERNE_VERSION + "\"}\n\ndata: [DONE]\n\n");
}

TEST_F(AnswerSessionTest, AWholeCompletion) {
  Start({.choices = {{.prompt_tokens = 7, .echo = Echoed("你好 ")}}}, Completion());
  PushEnd({.token = 'b', .finish = FinishReason::kLength});
  EXPECT_EQ(
      writer_->body,
      R"({"id":"cmpl-1","object":"text_completion","created":1700000000,"model":"m","choices":[{"index":0,"text":"你好 b","logprobs":null,"finish_reason":"length","stop_reason":null,"token_ids":null,"prompt_logprobs":null,"prompt_token_ids":null}],"service_tier":null,"system_fingerprint":"erne-)" ERNE_VERSION
      R"(","usage":{"prompt_tokens":7,"total_tokens":8,"completion_tokens":1,"prompt_tokens_details":{"cached_tokens":0}},"kv_transfer_params":null})");
}

TEST_F(AnswerSessionTest, EachTokenIsToldWithItsLogprob) {
  for (const bool stream : {true, false}) {
    writer_ = std::make_shared<TestWriter>();
    tokens_.clear();
    Start({.stop = {"xyz"}, .logprobs = 1, .stream = stream});
    const auto push = [&](int32_t token, float logprob) {
      PushEnd({.token = token, .logprobs = {{token, logprob}, {'!', -0.5F}}});
    };
    push('x', -1);  // held back, for it may become xyz
    push(0xe4, -2);
    push(0xbd, -3);
    push(0xa0, -4);  // 你 is complete
    PushEnd({.token = Tok::kEnd,
             .finish = FinishReason::kStop,
             .stop_token = Tok::kEnd,
             .logprobs = {{Tok::kEnd, -5.0F}, {'!', -0.5F}}});
    ASSERT_TRUE(writer_->complete);
    std::string text, bytes;
    std::vector<double> logprobs;
    const auto take = [&](const Json& choice, const Json& content) {
      text += content.AsString();
      const Json* all = choice.Find("logprobs");
      if (all->is_null()) return;
      for (const Json& token : all->Find("content")->AsArray()) {
        logprobs.push_back(token.Find("logprob")->AsDouble());
        EXPECT_EQ(token.Find("top_logprobs")->AsArray().size(), 1u);
        if (token.Find("bytes")->is_null()) continue;
        for (const Json& byte : token.Find("bytes")->AsArray())
          bytes += static_cast<char>(byte.AsInt());
      }
    };
    if (stream) {
      for (const std::string& frame : writer_->Frames()) {
        if (frame == "[DONE]") continue;
        const Json json = Json::Parse(frame).value();
        const Json& choice = json.Find("choices")->AsArray()[0];
        take(choice, *choice.Find("delta")->Find("content"));
      }
    } else {
      take(Choice(), *Choice().Find("message")->Find("content"));
    }
    EXPECT_EQ(text, "x你");
    EXPECT_EQ(bytes, text);
    EXPECT_EQ(logprobs, (std::vector<double>{-1, -2, -3, -4, -5}));
  }
}

TEST_F(AnswerSessionTest, OffsetsCountTheCharactersOfTheText) {
  Start({.choices = {{.prompt_tokens = 7, .echo = Echoed("你好")}}, .logprobs = 0}, Completion());
  for (const int32_t token : {Tok::kHello, 0xe4, 0xbd, 0xa0}) {
    PushEnd({.token = token, .logprobs = {{token, -1.0F}}});
  }
  PushEnd({.token = 'a', .finish = FinishReason::kLength, .logprobs = {{'a', -1.0F}}});
  EXPECT_EQ(Choice().Find("text")->AsString(), "你好你好你a");
  EXPECT_EQ(Choice().Find("logprobs")->Find("text_offset")->Dump(), "[2,4,4,4,5]");
}

TEST_F(AnswerSessionTest, AnEchoWithItsLogprobs) {
  for (const bool stream : {true, false}) {
    writer_ = std::make_shared<TestWriter>();
    tokens_.clear();
    Start({.choices = {{.prompt_tokens = 3, .echo = Echoed("xyz", {'x', 'y', 'z'})}},
           .logprobs = 1,
           .stream = stream},
          Completion());
    // The engine was asked for two, for prompt_logprobs wants more than the echo.
    PushEnd({.token = 'a',
             .logprobs = {{'a', -4.0F}, {'b', -0.5F}},
             .prompt_logprobs = {{{'y', -1.0F}, {'b', -0.5F}, {'c', -2.0F}},
                                 {{'z', -2.0F}, {'z', -2.0F}, {'c', -3.0F}}}});
    PushEnd({.token = 'b', .finish = FinishReason::kLength, .logprobs = {{'b', -5.0F}}});
    ASSERT_TRUE(writer_->complete);
    const std::string echo =
        R"({"text_offset":[0,1,2],"token_logprobs":[null,-1,-2],"tokens":["x","y","z"],)"
        R"("top_logprobs":[null,{"b":-0.5,"y":-1},{"z":-2}]})";
    if (stream) {
      const Json first = Json::Parse(writer_->Frames()[0]).value().Find("choices")->AsArray()[0];
      EXPECT_EQ(first.Find("text")->AsString(), "xyz");
      EXPECT_EQ(first.Find("logprobs")->Dump(), echo);
    } else {
      EXPECT_EQ(Choice().Find("text")->AsString(), "xyzab");
      EXPECT_EQ(Choice().Find("logprobs")->Dump(),
                R"({"text_offset":[0,1,2,3,4],"token_logprobs":[null,-1,-2,-4,-5],)"
                R"("tokens":["x","y","z","a","b"],)"
                R"("top_logprobs":[null,{"b":-0.5,"y":-1},{"z":-2},{"b":-0.5,"a":-4},{"b":-5}]})");
    }
  }
}

TEST_F(AnswerSessionTest, EachChoiceBeginsWithItsOwnEcho) {
  Start({.choices = {{.prompt_tokens = 1, .echo = Echoed("x", {'x'})},
                     {.prompt_tokens = 1, .echo = Echoed("y", {'y'})}},
         .logprobs = 0},
        Completion());
  PushEnd({.token = 'b', .finish = FinishReason::kLength, .logprobs = {{'b', -1.0F}}}, 1);
  PushEnd({.token = 'a', .finish = FinishReason::kLength, .logprobs = {{'a', -1.0F}}}, 0);
  ASSERT_TRUE(writer_->complete);
  const Json::Array choices = writer_->BodyJson().Find("choices")->AsArray();
  EXPECT_EQ(choices[0].Find("text")->AsString(), "xa");
  EXPECT_EQ(choices[1].Find("text")->AsString(), "yb");
  EXPECT_EQ(choices[1].Find("logprobs")->Find("token_logprobs")->Dump(), "[null,-1]");
}

TEST_F(AnswerSessionTest, ThePromptAlone) {
  for (const bool stream : {true, false}) {
    writer_ = std::make_shared<TestWriter>();
    tokens_.clear();
    Start({.choices = {{.prompt_tokens = 2, .echo = Echoed("xy", {'x', 'y'})}},
           .logprobs = 0,
           .prompt_only = true,
           .stream = stream,
           .include_usage = stream},
          Completion());
    PushEnd({.token = 'a', .prompt_logprobs = {{{'y', -1.0F}}}});  // not even the last event
    ASSERT_TRUE(writer_->complete);
    EXPECT_EQ(tokens_[0]->cancelled_as(), FinishReason::kLength);
    EXPECT_NE(writer_->body.find(R"("completion_tokens":0)"), std::string::npos) << writer_->body;
    EXPECT_NE(writer_->body.find(R"("finish_reason":"length","stop_reason":null)"),
              std::string::npos);
    EXPECT_NE(writer_->body.find(R"("text":"xy")"), std::string::npos);
    EXPECT_NE(writer_->body.find(R"("token_logprobs":[null,-1])"), std::string::npos);
  }
}

TEST_F(AnswerSessionTest, TheLogprobsOfThePrompt) {
  const TokenEvent event = {.token = 'a',
                            .finish = FinishReason::kLength,
                            .prompt_logprobs = {{{'y', -1.0F}, {'b', -0.5F}, {'c', -2.0F}}}};
  const std::string list = R"([null,{"121":{"logprob":-1,"rank":null,"decoded_token":"y"},)"
                           R"("98":{"logprob":-0.5,"rank":1,"decoded_token":"b"}}])";
  Start({.choices = {{2}, {.prompt_tokens = 2, .counts_prompt = false}}, .prompt_logprobs = 1});
  PushEnd(event);
  PushEnd({.token = 'a', .finish = FinishReason::kLength}, 1);
  EXPECT_EQ(writer_->BodyJson().Find("prompt_logprobs")->Dump(), list);

  writer_ = std::make_shared<TestWriter>();
  tokens_.clear();
  Start({.choices = {{2}}, .prompt_logprobs = 1}, Completion());
  PushEnd(event);
  EXPECT_EQ(Choice().Find("prompt_logprobs")->Dump(), list);
}

TEST_F(AnswerSessionTest, CachedTokensAreThoseOfEachPromptsFirstChoice) {
  for (const bool stream : {true, false}) {
    writer_ = std::make_shared<TestWriter>();
    tokens_.clear();
    Start({.choices = {{3}, {.prompt_tokens = 3, .counts_prompt = false}, {4}},
           .stream = stream,
           .include_usage = stream,
           .continuous_usage = stream});
    for (size_t i = 0; i < 3; ++i) {
      PushEnd({.token = 'a', .cached_tokens = static_cast<int64_t>(1) << i}, i);
      PushEnd({.token = 'b', .finish = FinishReason::kLength}, i);
    }
    ASSERT_TRUE(writer_->complete);
    const size_t at = writer_->body.find(R"("prompt_tokens_details":{"cached_tokens":5})");
    ASSERT_NE(at, std::string::npos) << writer_->body;
    EXPECT_EQ(writer_->body.find("prompt_tokens_details"), at + 1) << "told once, at the end";
  }
}

TEST_F(AnswerSessionTest, TooLate) {
  Start({});
  Push("a");
  PushEnd({.finish = FinishReason::kAbort, .error = DeadlineExceeded("the time is up")});
  EXPECT_EQ(writer_->head.status, 504);
  EXPECT_EQ(writer_->BodyJson().Find("error")->Find("type")->AsString(), "GatewayTimeoutError");
}

TEST_F(AnswerSessionTest, StopStringsWaitForMinTokens) {
  Start({.stop = {"b"}, .min_tokens = 3});
  Push("abb");
  EXPECT_FALSE(writer_->complete);
  Push("cb");
  ASSERT_TRUE(writer_->complete);
  EXPECT_EQ(Choice().Find("message")->Find("content")->AsString(), "abbc");
}

TEST_F(AnswerSessionTest, SeveralChoices) {
  Start({.choices = {{7}, {7}}, .stream = true, .include_usage = true});
  Push({'a'}, 1);
  Push({'b'}, 0);
  PushStop(Tok::kEnd, 0);
  EXPECT_FALSE(writer_->complete);
  PushEnd({.token = 'c', .finish = FinishReason::kLength}, 1);
  ASSERT_TRUE(writer_->complete);
  std::vector<std::string> seen;
  for (const std::string& frame : writer_->Frames()) {
    if (frame == "[DONE]") continue;
    const Json json = Json::Parse(frame).value();
    for (const Json& choice : json.Find("choices")->AsArray()) {
      seen.push_back(choice.Find("index")->Dump() + choice.Find("delta")->Dump() +
                     choice.Find("finish_reason")->Dump());
    }
  }
  EXPECT_EQ(seen, (std::vector<std::string>{R"(0{"role":"assistant","content":""}null)",
                                            R"(1{"role":"assistant","content":""}null)",
                                            R"(1{"content":"a"}null)", R"(0{"content":"b"}null)",
                                            R"(0{"content":""}"stop")", R"(1{"content":"c"}null)",
                                            R"(1{"content":""}"length")"}));
  EXPECT_NE(writer_->body.find(R"("completion_tokens":4)"), std::string::npos);
}

TEST_F(AnswerSessionTest, TokenIdsAndThePrompt) {
  auto told = std::make_shared<ToldPrompt>();
  told->token_ids = Ids{1, 2};
  told->text = "p";
  const std::vector<ChoicePlan> choices = {{.prompt_tokens = 2, .told = told}};
  Start({.choices = choices, .stop = {"xyz"}, .token_ids = true, .stream = true});
  Push({'a', 'x'});
  PushStop();
  const std::vector<std::string> frames = writer_->Frames();
  EXPECT_NE(frames[0].find(R"(,"prompt_token_ids":[1,2],"prompt_text":"p"})"), std::string::npos)
      << frames[0];
  EXPECT_NE(frames[1].find(R"("token_ids":[97])"), std::string::npos) << frames[1];
  // Its text is held back, for it may begin a stop string; its id is told when it comes.
  EXPECT_NE(frames[2].find(R"("content":"")"), std::string::npos) << frames[2];
  EXPECT_NE(frames[2].find(R"("token_ids":[120])"), std::string::npos) << frames[2];
  EXPECT_NE(frames[3].find(R"("token_ids":[256])"), std::string::npos) << frames[3];

  writer_ = std::make_shared<TestWriter>();
  tokens_.clear();
  Start({.choices = choices, .token_ids = true}, Completion());
  Push({'a'});
  PushStop();
  EXPECT_EQ(Choice().Find("token_ids")->Dump(), "[97,256]");
  EXPECT_EQ(Choice().Find("prompt_token_ids")->Dump(), "[1,2]");
}

TEST_F(AnswerSessionTest, ChunksOfSeveralTokens) {
  Start({.stream = true, .stream_interval = 3});
  Push("abcdefgh");
  PushStop();
  EXPECT_EQ(Contents(), (std::vector<std::string>{"a", "bcd", "efg", "h"}));
}

TEST_F(AnswerSessionTest, TheBestOfSeveralAnswers) {
  const std::vector<ChoicePlan> choices(3, {.prompt_tokens = 7});
  Start({.choices = choices, .drawn = 3, .sent = 2}, Completion());
  const auto say = [&](size_t choice, int32_t token, std::vector<float> logprobs) {
    for (size_t i = 0; i < logprobs.size(); ++i) {
      TokenEvent event{.token = token, .logprobs = {{token, logprobs[i]}}};
      if (i + 1 == logprobs.size()) event.finish = FinishReason::kLength;
      PushEnd(std::move(event), choice);
    }
  };
  say(0, 'a', {-1, -2});
  say(1, 'b', {-9});
  say(2, 'c', {-1, -1, -1});  // less probable than the first together, more on average
  const Json body = writer_->BodyJson();
  const Json::Array& answers = body.Find("choices")->AsArray();
  ASSERT_EQ(answers.size(), 2u);
  EXPECT_EQ(answers[0].Find("text")->AsString(), "ccc");
  EXPECT_EQ(answers[0].Find("index")->AsInt(), 0);
  EXPECT_TRUE(answers[0].Find("logprobs")->is_null()) << "nobody asked for them";
  EXPECT_EQ(answers[1].Find("text")->AsString(), "aa");
  EXPECT_EQ(body.Find("usage")->Find("completion_tokens")->AsInt(), 6) << "all that were computed";
}

TEST_F(AnswerSessionTest, TheExpertTraceComesLast) {
  ModelSpec spec;
  spec.layers = {FfnKind::kDense, FfnKind::kMoe};
  spec.moe.routing = {.experts = 4, .top_k = 2};
  for (const bool usage : {false, true}) {
    writer_ = std::make_shared<TestWriter>();
    tokens_.clear();
    Start({.traced = &spec, .stream = true, .include_usage = usage});
    PushEnd({.token = 'a', .experts = {3, 1}});
    PushEnd({.token = Tok::kEnd,
             .finish = FinishReason::kStop,
             .stop_token = Tok::kEnd,
             .experts = {1, 0}});
    std::vector<std::string> frames = writer_->Frames();
    ASSERT_EQ(frames.back(), "[DONE]");
    const Json last = Json::Parse(frames[frames.size() - 2]).value();
    ASSERT_NE(last.Find("expert_trace"), nullptr) << last.Dump();
    EXPECT_EQ(last.Find("expert_trace")->Find("tokens")->AsInt(), 2);
    EXPECT_EQ(last.Find("usage") != nullptr, usage);
    frames.resize(frames.size() - 2);
    for (const std::string& frame : frames) EXPECT_EQ(frame.find("expert"), std::string::npos);
  }
}

TEST_F(AnswerSessionTest, ReasoningAndCallsInAStream) {
  Start({.stream = true,
         .include_usage = true,
         .parser = AnswerParserOptions{
             .markup = {.tool_calls = ToolCallForm::kHermes, .reasoning = true}}});
  Push("<think>a</think>b<tool_call>{\"name\":\"f\",\"arguments\":{\"x\":1}}");
  PushStop();
  std::string reasoning, content, name, arguments, finish;
  for (const std::string& frame : writer_->Frames()) {
    EXPECT_EQ(frame.find("think"), std::string::npos);
    EXPECT_EQ(frame.find("tool_call>"), std::string::npos);
    if (frame == "[DONE]") continue;
    const Json json = Json::Parse(frame).value();
    if (json.Find("choices")->AsArray().empty()) {
      EXPECT_EQ(json.Find("usage")->Find("completion_tokens_details")->Dump(),
                R"({"reasoning_tokens":9})");
      continue;
    }
    const Json& choice = json.Find("choices")->AsArray()[0];
    const Json& delta = *choice.Find("delta");
    if (const Json* text = delta.Find("content")) content += text->AsString();
    if (const Json* text = delta.Find("reasoning")) reasoning += text->AsString();
    if (const Json* calls = delta.Find("tool_calls")) {
      const Json& call = calls->AsArray()[0];
      EXPECT_EQ(call.Find("index")->AsInt(), 0);
      const Json& function = *call.Find("function");
      EXPECT_EQ(function.Find("name") != nullptr, call.Find("id") != nullptr);
      if (function.Find("name") != nullptr) name = function.Find("name")->AsString();
      arguments += function.Find("arguments")->AsString();
    }
    if (choice.Find("finish_reason")->is_string())
      finish = choice.Find("finish_reason")->AsString();
  }
  EXPECT_EQ(reasoning, "a");
  EXPECT_EQ(content, "b");
  EXPECT_EQ(name, "f");
  EXPECT_EQ(arguments, R"({"x":1})");
  EXPECT_EQ(finish, "tool_calls");
}

}  // namespace
}  // namespace erne
