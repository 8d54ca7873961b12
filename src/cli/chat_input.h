// What is typed into `erne chat`: lines become messages and commands.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace erne {

// A message to the model, or a command with its argument.
struct ChatEntry {
  std::string command;  // "set" of "/set temperature 0.7"; "": this is a message
  std::string text;     // the message, or what follows the command
};

// A line is an entry. One that ends in a backslash goes on with the next line; lines between """
// and """ are one message as they stand. A line that begins with / and a name is a command, with //
// a message that begins with /. Blank lines are nothing.
class ChatInput {
 public:
  // Takes a line without its end; the entry that it completes.
  std::optional<ChatEntry> Add(std::string_view line);
  // The input ends: what was begun is an entry.
  std::optional<ChatEntry> Finish();
  // Forgets what was begun.
  void Discard();

  // Whether an entry was begun, and the next line belongs to it.
  bool continues() const { return in_block_ || continued_; }

 private:
  std::optional<ChatEntry> TakeEntry();

  std::string text_;
  bool in_block_ = false;   // between """ and """
  bool continued_ = false;  // the last line ended in a backslash
};

}  // namespace erne
