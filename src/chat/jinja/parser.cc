#include "chat/jinja/parser.h"

#include <initializer_list>
#include <string>
#include <utility>

#include "chat/jinja/expression_parser.h"

namespace erne::jinja {
namespace {

class Parser : private ExpressionParser {
 public:
  Parser(std::vector<Token> tokens, const TemplateLimits& limits)
      : ExpressionParser(std::move(tokens), limits) {}

  Program Run() {
    Program program;
    ParseInto(program.body, {}, "");
    program.names = TakeNames();
    return program;
  }

 private:
  // Statements up to the tag that begins with one of `ends`, whose name is then the current token.
  // Without ends, up to the end of the template. `opened` names the block and its line for the
  // error message.
  void ParseInto(Body& body, std::initializer_list<std::string_view> ends,
                 std::string_view opened) {
    const Level level(*this);
    while (Current().kind != TokenKind::kEnd) {
      const int line = Line();
      if (Current().kind == TokenKind::kData) {
        body.push_back(std::make_unique<TextStatement>(line, Text(Advance().text, true)));
      } else if (Current().kind == TokenKind::kVariableBegin) {
        Advance();
        body.push_back(std::make_unique<PrintStatement>(line, ParseTuple(true)));
        ExpectKind(TokenKind::kVariableEnd);
      } else {
        ExpectKind(TokenKind::kBlockBegin);
        for (const std::string_view end : ends) {
          if (AtWord(end)) return;
        }
        ParseStatement(body, ends);
        ExpectKind(TokenKind::kBlockEnd);
      }
    }
    if (ends.size() > 0) {
      Error(StrCat("the template ends inside of ", opened, ": expected '", *(ends.end() - 1), "'"));
    }
  }

  // The body of a block, from the end of its opening tag on.
  void ParseBlock(Body& body, std::initializer_list<std::string_view> ends, const Token& opening) {
    SkipOperator(":");  // Jinja allows Python's colon
    ExpectKind(TokenKind::kBlockEnd);
    ParseInto(body, ends, StrCat("'", opening.text, "' of line ", opening.line));
  }

  void ParseStatement(Body& body, std::initializer_list<std::string_view> ends) {
    const Token& token = Current();
    if (token.kind != TokenKind::kName)
      Error(StrCat("expected the name of a tag, got ", Describe(token)));
    using Method = void (Parser::*)(Body&);
    static constexpr std::pair<std::string_view, Method> kStatements[] = {
        {"if", &Parser::ParseIf},
        {"for", &Parser::ParseFor},
        {"set", &Parser::ParseSet},
        {"macro", &Parser::ParseMacro},
        {"call", &Parser::ParseCallBlock},
        {"filter", &Parser::ParseFilterBlock},
        {"with", &Parser::ParseWith},
        {"generation", &Parser::ParseGeneration},
        {"print", &Parser::ParsePrint},
        {"break", &Parser::ParseBreak},
        {"continue", &Parser::ParseContinue}};
    for (const auto& [word, parse] : kStatements) {
      if (token.text == word) return (this->*parse)(body);
    }
    for (const std::string_view known :
         {"extends", "block", "include", "import", "from", "autoescape", "do", "trans"}) {
      if (token.text == known) {
        Error(StrCat("the tag '", known, "' is not supported in chat templates"));
      }
    }
    std::string expected;
    for (const std::string_view end : ends)
      expected += StrCat(expected.empty() ? "" : " or ", "'", end, "'");
    Error(
        StrCat("unknown tag '", token.text, "'", expected.empty() ? "" : ", expected ", expected));
  }

  void ParseIf(Body& body) {
    const Token& opening = Advance();
    auto statement = std::make_unique<IfStatement>(opening.line);
    ++conditional_depth_;
    while (true) {
      auto& [test, branch] = statement->branches.emplace_back();
      test = ParseTuple(false);
      ParseBlock(branch, {"elif", "else", "endif"}, opening);
      if (!SkipWord("elif")) break;
    }
    if (SkipWord("else")) ParseBlock(statement->otherwise, {"endif"}, opening);
    ExpectWord("endif");
    --conditional_depth_;
    body.push_back(std::move(statement));
  }

  void ParseFor(Body& body) {
    const Token& opening = Advance();
    auto statement = std::make_unique<ForStatement>(opening.line);
    statement->target = ParseTarget(false, "in");
    ExpectWord("in");
    statement->iterable = ParseTuple(false, "recursive");
    if (SkipWord("if")) statement->test = ParseExpression();
    statement->recursive = SkipWord("recursive");
    ++loops_;
    ParseBlock(statement->body, {"else", "endfor"}, opening);
    --loops_;
    if (SkipWord("else")) ParseBlock(statement->otherwise, {"endfor"}, opening);
    ExpectWord("endfor");
    body.push_back(std::move(statement));
  }

  void ParseSet(Body& body) {
    const Token& opening = Advance();
    Target target = ParseTarget(true);
    if (SkipOperator("=")) {
      auto statement = std::make_unique<SetStatement>(opening.line);
      statement->target = std::move(target);
      statement->value = ParseTuple(true);
      body.push_back(std::move(statement));
      return;
    }
    auto statement = std::make_unique<SetBlockStatement>(opening.line);
    statement->target = std::move(target);
    if (AtOperator("|")) statement->filter = ParseFilters(BlockText());
    ParseBlock(statement->body, {"endset"}, opening);
    ExpectWord("endset");
    body.push_back(std::move(statement));
  }

  // Parameters in parentheses.
  void ParseSignature(MacroDefinition& macro) {
    ExpectOperator("(");
    while (!AtOperator(")")) {
      if (!macro.parameters.empty()) ExpectOperator(",");
      const Token& token = Current();
      CheckAssignable(token);
      const NameId name = Intern(ExpectName());
      for (const auto& [other, fallback] : macro.parameters) {
        if (other == name) ErrorAt(token, StrCat("parameter '", token.text, "' is given twice"));
      }
      ExprPtr fallback;
      if (SkipOperator("=")) {
        fallback = ParseExpression();
      } else if (!macro.parameters.empty() && macro.parameters.back().second != nullptr) {
        ErrorAt(token, "a parameter without a default follows one with a default");
      }
      macro.parameters.emplace_back(name, std::move(fallback));
    }
    ExpectOperator(")");
  }

  void ParseMacroBody(MacroDefinition& macro, std::string_view end, const Token& opening) {
    macros_.push_back(&macro);
    const int loops = std::exchange(loops_, 0);
    ParseBlock(macro.body, {end}, opening);
    loops_ = loops;
    macros_.pop_back();
    ExpectWord(end);
  }

  void ParseMacro(Body& body) {
    const Token& opening = Advance();
    auto statement = std::make_unique<MacroStatement>(opening.line);
    CheckAssignable(Current());
    statement->macro.name = ExpectName();
    statement->name = Intern(statement->macro.name);
    ParseSignature(statement->macro);
    ParseMacroBody(statement->macro, "endmacro", opening);
    body.push_back(std::move(statement));
  }

  void ParseCallBlock(Body& body) {
    const Token& opening = Advance();
    auto statement = std::make_unique<CallBlockStatement>(opening.line);
    statement->caller.name = "caller";
    if (AtOperator("(")) ParseSignature(statement->caller);
    const Token& token = Current();
    statement->call = ParseExpression();
    if (statement->call->kind != ExprKind::kCall)
      ErrorAt(token, "'call' must be followed by a call");
    ParseMacroBody(statement->caller, "endcall", opening);
    body.push_back(std::move(statement));
  }

  void ParseFilterBlock(Body& body) {
    const Token& opening = Advance();
    auto statement = std::make_unique<FilterBlockStatement>(opening.line);
    statement->filter = ParseFilters(ParseFilter(BlockText()));
    ParseBlock(statement->body, {"endfilter"}, opening);
    ExpectWord("endfilter");
    body.push_back(std::move(statement));
  }

  void ParseWith(Body& body) {
    const Token& opening = Advance();
    auto statement = std::make_unique<WithStatement>(opening.line);
    while (Current().kind != TokenKind::kBlockEnd && !AtOperator(":")) {
      if (!statement->assignments.empty()) ExpectOperator(",");
      Target target = ParseTarget(false);
      ExpectOperator("=");
      statement->assignments.emplace_back(std::move(target), ParseExpression());
    }
    ParseBlock(statement->body, {"endwith"}, opening);
    ExpectWord("endwith");
    body.push_back(std::move(statement));
  }

  // transformers' mark of what the assistant wrote, for training masks: a scope that renders its
  // body.
  void ParseGeneration(Body& body) {
    const Token& opening = Advance();
    auto statement = std::make_unique<WithStatement>(opening.line);
    const int loops = std::exchange(loops_, 0);
    ParseBlock(statement->body, {"endgeneration"}, opening);
    loops_ = loops;
    ExpectWord("endgeneration");
    body.push_back(std::move(statement));
  }

  void ParsePrint(Body& body) {
    const int line = Advance().line;
    bool first = true;
    while (Current().kind != TokenKind::kBlockEnd) {
      if (!first) ExpectOperator(",");
      first = false;
      body.push_back(std::make_unique<PrintStatement>(line, ParseExpression()));
    }
  }

  void ParseJump(Body& body, StatementKind kind) {
    if (loops_ == 0) Error(StrCat("'", Current().text, "' outside of a loop"));
    body.push_back(std::make_unique<JumpStatement>(kind, Advance().line));
  }
  void ParseBreak(Body& body) { ParseJump(body, StatementKind::kBreak); }
  void ParseContinue(Body& body) { ParseJump(body, StatementKind::kContinue); }

  ExprPtr BlockText() { return std::make_unique<Expr>(ExprKind::kBlockText, Line()); }

  int loops_ = 0;  // around the current statement, within its macro
};

}  // namespace

Program Parse(std::string_view source, const TemplateLimits& limits) {
  return Parser(Tokenize(source), limits).Run();
}

}  // namespace erne::jinja
