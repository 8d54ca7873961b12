#include "chat/jinja/expression_parser.h"

#include <utility>

namespace erne::jinja {

ExprPtr ExpressionParser::ParseTuple(bool with_conditional, std::string_view end_word) {
  const int line = Line();
  const auto at_end = [&] {
    return Current().kind == TokenKind::kVariableEnd || Current().kind == TokenKind::kBlockEnd ||
           AtOperator(")") || (!end_word.empty() && AtWord(end_word));
  };
  const ParsePart part =
      with_conditional ? &ExpressionParser::ParseConditional : &ExpressionParser::ParseOr;
  if (at_end()) Error(StrCat("expected an expression, got ", Describe(Current())));
  ExprPtr first = (this->*part)();
  if (!AtOperator(",")) return first;
  auto tuple = std::make_unique<ItemsExpr>(ExprKind::kTuple, line);
  tuple->Covers(first.get());
  tuple->items.push_back(std::move(first));
  while (SkipOperator(",")) {
    if (at_end()) break;
    tuple->items.push_back((this->*part)());
    tuple->Covers(tuple->items.back().get());
  }
  return Checked(std::move(tuple));
}

ExprPtr ExpressionParser::ParseConditional() {
  const Level level(*this);
  int line = Line();
  ExprPtr expr = ParseOr();
  while (AtWord("if")) {
    Advance();
    ++conditional_depth_;
    auto conditional = std::make_unique<ConditionalExpr>(line);
    conditional->then = std::move(expr);
    conditional->test = ParseOr();
    if (SkipWord("else")) conditional->otherwise = ParseConditional();
    --conditional_depth_;
    conditional->Covers(conditional->then.get());
    conditional->Covers(conditional->test.get());
    conditional->Covers(conditional->otherwise.get());
    expr = Checked(std::move(conditional));
    line = Line();
  }
  return expr;
}

ExprPtr ExpressionParser::ParseOr() { return ParseLogic(false, &ExpressionParser::ParseAnd); }

ExprPtr ExpressionParser::ParseAnd() { return ParseLogic(true, &ExpressionParser::ParseNot); }

ExprPtr ExpressionParser::ParseLogic(bool is_and, ParsePart part) {
  const char* word = is_and ? "and" : "or";
  const int line = Line();
  ExprPtr first = (this->*part)();
  if (!AtWord(word)) return first;
  auto logic = std::make_unique<LogicExpr>(line, is_and);
  logic->Covers(first.get());
  logic->parts.push_back(std::move(first));
  while (SkipWord(word)) {
    logic->parts.push_back((this->*part)());
    logic->Covers(logic->parts.back().get());
  }
  return Checked(std::move(logic));
}

ExprPtr ExpressionParser::ParseNot() {
  if (!AtWord("not")) return ParseCompare();
  const Level level(*this);
  const int line = Advance().line;
  return Checked(std::make_unique<UnaryExpr>(line, UnaryExpr::Op::kNot, ParseNot()));
}

bool ExpressionParser::TakeCompareOperator(CompareExpr::Op& op) {
  using Op = CompareExpr::Op;
  constexpr std::pair<const char*, Op> kOperators[] = {
      {"==", Op::kEqual},     {"!=", Op::kNotEqual}, {"<", Op::kLess},
      {"<=", Op::kLessEqual}, {">", Op::kGreater},   {">=", Op::kGreaterEqual}};
  for (const auto& [symbol, candidate] : kOperators) {
    if (SkipOperator(symbol)) {
      op = candidate;
      return true;
    }
  }
  if (SkipWord("in")) {
    op = Op::kIn;
    return true;
  }
  if (AtWord("not") && IsWord(Ahead(), "in")) {
    Advance();
    Advance();
    op = Op::kNotIn;
    return true;
  }
  return false;
}

ExprPtr ExpressionParser::ParseCompare() {
  const int line = Line();
  ExprPtr first = ParseSum();
  CompareExpr::Op op{};
  if (!TakeCompareOperator(op)) return first;
  auto compare = std::make_unique<CompareExpr>(line);
  compare->Covers(first.get());
  compare->first = std::move(first);
  do {
    compare->rest.emplace_back(op, ParseSum());
    compare->Covers(compare->rest.back().second.get());
  } while (TakeCompareOperator(op));
  return Checked(std::move(compare));
}

ExprPtr ExpressionParser::ParseLeftChain(ParsePart part,
                                         std::span<const BinaryOperator> operators) {
  const int line = Line();
  ExprPtr first = (this->*part)();
  std::unique_ptr<ArithmeticExpr> chain;
  while (true) {
    ArithmeticExpr::Function function = nullptr;
    for (const BinaryOperator& one : operators) {
      if (AtOperator(one.symbol)) function = one.function;
    }
    if (function == nullptr) break;
    Advance();
    if (chain == nullptr) {
      chain = std::make_unique<ArithmeticExpr>(line);
      chain->Covers(first.get());
      chain->first = std::move(first);
    }
    chain->rest.emplace_back(function, (this->*part)());
    chain->Covers(chain->rest.back().second.get());
  }
  if (chain == nullptr) return first;
  return Checked(std::move(chain));
}

ExprPtr ExpressionParser::ParseSum() {
  constexpr BinaryOperator kOperators[] = {{"+", Add}, {"-", Subtract}};
  return ParseLeftChain(&ExpressionParser::ParseConcat, kOperators);
}

ExprPtr ExpressionParser::ParseConcat() {
  const int line = Line();
  ExprPtr first = ParseProduct();
  if (!AtOperator("~")) return first;
  auto concat = std::make_unique<ItemsExpr>(ExprKind::kConcat, line);
  concat->Covers(first.get());
  concat->items.push_back(std::move(first));
  while (SkipOperator("~")) {
    concat->items.push_back(ParseProduct());
    concat->Covers(concat->items.back().get());
  }
  return Checked(std::move(concat));
}

ExprPtr ExpressionParser::ParseProduct() {
  constexpr BinaryOperator kOperators[] = {
      {"*", Multiply}, {"/", Divide}, {"//", FloorDivide}, {"%", Modulo}};
  return ParseLeftChain(&ExpressionParser::ParsePower, kOperators);
}

// Jinja's ** groups from the left, unlike Python's.
ExprPtr ExpressionParser::ParsePower() {
  constexpr BinaryOperator kOperators[] = {{"**", Power}};
  return ParseLeftChain(&ExpressionParser::ParseFiltered, kOperators);
}

ExprPtr ExpressionParser::ParseFiltered() { return ParseFilterChain(ParseUnary()); }

ExprPtr ExpressionParser::ParseUnary() {
  ExprPtr expr;
  if (AtOperator("-") || AtOperator("+")) {
    const Level level(*this);
    const auto op = AtOperator("-") ? UnaryExpr::Op::kNegate : UnaryExpr::Op::kPlus;
    const int line = Advance().line;
    expr = Checked(std::make_unique<UnaryExpr>(line, op, ParseUnary()));
  } else {
    expr = ParsePrimary();
  }
  return ParsePostfix(std::move(expr));
}

ExprPtr ExpressionParser::ParsePrimary() {
  const int line = Line();
  switch (Current().kind) {
    case TokenKind::kName:
      return ParseName();
    case TokenKind::kString: {
      std::string text;
      while (Current().kind == TokenKind::kString) text += Advance().text;
      return std::make_unique<ConstantExpr>(line, Value(Text(std::move(text), true)));
    }
    case TokenKind::kInteger:
      return std::make_unique<ConstantExpr>(line, Value(Advance().integer));
    case TokenKind::kFloat:
      return std::make_unique<ConstantExpr>(line, Value(Advance().number));
    default:
      break;
  }
  if (AtOperator("(")) return ParseParentheses();
  if (AtOperator("[")) return ParseList();
  if (AtOperator("{")) return ParseDict();
  Error(StrCat("expected an expression, got ", Describe(Current())));
}

ExprPtr ExpressionParser::ParseName() {
  const Token& token = Advance();
  const std::string& name = token.text;
  if (name == "true" || name == "True")
    return std::make_unique<ConstantExpr>(token.line, Value(true));
  if (name == "false" || name == "False")
    return std::make_unique<ConstantExpr>(token.line, Value(false));
  if (name == "none" || name == "None")
    return std::make_unique<ConstantExpr>(token.line, Value(Value::None{}));
  for (MacroDefinition* macro : macros_) {
    macro->uses_varargs |= name == "varargs";
    macro->uses_kwargs |= name == "kwargs";
    macro->uses_caller |= name == "caller";
  }
  return std::make_unique<NameExpr>(token.line, Intern(name));
}

ExprPtr ExpressionParser::ParseParentheses() {
  const int line = Line();
  ExpectOperator("(");
  if (SkipOperator(")")) return std::make_unique<ItemsExpr>(ExprKind::kTuple, line);
  ExprPtr expr = ParseTuple(true);
  ExpectOperator(")");
  return expr;
}

ExprPtr ExpressionParser::ParseList() {
  auto list = std::make_unique<ItemsExpr>(ExprKind::kList, Line());
  ExpectOperator("[");
  while (!AtOperator("]")) {
    if (!list->items.empty()) ExpectOperator(",");
    if (AtOperator("]")) break;
    list->items.push_back(ParseExpression());
    list->Covers(list->items.back().get());
  }
  ExpectOperator("]");
  return Checked(std::move(list));
}

ExprPtr ExpressionParser::ParseDict() {
  auto dict = std::make_unique<DictExpr>(Line());
  ExpectOperator("{");
  while (!AtOperator("}")) {
    if (!dict->items.empty()) ExpectOperator(",");
    if (AtOperator("}")) break;
    ExprPtr key = ParseExpression();
    ExpectOperator(":");
    ExprPtr value = ParseExpression();
    dict->Covers(key.get());
    dict->Covers(value.get());
    dict->items.emplace_back(std::move(key), std::move(value));
  }
  ExpectOperator("}");
  return Checked(std::move(dict));
}

ExprPtr ExpressionParser::ParsePostfix(ExprPtr expr) {
  while (true) {
    if (AtOperator(".") || AtOperator("[")) {
      expr = ParseSubscript(std::move(expr));
    } else if (AtOperator("(")) {
      expr = ParseCall(std::move(expr));
    } else {
      return expr;
    }
  }
}

ExprPtr ExpressionParser::ParseFilterChain(ExprPtr expr) {
  while (true) {
    if (AtOperator("|")) {
      Advance();
      expr = ParseFilter(std::move(expr));
    } else if (AtWord("is")) {
      expr = ParseTest(std::move(expr));
    } else if (AtOperator("(")) {
      expr = ParseCall(std::move(expr));
    } else {
      return expr;
    }
  }
}

ExprPtr ExpressionParser::ParseSubscript(ExprPtr object) {
  const int line = Line();
  if (SkipOperator(".")) {
    if (Current().kind == TokenKind::kName) {
      return Checked(std::make_unique<AttributeExpr>(line, std::move(object), Advance().text));
    }
    if (Current().kind != TokenKind::kInteger) Error("expected a name or a number after '.'");
    auto key = std::make_unique<ConstantExpr>(line, Value(Advance().integer));
    return Checked(std::make_unique<ItemExpr>(line, std::move(object), std::move(key)));
  }
  ExpectOperator("[");
  if (AtOperator("]")) Error("expected an expression between '[' and ']'");
  ExprPtr start;
  if (!AtOperator(":")) start = ParseExpression();
  if (AtOperator(",")) Error("subscripts with ',' are not supported");
  if (SkipOperator("]")) {
    return Checked(std::make_unique<ItemExpr>(line, std::move(object), std::move(start)));
  }
  ExpectOperator(":");
  auto slice = std::make_unique<SliceExpr>(line);
  slice->object = std::move(object);
  slice->start = std::move(start);
  if (!AtOperator(":") && !AtOperator("]")) slice->stop = ParseExpression();
  if (SkipOperator(":") && !AtOperator("]")) slice->step = ParseExpression();
  ExpectOperator("]");
  for (const ExprPtr* part : {&slice->object, &slice->start, &slice->stop, &slice->step}) {
    slice->Covers(part->get());
  }
  return Checked(std::move(slice));
}

Arguments ExpressionParser::ParseArguments() {
  Arguments arguments;
  ExpectOperator("(");
  bool first = true;
  while (!AtOperator(")")) {
    if (!first) {
      ExpectOperator(",");
      if (AtOperator(")")) break;
    }
    first = false;
    const Token& token = Current();
    if (arguments.star_star != nullptr) ErrorAt(token, "an argument follows **");
    if (SkipOperator("**")) {
      arguments.star_star = ParseExpression();
    } else if (SkipOperator("*")) {
      if (arguments.star != nullptr) ErrorAt(token, "a call has two * arguments");
      arguments.star = ParseExpression();
    } else if (token.kind == TokenKind::kName && IsOperator(Ahead(), "=")) {
      std::string name = Advance().text;
      Advance();
      for (const auto& [other, value] : arguments.named) {
        if (other.view() == name) ErrorAt(token, StrCat("argument '", name, "' is given twice"));
      }
      arguments.named.emplace_back(Text(std::move(name), true), ParseExpression());
    } else {
      if (arguments.star != nullptr || !arguments.named.empty()) {
        ErrorAt(token, "a positional argument follows a named one");
      }
      arguments.positional.push_back(ParseExpression());
    }
  }
  ExpectOperator(")");
  return arguments;
}

void ExpressionParser::CoverArguments(Expr& expr, const Arguments& arguments) {
  for (const ExprPtr& value : arguments.positional) expr.Covers(value.get());
  for (const auto& [name, value] : arguments.named) expr.Covers(value.get());
  expr.Covers(arguments.star.get());
  expr.Covers(arguments.star_star.get());
}

ExprPtr ExpressionParser::ParseCall(ExprPtr callee) {
  auto call = std::make_unique<CallExpr>(Line());
  call->arguments = ParseArguments();
  call->callee = std::move(callee);
  call->Covers(call->callee.get());
  CoverArguments(*call, call->arguments);
  return Checked(std::move(call));
}

ExprPtr ExpressionParser::ParseFilters(ExprPtr input) {
  while (SkipOperator("|")) input = ParseFilter(std::move(input));
  return input;
}

ExprPtr ExpressionParser::ParseFilter(ExprPtr input) {
  const Token& token = Current();
  auto filter = std::make_unique<FilterExpr>(token.line);
  filter->name = ExpectName();
  while (SkipOperator(".")) filter->name.append(".").append(ExpectName());
  filter->function = FindFilter(filter->name);
  if (filter->function == nullptr && conditional_depth_ == 0) {
    ErrorAt(token, StrCat("no filter named '", filter->name, "'"));
  }
  if (AtOperator("(")) filter->arguments = ParseArguments();
  filter->input = std::move(input);
  filter->Covers(filter->input.get());
  CoverArguments(*filter, filter->arguments);
  return Checked(std::move(filter));
}

bool ExpressionParser::AtTestArgument() const {
  switch (Current().kind) {
    case TokenKind::kString:
    case TokenKind::kInteger:
    case TokenKind::kFloat:
      return true;
    case TokenKind::kName:
      return !AtWord("else") && !AtWord("or") && !AtWord("and");
    default:
      return AtOperator("[") || AtOperator("{");
  }
}

ExprPtr ExpressionParser::ParseTest(ExprPtr input) {
  ExpectWord("is");
  const bool negated = SkipWord("not");
  const Token& token = Current();
  auto test = std::make_unique<TestExpr>(token.line);
  test->name = ExpectName();
  while (SkipOperator(".")) test->name.append(".").append(ExpectName());
  test->function = FindTest(test->name);
  if (test->function == nullptr && conditional_depth_ == 0) {
    ErrorAt(token, StrCat("no test named '", test->name, "'"));
  }
  if (AtOperator("(")) {
    test->arguments = ParseArguments();
  } else if (AtTestArgument()) {
    if (AtWord("is")) Error("tests cannot be chained with 'is'");
    test->arguments.positional.push_back(ParsePostfix(ParsePrimary()));
  }
  test->input = std::move(input);
  test->Covers(test->input.get());
  CoverArguments(*test, test->arguments);
  const int line = test->line;
  ExprPtr expr = Checked(std::move(test));
  if (!negated) return expr;
  return Checked(std::make_unique<UnaryExpr>(line, UnaryExpr::Op::kNot, std::move(expr)));
}

void ExpressionParser::CheckAssignable(const Token& token) {
  for (const char* constant : {"true", "True", "false", "False", "none", "None"}) {
    if (IsWord(token, constant)) ErrorAt(token, StrCat("cannot assign to '", token.text, "'"));
  }
}

Target ExpressionParser::ParseTargetPart(bool with_namespace) {
  const Level level(*this);
  if (SkipOperator("(")) {
    Target target = ParseTarget(with_namespace);
    ExpectOperator(")");
    return target;
  }
  const Token& token = Current();
  if (token.kind != TokenKind::kName) {
    ErrorAt(token, StrCat("cannot assign to ", Describe(token)));
  }
  CheckAssignable(token);
  Target target;
  target.name = Intern(Advance().text);
  if (with_namespace && SkipOperator(".")) {
    target.kind = Target::Kind::kNamespaceAttribute;
    target.attribute = ExpectName();
  }
  return target;
}

Target ExpressionParser::ParseTarget(bool with_namespace, std::string_view end_word) {
  Target first = ParseTargetPart(with_namespace);
  if (!AtOperator(",")) return first;
  Target tuple;
  tuple.kind = Target::Kind::kTuple;
  tuple.parts.push_back(std::move(first));
  while (SkipOperator(",")) {
    if (Current().kind != TokenKind::kName && !AtOperator("(")) break;
    if (!end_word.empty() && AtWord(end_word)) break;
    tuple.parts.push_back(ParseTargetPart(with_namespace));
  }
  return tuple;
}

}  // namespace erne::jinja
