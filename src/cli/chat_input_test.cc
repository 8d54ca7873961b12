#include "cli/chat_input.h"

#include <vector>

#include <gtest/gtest.h>

namespace erne {
namespace {

// The entries of some lines, "message" or "command|text"; what is left at the end counts too.
std::vector<std::string> Entries(const std::vector<std::string>& lines) {
  ChatInput input;
  std::vector<std::string> out;
  const auto add = [&](const std::optional<ChatEntry>& entry) {
    if (entry)
      out.push_back(entry->command.empty() ? entry->text : entry->command + "|" + entry->text);
  };
  for (const std::string& line : lines) add(input.Add(line));
  add(input.Finish());
  EXPECT_FALSE(input.continues());
  return out;
}
using Texts = std::vector<std::string>;

TEST(ChatInputTest, ALineIsAMessage) {
  EXPECT_EQ(Entries({"你好", "", "  ", "  b ", "c\r"}), (Texts{"你好", "  b", "c"}));
}

TEST(ChatInputTest, ABackslashGoesOn) {
  EXPECT_EQ(Entries({"a\\", "b\\", "", "c"}), (Texts{"a\nb\n", "c"}));
  EXPECT_EQ(Entries({"a\\"}), (Texts{"a\n"})) << "the input ended";
  EXPECT_EQ(Entries({"\\", ""}), Texts{});
}

TEST(ChatInputTest, BlocksAreTakenAsTheyStand) {
  EXPECT_EQ(Entries({"\"\"\"", "/help", "", "  x\\", "\"\"\"", "y"}),
            (Texts{"/help\n\n  x\\", "y"}));
  EXPECT_EQ(Entries({"\"\"\"one", "two\"\"\""}), (Texts{"one\ntwo"}));
  EXPECT_EQ(Entries({" \"\"\"one line\"\"\" "}), (Texts{"one line"}));
  EXPECT_EQ(Entries({"\"\"\"", "unfinished"}), (Texts{"unfinished"}));
  EXPECT_EQ(Entries({"\"\"\"\"\"\"", "\"\"\"", "  ", "\"\"\""}), Texts{});
  EXPECT_EQ(Entries({"say \"\"\"", "b"}), (Texts{"say \"\"\"", "b"})) << "only at the beginning";
}

TEST(ChatInputTest, Commands) {
  EXPECT_EQ(Entries({"/help", " /set  temperature 0.7 ", "/", "/ b", "/system a\\", "b"}),
            (Texts{"help|", "set|temperature 0.7", "/", "/ b", "system|a\nb"}));
  EXPECT_EQ(Entries({"//etc/hosts is what?"}), (Texts{"/etc/hosts is what?"}));
}

TEST(ChatInputTest, WhatIsNoUtf8IsReplaced) {
  EXPECT_EQ(Entries({"a\xff\x62", "/set \xe4"}), (Texts{"a\uFFFD\x62", "set|\uFFFD"}));
}

TEST(ChatInputTest, ItSaysWhetherItGoesOnAndForgetsOnRequest) {
  ChatInput input;
  EXPECT_FALSE(input.continues());
  input.Add("a\\");
  EXPECT_TRUE(input.continues());
  input.Discard();
  EXPECT_FALSE(input.continues());
  input.Add("\"\"\"x");
  EXPECT_TRUE(input.continues());
  input.Discard();
  EXPECT_EQ(input.Add("b")->text, "b");
}

}  // namespace
}  // namespace erne
