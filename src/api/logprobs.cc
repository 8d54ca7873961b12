#include "api/logprobs.h"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <set>

#include "base/json.h"
#include "base/utf8.h"

namespace erne {
namespace {

constexpr float kLeastLogprob = -9999.0F;
constexpr const char* kChatMark = "";
constexpr const char* kCompletionMark = "bytes:";

// The shortest text that stands for the same float.
void AppendLogprob(float logprob, std::string& out) {
  char text[32];
  const auto end = std::to_chars(text, text + sizeof(text), std::max(logprob, kLeastLogprob)).ptr;
  out.append(text, end);
}

void AppendNull(std::string& out) { out += "null"; }

// Writes `[` item, ... `]`.
template <typename Items, typename AppendItem>
void AppendList(const Items& items, std::string& out, AppendItem append) {
  out += '[';
  bool first = true;
  for (const auto& item : items) {
    if (!first) out += ',';
    first = false;
    append(item);
  }
  out += ']';
}

}  // namespace

std::string LogprobWriter::Told(int32_t token, const char* mark) const {
  if (as_ids_) return "token_id:" + std::to_string(token);
  const std::string bytes = tokenizer_.TokenBytes(token);
  if (FindInvalidUtf8(bytes) == std::string::npos) return bytes;
  std::string told = mark;
  for (const char byte : bytes) {
    char text[8];
    std::snprintf(text, sizeof(text), "\\x%02x", static_cast<unsigned>(static_cast<uint8_t>(byte)));
    told += text;
  }
  return told;
}

// The members that a token has as a choice and as a candidate; the object stays open.
void LogprobWriter::AppendChatToken(const TokenLogprob& token, bool shown, std::string& out) const {
  out += "{\"token\":";
  AppendJsonString(Told(token.token, kChatMark), out);
  out += ",\"logprob\":";
  AppendLogprob(token.logprob, out);
  out += ",\"bytes\":";
  if (shown) {
    const std::string bytes = tokenizer_.TokenBytes(token.token);
    AppendList(bytes, out, [&](char byte) { out += std::to_string(static_cast<uint8_t>(byte)); });
  } else {
    out += "null";
  }
}

void LogprobWriter::AppendChat(std::span<const ScoredToken> tokens, std::string& out) const {
  out += "{\"content\":";
  AppendList(tokens, out, [&](const ScoredToken& token) {
    AppendChatToken(token.logprobs.front(), token.shown, out);
    out += ",\"top_logprobs\":";
    AppendList(std::span(token.logprobs).subspan(1), out, [&](const TokenLogprob& candidate) {
      AppendChatToken(candidate, !(skip_special_ && tokenizer_.IsSpecial(candidate.token)), out);
      out += '}';
    });
    out += '}';
  });
  out += ",\"refusal\":null}";
}

void LogprobWriter::AppendCompletion(std::span<const ScoredToken> tokens, std::string& out) const {
  out += "{\"text_offset\":";
  AppendList(tokens, out,
             [&](const ScoredToken& token) { out += std::to_string(token.text_offset); });
  out += ",\"token_logprobs\":";
  AppendList(tokens, out, [&](const ScoredToken& token) {
    token.scored ? AppendLogprob(token.logprobs.front().logprob, out) : AppendNull(out);
  });
  out += ",\"tokens\":";
  AppendList(tokens, out, [&](const ScoredToken& token) {
    AppendJsonString(Told(token.logprobs.front().token, kCompletionMark), out);
  });
  out += ",\"top_logprobs\":";
  AppendList(tokens, out, [&](const ScoredToken& token) {
    if (!token.scored) return AppendNull(out);
    // Most probable first; the token itself, which stands in front, comes last when it is not one
    // of them. Of several with the same text the most probable one counts.
    std::set<std::string> names;
    out += '{';
    const auto add = [&](const TokenLogprob& candidate) {
      std::string name = Told(candidate.token, kCompletionMark);
      if (names.contains(name)) return;
      if (!names.empty()) out += ',';
      AppendJsonString(name, out);
      out += ':';
      AppendLogprob(candidate.logprob, out);
      names.insert(std::move(name));
    };
    for (const TokenLogprob& candidate : std::span(token.logprobs).subspan(1)) add(candidate);
    add(token.logprobs.front());
    out += '}';
  });
  out += '}';
}

void LogprobWriter::AppendPrompt(const PromptScores& scores, std::string& out) const {
  out += "[null";
  for (const std::vector<TokenLogprob>& entry : scores) {
    out += ",{";
    const auto add = [&](const TokenLogprob& token, const std::string& rank) {
      out += '"';
      out += std::to_string(token.token);
      out += "\":{\"logprob\":";
      AppendLogprob(token.logprob, out);
      out += ",\"rank\":";
      out += rank;
      out += ",\"decoded_token\":";
      AppendJsonString(Told(token.token, kChatMark), out);
      out += '}';
    };
    const std::span most_probable = std::span(entry).subspan(std::min<size_t>(1, entry.size()));
    const auto is_own = [&](const TokenLogprob& token) { return token.token == entry[0].token; };
    const auto own = std::find_if(most_probable.begin(), most_probable.end(), is_own);
    if (!entry.empty()) {
      add(entry[0],
          own == most_probable.end() ? "null" : std::to_string(own - most_probable.begin() + 1));
    }
    for (size_t i = 0; i < most_probable.size(); ++i) {
      if (is_own(most_probable[i])) continue;
      out += ',';
      add(most_probable[i], std::to_string(i + 1));
    }
    out += '}';
  }
  out += ']';
}

}  // namespace erne
