#include "grammar/json_text.h"

#include <string>
#include <utility>

namespace erne::grammar {
namespace {

const Characters kEscaped = {{0, 0x1F}, {'"', '"'}, {'\\', '\\'}};
constexpr int64_t kMaxIndent = 16;

bool Holds(const Characters& characters, char32_t c) {
  for (const CodePointRange& range : characters) {
    if (c >= range.first && c <= range.last) return true;
  }
  return false;
}

Expr HexDigits(int64_t count) {
  return Repeat(CodePoints(Characters{{'0', '9'}, {'A', 'F'}, {'a', 'f'}}), count, count);
}

// \uXXXX for any character; two of them for one beyond U+FFFF, as models write emoji.
Expr UnicodeEscape() {
  const Expr d = CodePoints(Characters{{'D', 'D'}, {'d', 'd'}});
  const Expr no_surrogate = Choice(
      {Concat({CodePoints(Characters{{'0', '9'}, {'A', 'C'}, {'E', 'F'}, {'a', 'c'}, {'e', 'f'}}),
               HexDigits(3)}),
       Concat({d, CodePoints(Characters{{'0', '7'}}), HexDigits(2)})});
  const Expr pair =
      Concat({d, CodePoints(Characters{{'8', '9'}, {'A', 'B'}, {'a', 'b'}}), HexDigits(2),
              Literal("\\u"), d, CodePoints(Characters{{'C', 'F'}, {'c', 'f'}}), HexDigits(2)});
  return Concat({Literal("\\u"), Choice({no_surrogate, pair})});
}

}  // namespace

Expr SpellInJson(const Characters& characters) {
  std::vector<Expr> ways;
  // Plain ones: all that are not among the others.
  const Characters others = Complement(characters);
  Characters excluded = others;
  excluded.insert(excluded.end(), kEscaped.begin(), kEscaped.end());
  ways.push_back(CodePointsBut(excluded));
  for (const CodePointRange& range : kEscaped) {
    for (char32_t c = range.first; c <= range.last; ++c) {
      if (!Holds(characters, c)) continue;
      std::string spelled;
      AppendJsonString(std::string(1, static_cast<char>(c)), spelled);
      ways.push_back(Literal(std::string_view(spelled).substr(1, spelled.size() - 2)));
    }
  }
  return Choice(std::move(ways));
}

Expr Quoted(Expr body) { return Concat({Literal("\""), std::move(body), Literal("\"")}); }

Expr LineSpace() { return Optional(Concat({Literal("\n"), Repeat(Literal(" "), 0, kMaxIndent)})); }

Expr Gap() { return Optional(Literal(" ")); }

Expr Comma() { return Concat({Literal(","), Choice({Gap(), LineSpace()})}); }

Expr Enclosed(char open, Expr parts, bool may_be_empty, char close) {
  Expr inner = Concat({LineSpace(), std::move(parts), LineSpace()});
  if (may_be_empty) inner = Optional(std::move(inner));
  return Concat({Literal(std::string(1, open)), std::move(inner), Literal(std::string(1, close))});
}

Expr Listed(const Expr& item, int64_t min, int64_t max) {
  return Concat(
      {item, Repeat(Concat({Comma(), item}), min - 1, max == kUnbounded ? max : max - 1)});
}

Expr JsonLiteral(const Json& value) {
  if (!value.is_array() && !value.is_object()) return Literal(value.Dump());
  std::vector<Expr> parts;
  const auto add = [&parts](Expr part) {
    if (!parts.empty()) parts.push_back(Comma());
    parts.push_back(std::move(part));
  };
  if (value.is_array()) {
    for (const Json& item : value.AsArray()) add(JsonLiteral(item));
    return parts.empty() ? Literal("[]") : Enclosed('[', Concat(std::move(parts)), false, ']');
  }
  for (const auto& [name, member] : value.AsObject()) {
    add(Concat({JsonLiteral(name), Literal(":"), Gap(), JsonLiteral(member)}));
  }
  return parts.empty() ? Literal("{}") : Enclosed('{', Concat(std::move(parts)), false, '}');
}

Expr JsonRules::String() {
  if (string_ < 0) {
    string_ = grammar_.Declare("(string)");
    const Expr character = Choice({CodePointsBut(kEscaped), Literal("\\\""), Literal("\\\\"),
                                   Literal("\\/"), Literal("\\b"), Literal("\\f"), Literal("\\n"),
                                   Literal("\\r"), Literal("\\t"), UnicodeEscape()});
    grammar_.Define(string_, Quoted(Repeat(character, 0, kUnbounded)));
  }
  return Call(string_);
}

Expr JsonRules::NameBut(const std::vector<std::string>& taken) {
  const Expr free = Quoted(Repeat(CodePointsBut(kEscaped), 0, kUnbounded));
  if (taken.empty()) {
    if (name_ < 0) {
      name_ = grammar_.Declare("(name)");
      grammar_.Define(name_, free);
    }
    return Call(name_);
  }
  std::vector<Expr> names;
  for (const std::string& name : taken) names.push_back(JsonLiteral(name));
  const int32_t rule = grammar_.Declare("(another name)");
  grammar_.Define(rule, Without(free, Choice(std::move(names))));
  return Call(rule);
}

Expr JsonRules::ObjectAt(size_t depth) {
  if (depth + 1 == kMaxDepth) return Literal("{}");
  const Expr member = Concat({NameBut({}), Literal(":"), Gap(), ValueAt(depth + 1)});
  return Enclosed('{', Listed(member, 1, kUnbounded), /*may_be_empty=*/true, '}');
}

Expr JsonRules::ArrayAt(size_t depth) {
  if (depth + 1 == kMaxDepth) return Literal("[]");
  return Enclosed('[', Listed(ValueAt(depth + 1), 1, kUnbounded), /*may_be_empty=*/true, ']');
}

Expr JsonRules::ValueAt(size_t depth) {
  while (values_.size() <= depth) values_.push_back(-1);
  if (values_[depth] < 0) {
    const int32_t rule = grammar_.Declare("(value)");
    values_[depth] = rule;
    grammar_.Define(rule, Choice({ObjectAt(depth), ArrayAt(depth), String(), NumberText({}),
                                  Literal("true"), Literal("false"), Literal("null")}));
  }
  return Call(values_[depth]);
}

}  // namespace erne::grammar
