// Token access, errors and depth, shared by the two halves of the parser.
#pragma once

#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "chat/jinja/ast.h"
#include "chat/jinja/error.h"
#include "chat/jinja/lexer.h"
#include "chat/template.h"

namespace erne::jinja {

class ParserBase {
 protected:
  ParserBase(std::vector<Token> tokens, const TemplateLimits& limits)
      : tokens_(std::move(tokens)), max_depth_(limits.max_depth) {}

  const Token& Current() const { return tokens_[at_]; }
  const Token& Ahead() const { return tokens_[std::min(at_ + 1, tokens_.size() - 1)]; }
  const Token& Advance() {
    const Token& token = tokens_[at_];
    if (at_ + 1 < tokens_.size()) ++at_;
    return token;
  }
  int Line() const { return Current().line; }

  static bool IsOperator(const Token& token, std::string_view text) {
    return token.kind == TokenKind::kOperator && token.text == text;
  }
  static bool IsWord(const Token& token, std::string_view text) {
    return token.kind == TokenKind::kName && token.text == text;
  }
  bool AtOperator(std::string_view text) const { return IsOperator(Current(), text); }
  bool AtWord(std::string_view text) const { return IsWord(Current(), text); }
  bool SkipOperator(std::string_view text) {
    if (!AtOperator(text)) return false;
    Advance();
    return true;
  }
  bool SkipWord(std::string_view text) {
    if (!AtWord(text)) return false;
    Advance();
    return true;
  }
  void ExpectOperator(std::string_view text) {
    if (!SkipOperator(text)) Error(StrCat("expected '", text, "', got ", Describe(Current())));
  }
  void ExpectWord(std::string_view text) {
    if (!SkipWord(text)) Error(StrCat("expected '", text, "', got ", Describe(Current())));
  }
  void ExpectKind(TokenKind kind) {
    if (Current().kind != kind) {
      Token wanted;
      wanted.kind = kind;
      Error(StrCat("expected ", Describe(wanted), ", got ", Describe(Current())));
    }
    Advance();
  }
  std::string ExpectName() {
    if (Current().kind != TokenKind::kName)
      Error(StrCat("expected a name, got ", Describe(Current())));
    return Advance().text;
  }

  static std::string Describe(const Token& token) {
    switch (token.kind) {
      case TokenKind::kData:
        return "text";
      case TokenKind::kVariableBegin:
        return "'{{'";
      case TokenKind::kVariableEnd:
        return "'}}'";
      case TokenKind::kBlockBegin:
        return "'{%'";
      case TokenKind::kBlockEnd:
        return "'%}'";
      case TokenKind::kName:
      case TokenKind::kOperator:
        return StrCat("'", token.text, "'");
      case TokenKind::kString:
        return "a string";
      case TokenKind::kInteger:
      case TokenKind::kFloat:
        return "a number";
      case TokenKind::kEnd:
        return "the end of the template";
    }
    return "?";
  }

  [[noreturn]] static void ErrorAt(const Token& token, std::string message) {
    throw SyntaxError{std::move(message), token.line, token.column};
  }
  [[noreturn]] void Error(std::string message) const { ErrorAt(Current(), std::move(message)); }

  // A level of native recursion: every expression within another one (parentheses, arguments,
  // subscripts) and every block takes one.
  class Level {
   public:
    explicit Level(ParserBase& parser) : parser_(parser) {
      if (++parser.depth_ > parser.max_depth_) parser.TooDeep();
    }
    ~Level() { --parser_.depth_; }
    Level(const Level&) = delete;
    Level& operator=(const Level&) = delete;

   private:
    ParserBase& parser_;
  };
  [[noreturn]] void TooDeep() const { Error(StrCat("nested deeper than ", max_depth_)); }

  // Every expression passes here once complete; long chains of filters and subscripts nest without
  // recursion.
  template <typename E>
  std::unique_ptr<E> Checked(std::unique_ptr<E> expr) const {
    if (expr->depth > max_depth_) TooDeep();
    return expr;
  }

  NameId Intern(const std::string& name) {
    const auto [it, is_new] = ids_.emplace(name, static_cast<NameId>(names_.size()));
    if (is_new) names_.push_back(name);
    return it->second;
  }
  std::vector<std::string> TakeNames() { return std::move(names_); }

 private:
  std::vector<Token> tokens_;
  size_t at_ = 0;
  int max_depth_;
  int depth_ = 0;
  std::vector<std::string> names_;
  std::unordered_map<std::string, NameId> ids_;
};

}  // namespace erne::jinja
