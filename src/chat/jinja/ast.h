// The syntax tree of a template. Immutable once parsed, and shared by all renderings.
//
// Chains (a + b - c, a ~ b, a and b, a < b < c) are one node with many parts, so that depth grows
// with parentheses only; the parser bounds the depth, and with it every recursion over the tree.
#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "chat/jinja/builtins.h"
#include "chat/jinja/operators.h"
#include "chat/jinja/value.h"

namespace erne::jinja {

// Names are numbers: indices into Program::names.
using NameId = int;

enum class ExprKind {
  kConstant,
  kName,
  kList,
  kTuple,
  kDict,
  kUnary,
  kArithmetic,
  kConcat,
  kLogic,
  kCompare,
  kConditional,
  kAttribute,
  kItem,
  kSlice,
  kCall,
  kFilter,
  kTest,
  kBlockText,
};

struct Expr {
  Expr(ExprKind kind_in, int line_in) : kind(kind_in), line(line_in) {}
  virtual ~Expr() = default;
  Expr(const Expr&) = delete;
  Expr& operator=(const Expr&) = delete;

  const ExprKind kind;
  const int line;
  int depth = 1;  // 1 more than the deepest part

  // Registers a part (which may be null) in the depth.
  void Covers(const Expr* part) {
    if (part != nullptr) depth = std::max(depth, part->depth + 1);
  }
};
using ExprPtr = std::unique_ptr<Expr>;

struct ConstantExpr : Expr {
  ConstantExpr(int line_in, Value value_in)
      : Expr(ExprKind::kConstant, line_in), value(std::move(value_in)) {}
  Value value;
};

struct NameExpr : Expr {
  NameExpr(int line_in, NameId id_in) : Expr(ExprKind::kName, line_in), id(id_in) {}
  NameId id;
};

// List, tuple, the parts of `~`.
struct ItemsExpr : Expr {
  using Expr::Expr;
  std::vector<ExprPtr> items;
};

struct DictExpr : Expr {
  explicit DictExpr(int line_in) : Expr(ExprKind::kDict, line_in) {}
  std::vector<std::pair<ExprPtr, ExprPtr>> items;
};

struct UnaryExpr : Expr {
  enum class Op { kNot, kNegate, kPlus };
  UnaryExpr(int line_in, Op op_in, ExprPtr operand_in)
      : Expr(ExprKind::kUnary, line_in), op(op_in), operand(std::move(operand_in)) {
    Covers(operand.get());
  }
  Op op;
  ExprPtr operand;
};

// first op operand op operand ..., from the left.
struct ArithmeticExpr : Expr {
  using Function = Value (*)(Runtime&, const Value&, const Value&);
  explicit ArithmeticExpr(int line_in) : Expr(ExprKind::kArithmetic, line_in) {}
  ExprPtr first;
  std::vector<std::pair<Function, ExprPtr>> rest;
};

struct LogicExpr : Expr {
  LogicExpr(int line_in, bool is_and_in) : Expr(ExprKind::kLogic, line_in), is_and(is_and_in) {}
  bool is_and;
  std::vector<ExprPtr> parts;
};

struct CompareExpr : Expr {
  enum class Op { kEqual, kNotEqual, kLess, kLessEqual, kGreater, kGreaterEqual, kIn, kNotIn };
  explicit CompareExpr(int line_in) : Expr(ExprKind::kCompare, line_in) {}
  ExprPtr first;
  std::vector<std::pair<Op, ExprPtr>> rest;
};

struct ConditionalExpr : Expr {
  explicit ConditionalExpr(int line_in) : Expr(ExprKind::kConditional, line_in) {}
  ExprPtr test;
  ExprPtr then;
  ExprPtr otherwise;  // null: undefined
};

struct AttributeExpr : Expr {
  AttributeExpr(int line_in, ExprPtr object_in, std::string name_in)
      : Expr(ExprKind::kAttribute, line_in),
        object(std::move(object_in)),
        name(std::move(name_in)) {
    Covers(object.get());
  }
  ExprPtr object;
  std::string name;
};

struct ItemExpr : Expr {
  ItemExpr(int line_in, ExprPtr object_in, ExprPtr key_in)
      : Expr(ExprKind::kItem, line_in), object(std::move(object_in)), key(std::move(key_in)) {
    Covers(object.get());
    Covers(key.get());
  }
  ExprPtr object;
  ExprPtr key;
};

struct SliceExpr : Expr {
  explicit SliceExpr(int line_in) : Expr(ExprKind::kSlice, line_in) {}
  ExprPtr object;
  ExprPtr start, stop, step;  // each may be null
};

// Arguments as written.
struct Arguments {
  std::vector<ExprPtr> positional;
  std::vector<std::pair<Text, ExprPtr>> named;
  ExprPtr star;       // *args, or null
  ExprPtr star_star;  // **kwargs, or null
};

struct CallExpr : Expr {
  explicit CallExpr(int line_in) : Expr(ExprKind::kCall, line_in) {}
  ExprPtr callee;
  Arguments arguments;
};

struct FilterExpr : Expr {
  explicit FilterExpr(int line_in) : Expr(ExprKind::kFilter, line_in) {}
  ExprPtr input;
  std::string name;
  FilterFunction function =
      nullptr;  // null: there is none of this name, which is an error when it is reached
  Arguments arguments;
};

struct TestExpr : Expr {
  explicit TestExpr(int line_in) : Expr(ExprKind::kTest, line_in) {}
  ExprPtr input;
  std::string name;
  TestFunction function = nullptr;  // as above
  Arguments arguments;
};

enum class StatementKind {
  kText,
  kPrint,
  kIf,
  kFor,
  kSet,
  kSetBlock,
  kMacro,
  kCallBlock,
  kFilterBlock,
  kWith,
  kBreak,
  kContinue,
};

struct Statement {
  Statement(StatementKind kind_in, int line_in) : kind(kind_in), line(line_in) {}
  virtual ~Statement() = default;
  Statement(const Statement&) = delete;
  Statement& operator=(const Statement&) = delete;

  const StatementKind kind;
  const int line;
};
using Body = std::vector<std::unique_ptr<Statement>>;

// What an assignment writes to.
struct Target {
  enum class Kind { kName, kNamespaceAttribute, kTuple };
  Kind kind = Kind::kName;
  NameId name = 0;
  std::string attribute;
  std::vector<Target> parts;
};

struct TextStatement : Statement {
  TextStatement(int line_in, Text text_in)
      : Statement(StatementKind::kText, line_in), text(std::move(text_in)) {}
  Text text;
};

struct PrintStatement : Statement {
  PrintStatement(int line_in, ExprPtr value_in)
      : Statement(StatementKind::kPrint, line_in), value(std::move(value_in)) {}
  ExprPtr value;
};

struct IfStatement : Statement {
  explicit IfStatement(int line_in) : Statement(StatementKind::kIf, line_in) {}
  std::vector<std::pair<ExprPtr, Body>> branches;
  Body otherwise;
};

struct ForStatement : Statement {
  explicit ForStatement(int line_in) : Statement(StatementKind::kFor, line_in) {}
  Target target;
  ExprPtr iterable;
  ExprPtr test;  // or null
  bool recursive = false;
  Body body;
  Body otherwise;
};

struct SetStatement : Statement {
  explicit SetStatement(int line_in) : Statement(StatementKind::kSet, line_in) {}
  Target target;
  ExprPtr value;
};

struct SetBlockStatement : Statement {
  explicit SetBlockStatement(int line_in) : Statement(StatementKind::kSetBlock, line_in) {}
  Target target;
  ExprPtr filter;  // over kBlockText, or null
  Body body;
};

// Of a macro, or of the block that a `call` hands to one as `caller`.
struct MacroDefinition {
  std::string name;
  std::vector<std::pair<NameId, ExprPtr>> parameters;  // with default, or null
  Body body;
  bool uses_varargs = false;
  bool uses_kwargs = false;
  bool uses_caller = false;
};

struct MacroStatement : Statement {
  explicit MacroStatement(int line_in) : Statement(StatementKind::kMacro, line_in) {}
  NameId name = 0;
  MacroDefinition macro;
};

struct CallBlockStatement : Statement {
  explicit CallBlockStatement(int line_in) : Statement(StatementKind::kCallBlock, line_in) {}
  MacroDefinition caller;
  ExprPtr call;  // a CallExpr
};

struct FilterBlockStatement : Statement {
  explicit FilterBlockStatement(int line_in) : Statement(StatementKind::kFilterBlock, line_in) {}
  ExprPtr filter;  // over kBlockText
  Body body;
};

// Also the scope of `generation`, with nothing assigned.
struct WithStatement : Statement {
  explicit WithStatement(int line_in) : Statement(StatementKind::kWith, line_in) {}
  std::vector<std::pair<Target, ExprPtr>> assignments;
  Body body;
};

// break and continue.
struct JumpStatement : Statement {
  using Statement::Statement;
};

// A compiled template.
struct Program {
  Body body;
  std::vector<std::string> names;
};

}  // namespace erne::jinja
