#include "cli/chat_input.h"

#include <utility>

#include "base/strings.h"
#include "base/utf8.h"

namespace erne {
namespace {

constexpr std::string_view kFence = "\"\"\"";

// Without white space at the end.
std::string_view StripEnd(std::string_view text) {
  const size_t last = text.find_last_not_of(" \t\r");
  return last == std::string_view::npos ? std::string_view() : text.substr(0, last + 1);
}

// `text` as it is sent; what a terminal or a file holds that is no UTF-8 becomes U+FFFD.
ChatEntry Message(std::string_view text) { return {"", SanitizeUtf8(text)}; }

}  // namespace

std::optional<ChatEntry> ChatInput::Add(std::string_view line) {
  if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
  if (!in_block_ && !continued_) {
    const std::string_view stripped = Strip(line);
    if (stripped.substr(0, kFence.size()) == kFence) {
      in_block_ = true;
      line = line.substr(line.find(kFence) + kFence.size());
      if (StripEnd(line).empty()) return std::nullopt;
    }
  }
  if (in_block_) {
    const std::string_view content = StripEnd(line);
    if (content.size() >= kFence.size() &&
        content.substr(content.size() - kFence.size()) == kFence) {
      text_ += content.substr(0, content.size() - kFence.size());
      return Finish();
    }
    text_ += line;
    text_ += '\n';
    return std::nullopt;
  }
  continued_ = !line.empty() && line.back() == '\\';
  if (continued_) {
    text_ += line.substr(0, line.size() - 1);
    text_ += '\n';
    return std::nullopt;
  }
  text_ += line;
  return TakeEntry();
}

std::optional<ChatEntry> ChatInput::Finish() {
  if (!in_block_) return TakeEntry();
  std::string text = std::move(text_);
  Discard();
  if (!text.empty() && text.back() == '\n') text.pop_back();
  if (Strip(text).empty()) return std::nullopt;
  return Message(text);
}

void ChatInput::Discard() {
  text_.clear();
  in_block_ = false;
  continued_ = false;
}

std::optional<ChatEntry> ChatInput::TakeEntry() {
  const std::string text = std::move(text_);
  Discard();
  const std::string_view stripped = Strip(text);
  if (stripped.empty()) return std::nullopt;
  if (stripped.front() != '/') return Message(StripEnd(text));
  if (stripped.substr(0, 2) == "//") return Message(stripped.substr(1));
  const size_t end = stripped.find_first_of(" \t\n");
  if (end == 1 || stripped.size() == 1) return Message(stripped);  // a slash names no command
  if (end == std::string_view::npos) return ChatEntry{SanitizeUtf8(stripped.substr(1)), ""};
  return ChatEntry{SanitizeUtf8(stripped.substr(1, end - 1)),
                   SanitizeUtf8(Strip(stripped.substr(end)))};
}

}  // namespace erne
