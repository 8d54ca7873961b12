#include "grammar/characters.h"

#include <cstdint>
#include <string>

#include "base/strings.h"
#include "base/utf8.h"

namespace erne::grammar {
namespace {

constexpr char32_t kLastCodePoint = 0x10FFFF;
// Repeats are unrolled: far more than an automaton can hold.
constexpr int64_t kMaxRepeat = 1'000'000;

const Characters kDigits = {{'0', '9'}};
const Characters kWord = {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}};
const Characters kSpace = {{'\t', '\r'}, {' ', ' '}};

int HexDigit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

bool IsSurrogate(char32_t c) { return c >= 0xD800 && c <= 0xDFFF; }

Result<char32_t> ReadHex(PatternReader& reader, int digits) {
  char32_t value = 0;
  for (int i = 0; i < digits; ++i) {
    const int digit = HexDigit(reader.peek());
    if (digit < 0) return reader.Fault("expected a hexadecimal digit");
    value = value * 16 + static_cast<char32_t>(digit);
    reader.SkipByte();
  }
  return value;
}

Result<char32_t> ReadBracedHex(PatternReader& reader) {
  char32_t value = 0;
  while (HexDigit(reader.peek()) >= 0) {
    value = value * 16 + static_cast<char32_t>(HexDigit(reader.peek()));
    if (value > kLastCodePoint) return reader.Fault("a code point above U+10FFFF");
    reader.SkipByte();
  }
  if (!reader.Skip("}")) return reader.Fault("expected '}'");
  return value;
}

Result<char32_t> ReadUnicodeEscape(PatternReader& reader) {
  if (reader.Skip("{")) return ReadBracedHex(reader);
  ERNE_ASSIGN_OR_RETURN(const char32_t high, ReadHex(reader, 4));
  if (high < 0xD800 || high > 0xDBFF || !reader.Skip("\\u")) return high;
  ERNE_ASSIGN_OR_RETURN(const char32_t low, ReadHex(reader, 4));
  if (low < 0xDC00 || low > 0xDFFF) return reader.Fault("half of a surrogate pair");
  return 0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00);
}

// The escapes that stand for one character by a letter.
std::optional<char32_t> ControlOf(char letter) {
  switch (letter) {
    case 'n':
      return U'\n';
    case 't':
      return U'\t';
    case 'r':
      return U'\r';
    case 'f':
      return U'\f';
    case 'v':
      return U'\v';
    case '0':
      return U'\0';
    default:
      return std::nullopt;
  }
}

// Behind '{', up to and with '}'.
Result<RepeatCount> ReadCounts(PatternReader& reader) {
  const auto read_number = [&](int64_t fallback) -> Result<int64_t> {
    if (reader.peek() < '0' || reader.peek() > '9') return fallback;
    int64_t value = 0;
    while (reader.peek() >= '0' && reader.peek() <= '9') {
      value = value * 10 + (reader.peek() - '0');
      if (value > kMaxRepeat) return reader.Fault(StrCat("more than ", kMaxRepeat, " repeats"));
      reader.SkipByte();
    }
    return value;
  };
  RepeatCount count;
  ERNE_ASSIGN_OR_RETURN(count.min, read_number(0));
  count.max = count.min;
  if (reader.Skip(",")) {
    ERNE_ASSIGN_OR_RETURN(count.max, read_number(kUnbounded));
  }
  if (!reader.Skip("}")) return reader.Fault("expected '}'");
  if (count.max != kUnbounded && count.max < count.min) {
    return reader.Fault("repeats whose bounds are out of order");
  }
  return count;
}

}  // namespace

char32_t PatternReader::Take() {
  const Utf8Char c = DecodeUtf8(rest());
  at_ += static_cast<size_t>(std::max(c.length, 1));
  return c.code_point;
}

Status PatternReader::Fault(std::string_view what) const {
  return InvalidArgument(StrCat(what, " at byte ", at_));
}

Characters Complement(const Characters& characters) {
  Characters others;
  char32_t next = 0;
  for (const CodePointRange& range : Normalized(characters)) {
    if (range.first > next) others.push_back({next, range.first - 1});
    next = range.last + 1;
  }
  if (next <= kLastCodePoint) others.push_back({next, kLastCodePoint});
  return Normalized(others);
}

Result<Characters> ReadEscape(PatternReader& reader) {
  if (reader.done()) return reader.Fault("a backslash at the end");
  const char letter = reader.peek();
  if (const std::optional<char32_t> control = ControlOf(letter)) {
    reader.SkipByte();
    return Characters{{*control, *control}};
  }
  const char32_t c = reader.Take();
  switch (c) {
    case 'd':
      return kDigits;
    case 'D':
      return Complement(kDigits);
    case 'w':
      return kWord;
    case 'W':
      return Complement(kWord);
    case 's':
      return kSpace;
    case 'S':
      return Complement(kSpace);
    default:
      break;
  }
  char32_t value = c;
  if (c == 'x') {
    ERNE_ASSIGN_OR_RETURN(value, reader.Skip("{") ? ReadBracedHex(reader) : ReadHex(reader, 2));
  } else if (c == 'u') {
    ERNE_ASSIGN_OR_RETURN(value, ReadUnicodeEscape(reader));
  } else if (c == 'U') {
    ERNE_ASSIGN_OR_RETURN(value, ReadHex(reader, 8));
  } else if ((c < 0x80) && (HexDigit(letter) >= 0 || (letter >= 'G' && letter <= 'Z') ||
                            (letter >= 'g' && letter <= 'z'))) {
    return reader.Fault(StrCat("the escape \\", letter, " is not supported, before"));
  }
  if (value > kLastCodePoint || IsSurrogate(value)) return reader.Fault("no character is escaped");
  return Characters{{value, value}};
}

Result<Characters> ReadClass(PatternReader& reader) {
  const bool negated = reader.Skip("^");
  Characters characters;
  const auto read_one = [&]() -> Result<Characters> {
    if (reader.Skip("\\")) {
      if (reader.Skip("b")) return Characters{{'\b', '\b'}};
      return ReadEscape(reader);
    }
    const char32_t c = reader.Take();
    return Characters{{c, c}};
  };
  while (!reader.Skip("]")) {
    if (reader.done()) return reader.Fault("a class without ']'");
    ERNE_ASSIGN_OR_RETURN(Characters read, read_one());
    const bool ranges =
        reader.rest().size() >= 2 && reader.rest()[0] == '-' && reader.rest()[1] != ']';
    const auto is_one = [](const Characters& c) {
      return c.size() == 1 && c[0].first == c[0].last;
    };
    if (ranges && is_one(read)) {
      reader.SkipByte();
      ERNE_ASSIGN_OR_RETURN(const Characters last, read_one());
      if (!is_one(last) || last[0].first < read[0].first) {
        return reader.Fault("a range that is out of order");
      }
      read[0].last = last[0].first;
    }
    characters.insert(characters.end(), read.begin(), read.end());
  }
  return negated ? Complement(characters) : Normalized(characters);
}

Result<std::optional<RepeatCount>> ReadRepeat(PatternReader& reader) {
  std::optional<RepeatCount> count;
  if (reader.Skip("*")) {
    count = {0, kUnbounded};
  } else if (reader.Skip("+")) {
    count = {1, kUnbounded};
  } else if (reader.Skip("?")) {
    count = {0, 1};
  } else if (reader.Skip("{")) {
    ERNE_ASSIGN_OR_RETURN(count, ReadCounts(reader));
  }
  return count;
}

}  // namespace erne::grammar
