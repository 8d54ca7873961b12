#include "chat/jinja/evaluator.h"

#include <utility>

#include "chat/jinja/builtins.h"
#include "chat/jinja/loop.h"
#include "chat/jinja/methods.h"
#include "chat/jinja/operators.h"

namespace erne::jinja {
namespace {

// A macro, or the `caller` of a call block. Its scope is kept alive by the evaluator.
class Macro : public Object {
 public:
  Macro(Evaluator& evaluator, const MacroDefinition& definition, std::weak_ptr<Scope> scope)
      : evaluator_(evaluator), definition_(definition), scope_(std::move(scope)) {}
  const char* TypeName() const override { return "Macro"; }
  bool callable() const override { return true; }
  Value Call(Runtime&, CallArgs& args) override {
    return evaluator_.CallMacro(definition_, scope_.lock(), args);
  }
  std::optional<Value> Attribute(Runtime&, std::string_view name) override {
    if (name == "name") return Value::Literal(definition_.name);
    return std::nullopt;
  }

 private:
  Evaluator& evaluator_;
  const MacroDefinition& definition_;
  std::weak_ptr<Scope> scope_;
};

template <typename E>
const E& As(const Expr& expr) {
  return static_cast<const E&>(expr);
}
template <typename S>
const S& As(const Statement& statement) {
  return static_cast<const S&>(statement);
}

}  // namespace

// Makes a scope the current one for a while.
class Evaluator::ScopeFrame {
 public:
  ScopeFrame(Evaluator& evaluator, std::shared_ptr<Scope> scope)
      : evaluator_(evaluator), saved_(std::exchange(evaluator.scope_, std::move(scope))) {}
  explicit ScopeFrame(Evaluator& evaluator) : ScopeFrame(evaluator, std::make_shared<Scope>()) {
    evaluator.scope_->parent = saved_;
  }
  ~ScopeFrame() { evaluator_.scope_ = std::move(saved_); }
  ScopeFrame(const ScopeFrame&) = delete;
  ScopeFrame& operator=(const ScopeFrame&) = delete;

 private:
  Evaluator& evaluator_;
  std::shared_ptr<Scope> saved_;
};

// Collects output in a text of its own.
class Evaluator::Capture {
 public:
  explicit Capture(Evaluator& evaluator)
      : evaluator_(evaluator),
        builder_(evaluator.runtime_.budget()),
        saved_(std::exchange(evaluator.out_, &builder_)) {}
  ~Capture() { evaluator_.out_ = saved_; }
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;

  Text Take() { return builder_.Build(); }

 private:
  Evaluator& evaluator_;
  TextBuilder builder_;
  TextBuilder* saved_;
};

Evaluator::Evaluator(const Program& program, const Json& trusted, const Json& untrusted,
                     const TemplateLimits& limits, int64_t local_now)
    : program_(program),
      trusted_(trusted),
      untrusted_(untrusted),
      runtime_(limits, local_now),
      context_(program.names.size()),
      scope_(std::make_shared<Scope>()) {
  for (size_t i = 0; i < program.names.size(); ++i) {
    const std::string& name = program.names[i];
    const auto id = static_cast<NameId>(i);
    if (name == "loop") loop_name_ = id;
    if (name == "varargs") varargs_name_ = id;
    if (name == "kwargs") kwargs_name_ = id;
    if (name == "caller") caller_name_ = id;
  }
}

Evaluator::~Evaluator() {
  for (const auto& scope : kept_scopes_) scope->variables.clear();
}

std::vector<TextPiece> Evaluator::Run() {
  TextBuilder out(runtime_.budget());
  out_ = &out;
  Execute(program_.body);
  return out.BuildPieces();
}

Evaluator::Flow Evaluator::Execute(const Body& body) {
  const Runtime::Level level(runtime_);
  for (const auto& statement : body) {
    const Flow flow = ExecuteStatement(*statement);
    if (flow != Flow::kNormal) return flow;
  }
  return Flow::kNormal;
}

Evaluator::Flow Evaluator::ExecuteStatement(const Statement& statement) {
  runtime_.budget().Steps();
  line_ = statement.line;
  switch (statement.kind) {
    case StatementKind::kText:
      out_->Append(As<TextStatement>(statement).text);
      break;
    case StatementKind::kPrint:
      Print(Eval(*As<PrintStatement>(statement).value));
      break;
    case StatementKind::kIf:
      return ExecuteIf(As<IfStatement>(statement));
    case StatementKind::kFor: {
      const auto& loop = As<ForStatement>(statement);
      return ExecuteFor(loop, Eval(*loop.iterable), 0);
    }
    case StatementKind::kSet: {
      const auto& set = As<SetStatement>(statement);
      Assign(set.target, Eval(*set.value));
      break;
    }
    case StatementKind::kSetBlock:
      return ExecuteSetBlock(As<SetBlockStatement>(statement));
    case StatementKind::kMacro:
      ExecuteMacro(As<MacroStatement>(statement));
      break;
    case StatementKind::kCallBlock:
      ExecuteCallBlock(As<CallBlockStatement>(statement));
      break;
    case StatementKind::kFilterBlock:
      return ExecuteFilterBlock(As<FilterBlockStatement>(statement));
    case StatementKind::kWith:
      return ExecuteWith(As<WithStatement>(statement));
    case StatementKind::kBreak:
      return Flow::kBreak;
    case StatementKind::kContinue:
      return Flow::kContinue;
  }
  return Flow::kNormal;
}

void Evaluator::Print(const Value& value) {
  if (value.is_string()) {
    out_->Append(value.AsText());
  } else {
    out_->Append(ToText(runtime_, value));
  }
}

Evaluator::Flow Evaluator::ExecuteIf(const IfStatement& statement) {
  for (const auto& [test, body] : statement.branches) {
    if (Truthy(runtime_, Eval(*test))) return Execute(body);
  }
  return Execute(statement.otherwise);
}

Next Evaluator::FilteredItems(const ForStatement& statement, Next source) {
  // Tests when an item is drawn, as Python's generators do: the test may look at what the body has
  // set meanwhile.
  return [this, &statement, source = std::move(source), outer = scope_](Value& out) {
    while (source(out)) {
      const ScopeFrame restore(*this, outer);
      const ScopeFrame frame(*this);
      Assign(statement.target, out);
      if (Truthy(runtime_, Eval(*statement.test))) return true;
    }
    return false;
  };
}

Evaluator::Flow Evaluator::ExecuteFor(const ForStatement& statement, const Value& iterable,
                                      int depth) {
  const Runtime::Level level(runtime_);
  line_ = statement.line;
  Next next = Iterate(runtime_, iterable);
  std::optional<int64_t> length;
  if (statement.test != nullptr) {
    next = FilteredItems(statement, std::move(next));
  } else if (!iterable.is_object() || iterable.AsObject().Length(runtime_)) {
    length = Length(runtime_, iterable);
  }
  const auto loop = std::make_shared<Loop>(*this, statement.recursive ? &statement : nullptr,
                                           scope_, std::move(next), length, depth);
  bool completed =
      false;  // a pass reached its end: Jinja's `else` also follows a loop whose passes all jumped
  Flow flow = Flow::kNormal;
  const std::shared_ptr<Scope> outer = scope_;
  std::shared_ptr<Scope> inner;
  while (flow != Flow::kBreak && loop->Advance()) {
    runtime_.budget().Steps();
    // Each pass has fresh variables; the memory is used again unless something still refers to it.
    if (inner == nullptr || inner.use_count() > 1) {
      inner = std::make_shared<Scope>();
      inner->parent = outer;
    } else {
      inner->variables.clear();
    }
    const ScopeFrame frame(*this, inner);
    if (loop_name_ >= 0) inner->Set(loop_name_, Value(std::static_pointer_cast<Object>(loop)));
    Assign(statement.target, loop->current());
    flow = Execute(statement.body);
    completed = completed || flow == Flow::kNormal;
  }
  if (completed || statement.otherwise.empty()) return Flow::kNormal;
  const ScopeFrame frame(*this);
  return Execute(statement.otherwise);
}

Text Evaluator::RunLoopAgain(const ForStatement& statement, const std::shared_ptr<Scope>& scope,
                             const Value& iterable, int depth) {
  Capture capture(*this);
  const ScopeFrame frame(*this, scope);
  ExecuteFor(statement, iterable, depth);
  return capture.Take();
}

Evaluator::Flow Evaluator::RenderBlock(const Body& body, Text& text) {
  Capture capture(*this);
  const ScopeFrame frame(*this);
  const Flow flow = Execute(body);
  if (flow == Flow::kNormal) text = capture.Take();
  return flow;
}

Value Evaluator::FilterBlock(const Expr& filter, const Text& text) {
  const Text* saved = std::exchange(block_text_, &text);
  Value value = Eval(filter);
  block_text_ = saved;
  return value;
}

Evaluator::Flow Evaluator::ExecuteSetBlock(const SetBlockStatement& statement) {
  Text text;
  const Flow flow = RenderBlock(statement.body, text);
  if (flow != Flow::kNormal) return flow;
  Assign(statement.target,
         statement.filter == nullptr ? Value(text) : FilterBlock(*statement.filter, text));
  return Flow::kNormal;
}

Evaluator::Flow Evaluator::ExecuteFilterBlock(const FilterBlockStatement& statement) {
  Text text;
  const Flow flow = RenderBlock(statement.body, text);
  if (flow != Flow::kNormal) return flow;
  Print(FilterBlock(*statement.filter, text));
  return Flow::kNormal;
}

Evaluator::Flow Evaluator::ExecuteWith(const WithStatement& statement) {
  std::vector<Value> values;
  values.reserve(statement.assignments.size());
  for (const auto& [target, value] : statement.assignments) values.push_back(Eval(*value));
  const ScopeFrame frame(*this);
  for (size_t i = 0; i < values.size(); ++i) Assign(statement.assignments[i].first, values[i]);
  return Execute(statement.body);
}

Value Evaluator::MakeMacro(const MacroDefinition& macro) {
  if (!scope_->kept) {
    runtime_.budget().Steps();
    scope_->kept = true;
    kept_scopes_.push_back(scope_);
  }
  return Value(std::static_pointer_cast<Object>(std::make_shared<Macro>(*this, macro, scope_)));
}

void Evaluator::ExecuteMacro(const MacroStatement& statement) {
  scope_->Set(statement.name, MakeMacro(statement.macro));
}

void Evaluator::ExecuteCallBlock(const CallBlockStatement& statement) {
  const Value caller = MakeMacro(statement.caller);
  Print(EvalCall(As<CallExpr>(*statement.call), &caller));
}

Value Evaluator::CallMacro(const MacroDefinition& macro,
                           const std::shared_ptr<Scope>& definition_scope, CallArgs& args) {
  const Runtime::Level level(runtime_);
  const auto inner = std::make_shared<Scope>();
  inner->parent = definition_scope;
  const size_t count = macro.parameters.size();
  std::vector<bool> given(count, false);
  for (size_t i = 0; i < args.positional.size() && i < count; ++i) {
    inner->Set(macro.parameters[i].first, std::move(args.positional[i]));
    given[i] = true;
  }
  if (args.positional.size() > count && !macro.uses_varargs) {
    Fail("macro '", macro.name, "' takes not more than ", count, " argument(s)");
  }
  std::shared_ptr<Dict> rest = std::make_shared<Dict>();
  for (auto& [name_text, value] : args.named) {
    const std::string_view name = name_text.view();
    size_t i = 0;
    while (i < count && program_.names[static_cast<size_t>(macro.parameters[i].first)] != name) ++i;
    if (i < count) {
      if (given[i]) Fail("macro '", macro.name, "' got two values for the argument '", name, "'");
      inner->Set(macro.parameters[i].first, std::move(value));
      given[i] = true;
    } else if (name == "caller" && macro.uses_caller) {
      inner->Set(caller_name_, std::move(value));
    } else if (macro.uses_kwargs && name != "caller") {
      rest->Set(runtime_, Value(name_text), std::move(value));
    } else {
      Fail("macro '", macro.name, "' takes no keyword argument '", name, "'");
    }
  }
  Capture capture(*this);
  const ScopeFrame frame(*this, inner);
  for (size_t i = 0; i < count; ++i) {
    if (given[i]) continue;
    const auto& [name, fallback] = macro.parameters[i];
    inner->Set(name, fallback != nullptr
                         ? Eval(*fallback)
                         : Value::Undefined(StrCat("parameter '",
                                                   program_.names[static_cast<size_t>(name)],
                                                   "' was not provided")));
  }
  if (macro.uses_caller && caller_name_ >= 0 && inner->Find(caller_name_) == nullptr) {
    inner->Set(caller_name_, Value::Undefined("No caller defined"));
  }
  if (macro.uses_varargs && varargs_name_ >= 0) {
    std::vector<Value> more;
    for (size_t i = count; i < args.positional.size(); ++i)
      more.push_back(std::move(args.positional[i]));
    inner->Set(varargs_name_, Value::MakeTuple(runtime_, std::move(more)));
  }
  if (macro.uses_kwargs && kwargs_name_ >= 0) {
    inner->Set(kwargs_name_, Value(std::shared_ptr<const Dict>(std::move(rest))));
  }
  Execute(macro.body);
  return Value(capture.Take());
}

void Evaluator::Assign(const Target& target, const Value& value) {
  switch (target.kind) {
    case Target::Kind::kName:
      scope_->Set(target.name, value);
      return;
    case Target::Kind::kTuple:
      AssignParts(target, value);
      return;
    case Target::Kind::kNamespaceAttribute:
      break;
  }
  const Value holder = Lookup(target.name);
  auto* ns = holder.is_object() ? dynamic_cast<Namespace*>(&holder.AsObject()) : nullptr;
  if (ns == nullptr) Fail("cannot assign attribute on non-namespace object");
  ns->Set(runtime_, target.attribute, value);
}

void Evaluator::AssignParts(const Target& target, const Value& value) {
  if (!IsIterable(value)) Fail("cannot unpack non-iterable ", value.TypeName(), " object");
  const size_t expected = target.parts.size();
  const Next next = Iterate(runtime_, value);
  std::vector<Value> items;
  for (Value item; items.size() <= expected && next(item);) items.push_back(std::move(item));
  if (items.size() > expected) Fail("too many values to unpack (expected ", expected, ")");
  if (items.size() < expected) {
    Fail("not enough values to unpack (expected ", expected, ", got ", items.size(), ")");
  }
  for (size_t i = 0; i < expected; ++i) Assign(target.parts[i], items[i]);
}

}  // namespace erne::jinja
