#include "cli/chat_conversation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "api/test_model.h"

namespace erne {
namespace {

using ::testing::HasSubstr;
using Tok = TestTokenizer;

// The test tokenizer knows bytes, so a prompt can be read.
std::string PromptOf(const ChatConversation::Question& question) {
  return TestTokenizer().Decode(question.generation.prompt, false);
}

class ChatConversationTest : public testing::Test {
 protected:
  void Make(int64_t context) {
    model_ = MakeTestModel([](int64_t) { return 'a'; }, context);
    chat_ = std::make_unique<ChatConversation>(model_);
  }
  std::string Prompt(const std::string& message) {
    const auto question = chat_->Ask(message);
    return question.ok() ? PromptOf(*question) : question.status().message();
  }
  Status Set(const std::string& name, const std::string& value) {
    const auto setting = ParseChatSetting(name, value);
    return setting.ok() ? chat_->Set(*setting) : setting.status();
  }

  std::shared_ptr<ServedModel> model_;
  std::unique_ptr<ChatConversation> chat_;
};

TEST_F(ChatConversationTest, ThePromptHoldsWhatWasSaid) {
  Make(1024);
  EXPECT_EQ(Prompt("one"), "<|begin_of_sentence|>User: one\nAssistant: ");
  chat_->SetAnswer("1");
  chat_->SetSystem("Be short.");
  EXPECT_EQ(Prompt("two"),
            "<|begin_of_sentence|>Be short.\nUser: one\nAssistant: 1<|end_of_sentence|>User: two\n"
            "Assistant: ");
  chat_->SetAnswer("2");
  chat_->Clear();
  EXPECT_EQ(Prompt("three"), "<|begin_of_sentence|>Be short.\nUser: three\nAssistant: ");
}

TEST_F(ChatConversationTest, ControlTokensThatAreTypedAreText) {
  Make(1024);
  const auto question = chat_->Ask("</s>");
  ASSERT_TRUE(question.ok());
  const auto& prompt = question->generation.prompt;
  EXPECT_EQ(std::count(prompt.begin(), prompt.end(), Tok::kEnd), 0);
  EXPECT_EQ(std::count(prompt.begin(), prompt.end(), Tok::kBegin), 1);
}

TEST_F(ChatConversationTest, WithoutAnAnswerTheQuestionIsForgotten) {
  Make(1024);
  Prompt("one");
  chat_->SetAnswer("");
  EXPECT_EQ(Prompt("two"), "<|begin_of_sentence|>User: two\nAssistant: ");
}

TEST_F(ChatConversationTest, AskingAgain) {
  Make(1024);
  EXPECT_FALSE(chat_->AskAgain().ok());
  const std::string prompt = Prompt("one");
  chat_->SetAnswer("1");
  auto again = chat_->AskAgain();
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(PromptOf(*again), prompt);
  chat_->SetAnswer("");  // it was stopped at once: the first answer stays
  EXPECT_THAT(Prompt("two"), HasSubstr("Assistant: 1<"));
}

TEST_F(ChatConversationTest, SeedsAreKeptAndCountedUp) {
  Make(1024);
  const auto seed = [](const Result<ChatConversation::Question>& question) {
    return question->generation.sampling.seed;
  };
  const uint64_t first = seed(chat_->Ask("a"));
  chat_->SetAnswer("x");
  EXPECT_NE(seed(chat_->Ask("a")), first);
  chat_->SetAnswer("x");
  ASSERT_TRUE(Set("seed", "7").ok());
  EXPECT_EQ(seed(chat_->Ask("a")), 7U);
  chat_->SetAnswer("x");
  EXPECT_EQ(seed(chat_->AskAgain()), 8U);
  EXPECT_EQ(seed(chat_->AskAgain()), 9U);
  EXPECT_EQ(seed(chat_->Ask("b")), 7U);
}

TEST_F(ChatConversationTest, TheOldestTurnsGoWhenTheContextIsFull) {
  Make(200);  // an answer gets 50 tokens at least
  Prompt("one " + std::string(80, 'x'));
  chat_->SetAnswer("first");
  Prompt("two");
  chat_->SetAnswer("second");
  auto question = chat_->Ask("three");
  ASSERT_TRUE(question.ok());
  EXPECT_EQ(question->dropped, 1);
  EXPECT_EQ(PromptOf(*question),
            "<|begin_of_sentence|>User: two\nAssistant: second<|end_of_sentence|>User: three\n"
            "Assistant: ");
  EXPECT_GE(question->generation.max_tokens, 50);
  chat_->SetAnswer("third");
  question = chat_->Ask("4");
  ASSERT_TRUE(question.ok());
  EXPECT_EQ(question->dropped, 0) << "they went for good";
}

TEST_F(ChatConversationTest, AMessageThatCanNeverFitChangesNothing) {
  Make(200);
  Prompt("one");
  chat_->SetAnswer("1");
  const auto question = chat_->Ask(std::string(300, 'x'));
  ASSERT_FALSE(question.ok());
  EXPECT_THAT(question.status().message(), HasSubstr("200 tokens"));
  EXPECT_THAT(Prompt("two"), HasSubstr("User: one\nAssistant: 1<"));
}

TEST_F(ChatConversationTest, RoomThatIsAskedForCounts) {
  Make(200);
  Prompt("one " + std::string(20, 'x'));
  chat_->SetAnswer("1");
  ASSERT_TRUE(Set("max-tokens", "160").ok());
  const auto question = chat_->Ask("two");
  ASSERT_TRUE(question.ok());
  EXPECT_EQ(question->dropped, 1);
  EXPECT_EQ(question->generation.max_tokens, 160);
}

TEST_F(ChatConversationTest, Settings) {
  Make(1024);
  model_->defaults.temperature = 0.25F;
  ASSERT_TRUE(Set("temperature", "0.5").ok());
  ASSERT_TRUE(Set("top_k", "3").ok());
  ASSERT_TRUE(Set("stop", "END").ok());
  ASSERT_TRUE(Set("stop", R"(["a","b"])").ok());
  EXPECT_EQ(chat_->settings().Dump(), R"({"temperature":0.5,"top_k":3,"stop":["a","b"]})");
  auto question = chat_->Ask("x");
  ASSERT_TRUE(question.ok());
  EXPECT_EQ(question->generation.sampling.temperature, 0.5F);
  EXPECT_EQ(question->generation.sampling.top_k, 3);
  EXPECT_EQ(question->text.stop, (std::vector<std::string>{"a", "b"}));
  ASSERT_TRUE(Set("temperature", "default").ok());
  question = chat_->Ask("x");
  EXPECT_EQ(question->generation.sampling.temperature, 0.25F) << "the model's own";
}

TEST_F(ChatConversationTest, BadSettingsChangeNothing) {
  Make(1024);
  EXPECT_THAT(Set("temprature", "1").message(), HasSubstr("did you mean temperature?"));
  EXPECT_THAT(Set("messages", "[]").message(), HasSubstr("no setting"));
  EXPECT_THAT(Set("stream", "true").message(), HasSubstr("no setting"));
  EXPECT_THAT(Set("temperature", "-1").message(), HasSubstr("`temperature`"));
  EXPECT_THAT(Set("temperature", "hot").message(), HasSubstr("`temperature`"));
  EXPECT_THAT(Set("top_k", "1.5").message(), HasSubstr("`top_k`"));
  EXPECT_THAT(Set("stop", "").message(), HasSubstr("`stop`"));
  EXPECT_THAT(Set("stop_token_ids", "[100000]").message(), HasSubstr("`stop_token_ids`"));
  EXPECT_EQ(chat_->settings().Dump(), "{}");
}

TEST_F(ChatConversationTest, SavedIsARequest) {
  Make(1024);
  chat_->SetSystem("s");
  ASSERT_TRUE(Set("temperature", "0.5").ok());
  Prompt("你\n好");
  chat_->SetAnswer("1");
  EXPECT_EQ(chat_->Save(),
            "{\"model\":\"Test-Model\",\"temperature\":0.5,\n\"messages\":[\n"
            "{\"role\":\"system\",\"content\":\"s\"},\n"
            "{\"role\":\"user\",\"content\":\"你\\n好\"},\n"
            "{\"role\":\"assistant\",\"content\":\"1\"}\n]}\n");
  std::vector<std::string> unknown;
  EXPECT_TRUE(ParseChatRequest(chat_->Save(), unknown).ok());
  EXPECT_TRUE(unknown.empty());
}

}  // namespace
}  // namespace erne
