// Expressions, by recursive descent with Jinja's precedence: conditional, or, and, not, comparison,
// + -, ~, * / // %, **, unary, postfix, filters and tests.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "chat/jinja/parser_base.h"

namespace erne::jinja {

class ExpressionParser : protected ParserBase {
 protected:
  using ParserBase::ParserBase;

  // An expression, or a tuple without parentheses. `end_word` ends a tuple after a comma ("in",
  // "recursive").
  ExprPtr ParseTuple(bool with_conditional, std::string_view end_word = "");
  ExprPtr ParseExpression() { return ParseConditional(); }
  // `| name(args) | ...` over `input`.
  ExprPtr ParseFilters(ExprPtr input);
  // One filter without its `|`.
  ExprPtr ParseFilter(ExprPtr input);
  Target ParseTarget(bool with_namespace, std::string_view end_word = "");
  static void CheckAssignable(const Token& token);

  // The macros whose bodies are being parsed, the innermost last.
  std::vector<MacroDefinition*> macros_;
  // Inside an `if`, an unknown filter or test is an error only when it is reached.
  int conditional_depth_ = 0;

 private:
  using ParsePart = ExprPtr (ExpressionParser::*)();

  ExprPtr ParseConditional();
  ExprPtr ParseOr();
  ExprPtr ParseAnd();
  // A chain of `and`s or of `or`s.
  ExprPtr ParseLogic(bool is_and, ParsePart part);
  ExprPtr ParseNot();
  ExprPtr ParseCompare();
  bool TakeCompareOperator(CompareExpr::Op& op);
  ExprPtr ParseSum();
  ExprPtr ParseConcat();
  ExprPtr ParseProduct();
  ExprPtr ParsePower();
  ExprPtr ParseFiltered();
  ExprPtr ParseUnary();
  ExprPtr ParsePrimary();
  ExprPtr ParseName();
  ExprPtr ParseParentheses();
  ExprPtr ParseList();
  ExprPtr ParseDict();
  ExprPtr ParsePostfix(ExprPtr expr);
  ExprPtr ParseFilterChain(ExprPtr expr);
  ExprPtr ParseSubscript(ExprPtr object);
  ExprPtr ParseCall(ExprPtr callee);
  ExprPtr ParseTest(ExprPtr input);
  bool AtTestArgument() const;
  Arguments ParseArguments();
  Target ParseTargetPart(bool with_namespace);
  void CoverArguments(Expr& expr, const Arguments& arguments);

  // Level by level of operators that group from the left.
  struct BinaryOperator {
    const char* symbol;
    ArithmeticExpr::Function function;
  };
  ExprPtr ParseLeftChain(ParsePart part, std::span<const BinaryOperator> operators);
};

}  // namespace erne::jinja
