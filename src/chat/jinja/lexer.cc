#include "chat/jinja/lexer.h"

#include <algorithm>
#include <charconv>
#include <optional>

#include "base/utf8.h"
#include "chat/jinja/error.h"
#include "chat/jinja/unicode.h"

namespace erne::jinja {
namespace {

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

bool IsNameByte(char c) {
  // Characters beyond ASCII are letters here; those that are none (no template has them) get no
  // further than this.
  return IsDigit(c) || c == '_' || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
         static_cast<uint8_t>(c) >= 0x80;
}

// Line ends as \n, and not one at the very end.
std::string NormalizeNewlines(std::string_view source) {
  std::string out;
  out.reserve(source.size());
  for (size_t i = 0; i < source.size(); ++i) {
    if (source[i] != '\r') {
      out.push_back(source[i]);
    } else {
      out.push_back('\n');
      if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
    }
  }
  if (!out.empty() && out.back() == '\n') out.pop_back();
  return out;
}

class Lexer {
 public:
  explicit Lexer(std::string source) : source_(std::move(source)) {}

  std::vector<Token> Run() {
    while (at_ < source_.size()) LexRoot();
    Push(TokenKind::kEnd, "");
    return std::move(tokens_);
  }

 private:
  std::string_view Rest() const { return std::string_view(source_).substr(at_); }
  bool StartsWith(std::string_view text) const { return Rest().substr(0, text.size()) == text; }

  // Place of `offset`, which is not before that of the last call.
  void Locate(size_t offset, int& line, int& column) {
    for (; located_ < offset; ++located_) {
      if (source_[located_] == '\n') {
        ++line_;
        column_ = 1;
      } else if ((static_cast<uint8_t>(source_[located_]) & 0xC0) != 0x80) {
        ++column_;
      }
    }
    line = line_;
    column = column_;
  }

  [[noreturn]] void Error(std::string message) {
    SyntaxError error{std::move(message)};
    Locate(at_, error.line, error.column);
    throw error;
  }

  Token& Push(TokenKind kind, std::string_view text) {
    Token& token = tokens_.emplace_back();
    token.kind = kind;
    token.text = text;
    Locate(at_, token.line, token.column);
    return token;
  }

  void SkipSpace() { at_ = source_.size() - StripSpaceLeft(Rest()).size(); }

  // Behind a tag's opening characters at `offset`: the sign that steers white space, or 0.
  char SignAt(size_t offset) const {
    if (offset >= source_.size()) return 0;
    return source_[offset] == '-' || source_[offset] == '+' ? source_[offset] : 0;
  }

  // Whether `{% WORD` is at `offset`; `close` is then the offset of what follows, which should end
  // the tag.
  bool MatchWordTag(size_t offset, std::string_view word, size_t& close) const {
    const std::string_view all(source_);
    if (all.substr(offset, 2) != "{%") return false;
    offset += 2;
    if (SignAt(offset) != 0) ++offset;
    std::string_view rest = StripSpaceLeft(all.substr(offset));
    if (rest.substr(0, word.size()) != word) return false;
    rest = StripSpaceLeft(rest.substr(word.size()));
    close = all.size() - rest.size();
    return true;
  }

  // Text up to the next tag, and the beginning of that tag.
  void LexRoot() {
    size_t tag = at_;
    while (true) {
      tag = source_.find('{', tag);
      if (tag == std::string::npos) {
        EmitData(source_.size(), 0, false);
        at_ = source_.size();
        return;
      }
      const char next = tag + 1 < source_.size() ? source_[tag + 1] : 0;
      if (next == '{' || next == '%' || next == '#') break;
      ++tag;
    }
    const char opening = source_[tag + 1];
    const char sign = SignAt(tag + 2);
    EmitData(tag, sign, opening != '{');
    at_ = tag;
    size_t close = 0;
    if (MatchWordTag(tag, "raw", close) && ConsumeRawBegin(close)) return LexRaw();
    at_ = tag + 2 + (sign != 0 ? 1 : 0);
    if (opening == '#') return LexComment();
    at_ = tag;
    Push(opening == '{' ? TokenKind::kVariableBegin : TokenKind::kBlockBegin, "");
    at_ = tag + 2 + (sign != 0 ? 1 : 0);
    LexCode(opening == '{');
  }

  // The data token [at_, end), where a tag with `sign` begins.
  void EmitData(size_t end, char sign, bool lstrip) {
    std::string_view text = std::string_view(source_).substr(at_, end - at_);
    if (sign == '-') {
      text = StripSpaceRight(text);
    } else if (sign != '+' && lstrip) {
      const size_t newline = text.rfind('\n');
      const size_t line = newline == std::string_view::npos ? 0 : newline + 1;
      const bool line_starts = line > 0 || at_ == 0 || source_[at_ - 1] == '\n';
      if (line_starts && StripSpaceLeft(text.substr(line)).empty()) text = text.substr(0, line);
    }
    if (!text.empty()) Push(TokenKind::kData, text);
  }

  // Moves behind the end of a tag whose closing characters (`#}` or `%}`) are `end`, and behind the
  // white space that the tag takes along. False when no end is here.
  bool ConsumeTagEnd(std::string_view end) {
    if (StartsWith(end)) {
      at_ += end.size();
      if (StartsWith("\n")) ++at_;  // trim_blocks
      return true;
    }
    const char sign = SignAt(at_);
    if (sign == 0 || Rest().substr(1, end.size()) != end) return false;
    at_ += 1 + end.size();
    if (sign == '-') SkipSpace();
    return true;
  }

  bool ConsumeRawBegin(size_t close) {
    if (source_.compare(close, 2, "%}") == 0) {
      at_ = close + 2;
      return true;
    }
    if (source_.compare(close, 3, "-%}") != 0) return false;
    at_ = close + 3;
    SkipSpace();
    return true;
  }

  void LexRaw() {
    size_t tag = at_;
    while (true) {
      tag = source_.find("{%", tag);
      if (tag == std::string::npos) Error("missing end of raw directive");
      size_t close = 0;
      if (MatchWordTag(tag, "endraw", close)) {
        const size_t begin = at_;
        at_ = close;
        if (ConsumeTagEnd("%}")) {
          const size_t end = at_;
          at_ = begin;
          EmitData(tag, SignAt(tag + 2), true);
          at_ = end;
          return;
        }
        at_ = begin;
      }
      ++tag;
    }
  }

  void LexComment() {
    const size_t end = source_.find("#}", at_);
    if (end == std::string::npos) Error("missing end of comment");
    const bool has_sign = end > at_ && (source_[end - 1] == '-' || source_[end - 1] == '+');
    at_ = has_sign ? end - 1 : end;
    ConsumeTagEnd("#}");
  }

  // Tokens of one tag up to its end.
  void LexCode(bool variable) {
    brackets_.clear();
    while (true) {
      SkipSpace();
      if (at_ >= source_.size()) return;  // the parser complains
      if (brackets_.empty() && LexTagEnd(variable)) return;
      const char c = source_[at_];
      if (IsDigit(c)) {
        LexNumber();
      } else if (IsNameByte(c)) {
        size_t end = at_;
        while (end < source_.size() && IsNameByte(source_[end])) ++end;
        Push(TokenKind::kName, std::string_view(source_).substr(at_, end - at_));
        at_ = end;
      } else if (c == '"' || c == '\'') {
        LexString(c);
      } else {
        LexOperator();
      }
    }
  }

  bool LexTagEnd(bool variable) {
    const size_t begin = at_;
    bool found = false;
    if (variable) {
      if (StartsWith("}}")) {
        at_ += 2;
        found = true;
      } else if (StartsWith("-}}")) {
        at_ += 3;
        SkipSpace();
        found = true;
      }
    } else {
      found = ConsumeTagEnd("%}");
    }
    if (!found) return false;
    const size_t end = at_;
    at_ = begin;
    Push(variable ? TokenKind::kVariableEnd : TokenKind::kBlockEnd, "");
    at_ = end;
    return true;
  }

  void LexOperator() {
    constexpr std::string_view kTwo[] = {"//", "**", "==", "!=", ">=", "<="};
    constexpr std::string_view kOne = "+-/*%~[](){}><=.:|,;";
    size_t length = 0;
    for (const std::string_view two : kTwo) {
      if (StartsWith(two)) length = 2;
    }
    const char c = source_[at_];
    if (length == 0 && kOne.find(c) != std::string_view::npos) length = 1;
    if (length == 0) Error(StrCat("unexpected character '", c, "'"));
    if (c == '(' || c == '[' || c == '{')
      brackets_.push_back(c == '(' ? ')' : c == '[' ? ']' : '}');
    if (c == ')' || c == ']' || c == '}') {
      if (brackets_.empty()) Error(StrCat("unexpected '", c, "'"));
      if (brackets_.back() != c)
        Error(StrCat("unexpected '", c, "', expected '", brackets_.back(), "'"));
      brackets_.pop_back();
    }
    Push(TokenKind::kOperator, std::string_view(source_).substr(at_, length));
    at_ += length;
  }

  // Digits of `base` with single underscores between them, from `offset` on; the offset behind
  // them.
  template <typename IsOne>
  size_t SkipDigits(size_t offset, IsOne&& is_digit) const {
    while (offset < source_.size()) {
      if (is_digit(source_[offset])) {
        ++offset;
      } else if (source_[offset] == '_' && offset + 1 < source_.size() &&
                 is_digit(source_[offset + 1])) {
        ++offset;
      } else {
        break;
      }
    }
    return offset;
  }

  // End of the fraction and exponent of a float behind its whole part at `end`; `end` when it is no
  // float.
  size_t SkipFraction(size_t end) const {
    const auto digit = [this](size_t i) { return i < source_.size() && IsDigit(source_[i]); };
    // "x.0.5" is two items, not one item and a float.
    if (at_ > 0 && source_[at_ - 1] == '.') return end;
    size_t behind = end;
    if (behind < source_.size() && source_[behind] == '.' && digit(behind + 1)) {
      behind = SkipDigits(behind + 1, IsDigit);
    }
    if (behind < source_.size() && (source_[behind] == 'e' || source_[behind] == 'E')) {
      size_t exponent = behind + 1;
      if (SignAt(exponent) != 0) ++exponent;
      if (digit(exponent)) behind = SkipDigits(exponent, IsDigit);
    }
    return behind;
  }

  void LexNumber() {
    const size_t whole = SkipDigits(at_, IsDigit);
    const size_t end = SkipFraction(whole);
    if (end == whole) return LexInteger();
    std::string digits = source_.substr(at_, end - at_);
    digits.erase(std::remove(digits.begin(), digits.end(), '_'), digits.end());
    double value = 0;
    const auto result = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    if (result.ec != std::errc()) Error("number out of range");
    Push(TokenKind::kFloat, "").number = value;
    at_ = end;
  }

  void LexInteger() {
    int base = 10;
    size_t begin = at_;
    if (source_[at_] == '0' && at_ + 1 < source_.size()) {
      const char letter = static_cast<char>(source_[at_ + 1] | 0x20);
      base = letter == 'x' ? 16 : letter == 'o' ? 8 : letter == 'b' ? 2 : 10;
      if (base != 10) begin += 2;
    }
    const auto is_digit = [base](char c) {
      if (base == 16) return IsDigit(c) || ((c | 0x20) >= 'a' && (c | 0x20) <= 'f');
      return c >= '0' && c < '0' + base;
    };
    if (base != 10 && begin < source_.size() && source_[begin] == '_') ++begin;
    size_t end = SkipDigits(begin, is_digit);
    if (base != 10 && end == begin) {  // "0x" without digits: a zero and a name
      base = 10;
      begin = at_;
      end = at_ + 1;
    }
    // A decimal number does not begin with 0; what follows the zeros is a token of its own.
    if (base == 10 && source_[begin] == '0') {
      end = SkipDigits(begin, [](char c) { return c == '0'; });
    }
    std::string digits = source_.substr(begin, end - begin);
    digits.erase(std::remove(digits.begin(), digits.end(), '_'), digits.end());
    int64_t value = 0;
    const auto result = std::from_chars(digits.data(), digits.data() + digits.size(), value, base);
    if (result.ec != std::errc()) Error("integer literal too large (integers have 64 bits)");
    Push(TokenKind::kInteger, "").integer = value;
    at_ = end;
  }

  void LexString(char quote) {
    size_t end = at_ + 1;
    while (end < source_.size() && source_[end] != quote) end += source_[end] == '\\' ? 2 : 1;
    if (end >= source_.size()) Error("a string is not closed");
    const std::string text = Unescape(std::string_view(source_).substr(at_ + 1, end - at_ - 1));
    Push(TokenKind::kString, text);
    at_ = end + 1;
  }

  // The escapes of Python string literals.
  std::string Unescape(std::string_view text) {
    std::string out;
    out.reserve(text.size());
    for (size_t i = 0; i < text.size();) {
      if (text[i] != '\\' || i + 1 >= text.size()) {
        out.push_back(text[i++]);
        continue;
      }
      const char c = text[i + 1];
      i += 2;
      constexpr std::string_view kFrom = "\\'\"abfnrtv";
      constexpr std::string_view kTo = "\\'\"\a\b\f\n\r\t\v";
      if (const size_t simple = kFrom.find(c); simple != std::string_view::npos) {
        out.push_back(kTo[simple]);
      } else if (c == '\n') {
        // a continued line
      } else if (c == 'x' || c == 'u' || c == 'U') {
        const size_t digits = c == 'x' ? 2 : c == 'u' ? 4 : 8;
        AppendCodePoint(ParseDigits(text.substr(i, digits), digits, 16), out);
        i += digits;
      } else if (c >= '0' && c <= '7') {
        size_t digits = 1;
        while (digits < 3 && i - 1 + digits < text.size() && text[i - 1 + digits] >= '0' &&
               text[i - 1 + digits] <= '7') {
          ++digits;
        }
        AppendCodePoint(ParseDigits(text.substr(i - 1, digits), digits, 8), out);
        i += digits - 1;
      } else if (c == 'N') {
        Error("character names (\\N{...}) are not supported in strings");
      } else {
        out.push_back('\\');
        out.push_back(c);
      }
    }
    return out;
  }

  uint32_t ParseDigits(std::string_view digits, size_t count, int base) {
    uint32_t value = 0;
    const auto result = std::from_chars(digits.data(), digits.data() + digits.size(), value, base);
    if (digits.size() != count || result.ec != std::errc() || result.ptr != digits.data() + count) {
      Error("a string has an incomplete escape");
    }
    return value;
  }

  void AppendCodePoint(uint32_t code_point, std::string& out) {
    if (code_point > 0x10FFFF || (code_point >= 0xD800 && code_point <= 0xDFFF)) {
      Error("a string escapes a number that is no Unicode character");
    }
    AppendUtf8(code_point, out);
  }

  const std::string source_;
  size_t at_ = 0;
  std::vector<Token> tokens_;
  std::string brackets_;  // closing ones that are due
  size_t located_ = 0;
  int line_ = 1;
  int column_ = 1;
};

}  // namespace

std::vector<Token> Tokenize(std::string_view source) {
  return Lexer(NormalizeNewlines(source)).Run();
}

}  // namespace erne::jinja
