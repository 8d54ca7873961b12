#include "grammar/ebnf.h"

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/strings.h"
#include "base/utf8.h"
#include "grammar/characters.h"

namespace erne::grammar {
namespace {

constexpr size_t kMaxBytes = 256 * 1024;
constexpr size_t kMaxRules = 4096;
constexpr int kMaxDepth = 100;

const Characters kAll = {{0, 0x10FFFF}};

bool IsNameByte(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         c == '-';
}

class EbnfParser {
 public:
  explicit EbnfParser(std::string_view text) : reader_(text) {}

  Result<Grammar> Parse() {
    Find("root");  // rule 0
    SkipSpace();
    while (!reader_.done()) {
      const std::string name = ReadName();
      if (name.empty()) return reader_.Fault("expected the name of a rule");
      SkipSpace();
      if (!reader_.Skip("::=")) return reader_.Fault("expected ::=");
      ERNE_ASSIGN_OR_RETURN(Expr body, ParseChoice());
      const int32_t rule = Find(name);
      if (grammar_.rules[static_cast<size_t>(rule)].body != nullptr) {
        return reader_.Fault(StrCat("rule ", name, " is defined twice, before"));
      }
      grammar_.Define(rule, std::move(body));
      if (grammar_.rules.size() > kMaxRules) {
        return InvalidArgument(StrCat("it has more than ", kMaxRules, " rules"));
      }
    }
    if (grammar_.rules[0].body == nullptr) return InvalidArgument("there is no rule root");
    return std::move(grammar_);
  }

 private:
  int32_t Find(const std::string& name) {
    const auto at = rules_.find(name);
    if (at != rules_.end()) return at->second;
    const int32_t rule = grammar_.Declare(name);
    rules_.emplace(name, rule);
    return rule;
  }

  void SkipSpace() {
    while (!reader_.done()) {
      const char c = reader_.peek();
      if (c == '#') {
        while (!reader_.done() && reader_.peek() != '\n') reader_.SkipByte();
      } else if (c == ' ' || c == '\t' || c == '\r' || c == '\n') {
        reader_.SkipByte();
      } else {
        return;
      }
    }
  }

  std::string ReadName() {
    std::string name;
    while (!reader_.done() && IsNameByte(reader_.peek())) {
      name += reader_.peek();
      reader_.SkipByte();
    }
    return name;
  }

  // Whether a new rule begins here.
  bool AtRule() {
    PatternReader ahead = reader_;
    const bool named = !ReadName().empty();
    SkipSpace();
    const bool defines = named && reader_.Skip("::=");
    reader_ = ahead;
    return defines;
  }

  Result<Expr> ParseChoice() {
    std::vector<Expr> alternatives;
    do {
      ERNE_ASSIGN_OR_RETURN(Expr alternative, ParseConcat());
      alternatives.push_back(std::move(alternative));
    } while (reader_.Skip("|"));
    return Choice(std::move(alternatives));
  }

  // Leaves the reader behind white space.
  Result<Expr> ParseConcat() {
    std::vector<Expr> parts;
    while (true) {
      SkipSpace();
      if (reader_.done() || reader_.peek() == '|' || reader_.peek() == ')' || AtRule()) {
        return Concat(std::move(parts));
      }
      ERNE_ASSIGN_OR_RETURN(Expr part, ParseAtom());
      ERNE_ASSIGN_OR_RETURN(part, ParseRepeats(std::move(part)));
      parts.push_back(std::move(part));
    }
  }

  Result<Expr> ParseAtom() {
    if (reader_.Skip("\"")) return ParseText();
    if (reader_.Skip(".")) return CodePoints(kAll);
    if (reader_.Skip("[")) {
      ERNE_ASSIGN_OR_RETURN(const Characters characters, ReadClass(reader_));
      return CodePoints(characters);
    }
    if (reader_.Skip("(")) {
      if (++depth_ > kMaxDepth) return reader_.Fault("groups are nested too deeply");
      ERNE_ASSIGN_OR_RETURN(Expr body, ParseChoice());
      if (!reader_.Skip(")")) return reader_.Fault("'(' without ')'");
      --depth_;
      return body;
    }
    const std::string name = ReadName();
    if (name.empty()) return reader_.Fault("expected a text, a class, a group or a rule");
    return Call(Find(name));
  }

  Result<Expr> ParseText() {
    std::vector<Expr> parts;
    while (!reader_.Skip("\"")) {
      if (reader_.done()) return reader_.Fault("a text without its closing quote");
      Characters one;
      if (reader_.Skip("\\")) {
        ERNE_ASSIGN_OR_RETURN(one, ReadEscape(reader_));
      } else {
        const char32_t c = reader_.Take();
        one = {{c, c}};
      }
      parts.push_back(CodePoints(one));
    }
    return Concat(std::move(parts));
  }

  Result<Expr> ParseRepeats(Expr part) {
    for (int times = 0; times < kMaxDepth; ++times) {
      ERNE_ASSIGN_OR_RETURN(const std::optional<RepeatCount> count, ReadRepeat(reader_));
      if (!count) return part;
      part = Repeat(std::move(part), count->min, count->max);
    }
    return reader_.Fault("too many repeats of repeats");
  }

  PatternReader reader_;
  Grammar grammar_;
  std::map<std::string, int32_t> rules_;
  int depth_ = 0;
};

}  // namespace

Result<Grammar> ParseEbnf(std::string_view text) {
  if (text.size() > kMaxBytes) return InvalidArgument("it has more than 256 KiB");
  if (FindInvalidUtf8(text) != std::string_view::npos) return InvalidArgument("it is not UTF-8");
  return EbnfParser(text).Parse();
}

}  // namespace erne::grammar
