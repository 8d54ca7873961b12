#include "grammar/regex.h"

#include <utility>
#include <vector>

#include "base/utf8.h"

namespace erne::grammar {
namespace {

constexpr size_t kMaxBytes = 64 * 1024;
constexpr int kMaxDepth = 100;

const Characters kAll = {{0, 0x10FFFF}};
const Characters kLineFeed = {{'\n', '\n'}};

class RegexParser {
 public:
  RegexParser(std::string_view pattern, const RegexOptions& options)
      : reader_(pattern), options_(options) {}

  // Alternatives of the whole, each with its own anchors.
  Result<Expr> Parse() {
    std::vector<Expr> alternatives;
    do {
      const bool from_begin = reader_.Skip("^");
      ERNE_ASSIGN_OR_RETURN(Expr body, ParseConcat());
      const bool to_end = reader_.Skip("$");
      if (to_end && !reader_.done() && reader_.peek() != '|') {
        return reader_.Fault("'$' before the end of an alternative is not supported");
      }
      if (options_.search) {
        const Expr anything = Repeat(options_.spell(kAll), 0, kUnbounded);
        std::vector<Expr> parts;
        if (!from_begin) parts.push_back(anything);
        parts.push_back(std::move(body));
        if (!to_end) parts.push_back(anything);
        body = Concat(std::move(parts));
      }
      alternatives.push_back(std::move(body));
    } while (reader_.Skip("|"));
    if (!reader_.done()) return reader_.Fault("')' without '('");
    return Choice(std::move(alternatives));
  }

 private:
  Result<Expr> ParseChoice() {
    std::vector<Expr> alternatives;
    do {
      ERNE_ASSIGN_OR_RETURN(Expr alternative, ParseConcat());
      alternatives.push_back(std::move(alternative));
    } while (reader_.Skip("|"));
    return Choice(std::move(alternatives));
  }

  Result<Expr> ParseConcat() {
    std::vector<Expr> parts;
    while (!reader_.done() && reader_.peek() != '|' && reader_.peek() != ')' &&
           reader_.peek() != '$') {
      ERNE_ASSIGN_OR_RETURN(Expr part, ParseAtom());
      ERNE_ASSIGN_OR_RETURN(part, ParseRepeats(std::move(part)));
      parts.push_back(std::move(part));
    }
    return Concat(std::move(parts));
  }

  Result<Expr> ParseAtom() {
    if (reader_.Skip("(")) return ParseGroup();
    if (reader_.Skip("[")) {
      ERNE_ASSIGN_OR_RETURN(const Characters characters, ReadClass(reader_));
      return options_.spell(characters);
    }
    if (reader_.Skip(".")) return options_.spell(Complement(kLineFeed));
    if (reader_.Skip("\\")) {
      ERNE_ASSIGN_OR_RETURN(const Characters characters, ReadEscape(reader_));
      return options_.spell(characters);
    }
    switch (reader_.peek()) {
      case '*':
      case '+':
      case '?':
      case '{':
        return reader_.Fault("there is nothing to repeat");
      case '^':
        return reader_.Fault("'^' behind the beginning of an alternative is not supported");
      default: {
        const char32_t c = reader_.Take();
        return options_.spell({{c, c}});
      }
    }
  }

  Result<Expr> ParseGroup() {
    if (++depth_ > kMaxDepth) return reader_.Fault("groups are nested too deeply");
    if (reader_.Skip("?")) {
      const bool named =
          reader_.Skip("P<") || (!reader_.rest().starts_with("<=") &&
                                 !reader_.rest().starts_with("<!") && reader_.Skip("<"));
      while (named && !reader_.done() && reader_.peek() != '>') reader_.SkipByte();
      if (!reader_.Skip(named ? ">" : ":")) {
        return reader_.Fault("this kind of group (look-around, flags) is not supported");
      }
    }
    ERNE_ASSIGN_OR_RETURN(Expr body, ParseChoice());
    if (reader_.peek() == '$') return reader_.Fault("'$' in a group is not supported");
    if (!reader_.Skip(")")) return reader_.Fault("'(' without ')'");
    --depth_;
    return body;
  }

  Result<Expr> ParseRepeats(Expr part) {
    for (int times = 0; times < kMaxDepth; ++times) {
      ERNE_ASSIGN_OR_RETURN(const std::optional<RepeatCount> count, ReadRepeat(reader_));
      if (!count) return part;
      part = Repeat(std::move(part), count->min, count->max);
      reader_.Skip("?");  // lazy: the same texts
      if (reader_.peek() == '+') return reader_.Fault("possessive repeats are not supported");
    }
    return reader_.Fault("too many repeats of repeats");
  }

  PatternReader reader_;
  const RegexOptions& options_;
  int depth_ = 0;
};

}  // namespace

Result<Expr> ParseRegex(std::string_view pattern, const RegexOptions& options) {
  if (pattern.size() > kMaxBytes) return InvalidArgument("it has more than 64 KiB");
  if (FindInvalidUtf8(pattern) != std::string_view::npos) return InvalidArgument("it is not UTF-8");
  return RegexParser(pattern, options).Parse();
}

}  // namespace erne::grammar
