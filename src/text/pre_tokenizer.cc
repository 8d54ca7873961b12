#include "text/pre_tokenizer.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>

#include "base/unicode/character_class.h"
#include "base/utf8.h"

namespace erne {
namespace {

constexpr std::string_view kGpt2Pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
constexpr std::string_view kLlama3Pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kQwen2Pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

// What the patterns tell apart; every character is of one kind.
enum class Kind : uint8_t { kLetter, kNumber, kSpace, kOther };

struct Character {
  char32_t code_point;
  Kind kind;
  size_t end;  // byte offset in the text
};

Kind KindOf(char32_t c) {
  if (IsLetter(c)) return Kind::kLetter;
  if (IsNumber(c)) return Kind::kNumber;
  return IsWhiteSpace(c) ? Kind::kSpace : Kind::kOther;
}

class Splitter {
 public:
  Splitter(PreTokenizer kind, std::string_view text) : kind_(kind) {
    for (size_t at = 0; at < text.size();) {
      Utf8Char c = DecodeUtf8(text.substr(at));
      if (c.length == 0) c = {0xFFFD, 1};
      at += c.length;
      characters_.push_back({c.code_point, KindOf(c.code_point), at});
    }
  }

  // Index of the first character after the word that begins at `i`.
  size_t WordEnd(size_t i) const { return kind_ == PreTokenizer::kGpt2 ? Gpt2End(i) : NewerEnd(i); }
  size_t size() const { return characters_.size(); }
  size_t Offset(size_t i) const { return i == 0 ? 0 : characters_[i - 1].end; }

 private:
  bool Is(size_t i, Kind kind) const { return i < size() && characters_[i].kind == kind; }
  bool IsNewline(size_t i) const {
    return i < size() && (characters_[i].code_point == '\n' || characters_[i].code_point == '\r');
  }
  size_t SkipKind(size_t i, Kind kind) const {
    while (Is(i, kind)) ++i;
    return i;
  }
  // The letter at `i` in lower case, as far as contractions need it; U+017F is an s whatever its
  // case.
  char Lower(size_t i) const {
    if (i >= size()) return 0;
    const char32_t c = characters_[i].code_point;
    if (kind_ == PreTokenizer::kGpt2) return c < 0x80 ? static_cast<char>(c) : 0;
    if (c == 0x17F) return 's';
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a')
           : c < 0x80           ? static_cast<char>(c)
                                : 0;
  }

  // 's 't 're 've 'm 'll 'd; `i` when there is none.
  size_t ContractionEnd(size_t i) const {
    if (characters_[i].code_point != '\'') return i;
    const char first = Lower(i + 1);
    const char second = Lower(i + 2);
    if (first == 's' || first == 't' || first == 'm' || first == 'd') return i + 2;
    if ((first == 'r' && second == 'e') || (first == 'v' && second == 'e') ||
        (first == 'l' && second == 'l')) {
      return i + 3;
    }
    return i;
  }

  // \s+(?!\S)|\s+: the last space of a run is left to the word behind it.
  size_t SpaceEnd(size_t i) const {
    const size_t end = SkipKind(i, Kind::kSpace);
    return end == size() || end == i + 1 ? end : end - 1;
  }

  size_t Gpt2End(size_t i) const {
    if (const size_t end = ContractionEnd(i); end > i) return end;
    const size_t begin = characters_[i].code_point == ' ' ? i + 1 : i;
    for (const Kind kind : {Kind::kLetter, Kind::kNumber, Kind::kOther}) {
      if (Is(begin, kind)) return SkipKind(begin, kind);
    }
    return SpaceEnd(i);
  }

  size_t NewerEnd(size_t i) const {
    if (const size_t end = ContractionEnd(i); end > i) return end;
    const Character& c = characters_[i];
    const bool may_lead = !IsNewline(i) && c.kind != Kind::kLetter && c.kind != Kind::kNumber;
    if (may_lead && Is(i + 1, Kind::kLetter)) return SkipKind(i + 1, Kind::kLetter);
    if (c.kind == Kind::kLetter) return SkipKind(i, Kind::kLetter);
    if (c.kind == Kind::kNumber) {
      const size_t digits = kind_ == PreTokenizer::kLlama3 ? 3 : 1;
      return std::min(SkipKind(i, Kind::kNumber), i + digits);
    }
    const size_t begin = c.code_point == ' ' ? i + 1 : i;
    if (Is(begin, Kind::kOther)) {
      size_t end = SkipKind(begin, Kind::kOther);
      while (IsNewline(end)) ++end;
      return end;
    }
    // \s*[\r\n]+: up to the last line end of the white space.
    for (size_t end = SkipKind(i, Kind::kSpace); end > i; --end) {
      if (IsNewline(end - 1)) return end;
    }
    return SpaceEnd(i);
  }

  PreTokenizer kind_;
  std::vector<Character> characters_;
};

}  // namespace

std::optional<PreTokenizer> PreTokenizerOf(std::string_view pattern) {
  if (pattern == kGpt2Pattern) return PreTokenizer::kGpt2;
  if (pattern == kLlama3Pattern) return PreTokenizer::kLlama3;
  if (pattern == kQwen2Pattern) return PreTokenizer::kQwen2;
  return std::nullopt;
}

std::vector<std::string_view> SplitWords(PreTokenizer kind, std::string_view text) {
  if (text.empty()) return {};
  if (kind == PreTokenizer::kNone) return {text};
  const Splitter splitter(kind, text);
  std::vector<std::string_view> words;
  for (size_t i = 0; i < splitter.size();) {
    const size_t end = splitter.WordEnd(i);
    words.push_back(text.substr(splitter.Offset(i), splitter.Offset(end) - splitter.Offset(i)));
    i = end;
  }
  return words;
}

}  // namespace erne
