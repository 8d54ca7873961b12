// Renders a syntax tree.
#pragma once

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "base/json.h"
#include "base/text_piece.h"
#include "chat/jinja/ast.h"
#include "chat/jinja/runtime.h"

namespace erne::jinja {

// Variables of one execution of a block that has its own: the template, a pass of a loop, a call of
// a macro, ...
struct Scope {
  std::shared_ptr<Scope> parent;
  std::vector<std::pair<NameId, Value>> variables;
  bool kept = false;  // Evaluator::kept_scopes_ has it

  Value* Find(NameId name) {
    for (auto& [id, value] : variables) {
      if (id == name) return &value;
    }
    return nullptr;
  }
  void Set(NameId name, Value value) {
    if (Value* old = Find(name)) {
      *old = std::move(value);
    } else {
      variables.emplace_back(name, std::move(value));
    }
  }
};

// One rendering, on one thread. Owned by ChatTemplate::Render; throws RenderError.
class Evaluator {
 public:
  Evaluator(const Program& program, const Json& trusted, const Json& untrusted,
            const TemplateLimits& limits, int64_t local_now);
  ~Evaluator();

  std::vector<TextPiece> Run();
  // The line that an error refers to.
  int line() const { return line_; }

  // The rest is for the objects that this evaluator makes.
  Value CallMacro(const MacroDefinition& macro, const std::shared_ptr<Scope>& definition_scope,
                  CallArgs& args);
  // `loop(iterable)` of a recursive loop.
  Text RunLoopAgain(const ForStatement& statement, const std::shared_ptr<Scope>& scope,
                    const Value& iterable, int depth);

 private:
  enum class Flow { kNormal, kBreak, kContinue };
  class ScopeFrame;
  class Capture;

  Flow Execute(const Body& body);
  Flow ExecuteStatement(const Statement& statement);
  Flow ExecuteIf(const IfStatement& statement);
  Flow ExecuteFor(const ForStatement& statement, const Value& iterable, int depth);
  Next FilteredItems(const ForStatement& statement, Next source);
  Flow ExecuteSetBlock(const SetBlockStatement& statement);
  void ExecuteMacro(const MacroStatement& statement);
  void ExecuteCallBlock(const CallBlockStatement& statement);
  Flow ExecuteFilterBlock(const FilterBlockStatement& statement);
  // What `body` prints goes to `text`; nothing does when a break or continue leaves it.
  Flow RenderBlock(const Body& body, Text& text);
  Value FilterBlock(const Expr& filter, const Text& text);
  Flow ExecuteWith(const WithStatement& statement);
  void Print(const Value& value);
  void Assign(const Target& target, const Value& value);
  void AssignParts(const Target& target, const Value& value);

  Value Eval(const Expr& expr);
  Value EvalItems(const ItemsExpr& expr);
  Value EvalConcat(const ItemsExpr& expr);
  Value EvalDict(const DictExpr& expr);
  Value EvalUnary(const UnaryExpr& expr);
  Value EvalArithmetic(const ArithmeticExpr& expr);
  Value EvalLogic(const LogicExpr& expr);
  Value EvalCompare(const CompareExpr& expr);
  Value EvalConditional(const ConditionalExpr& expr);
  Value EvalAttribute(const AttributeExpr& expr);
  Value EvalItem(const ItemExpr& expr);
  Value EvalSlice(const SliceExpr& expr);
  Value EvalCall(const CallExpr& expr, const Value* caller = nullptr);
  Value EvalFilter(const FilterExpr& expr);
  Value EvalTest(const TestExpr& expr);
  CallArgs EvalArguments(const Arguments& arguments);
  Value Lookup(NameId name);
  Value FromContext(NameId name);
  Value FromJson(const Json& json, bool trusted, int depth);
  Value MakeMacro(const MacroDefinition& macro);

  const Program& program_;
  const Json& trusted_;
  const Json& untrusted_;
  Runtime runtime_;
  int line_ = 1;
  NameId loop_name_ = -1;  // of "loop", "varargs", ..., where the template mentions them
  NameId varargs_name_ = -1;
  NameId kwargs_name_ = -1;
  NameId caller_name_ = -1;
  std::vector<std::optional<Value>> context_;  // by NameId, once looked up
  std::shared_ptr<Scope> scope_;
  // Scopes that macros refer to; cleared at the end, because a scope and its macros refer to each
  // other.
  std::vector<std::shared_ptr<Scope>> kept_scopes_;
  TextBuilder* out_ = nullptr;
  const Text* block_text_ = nullptr;  // what the filter of a block filters
};

}  // namespace erne::jinja
