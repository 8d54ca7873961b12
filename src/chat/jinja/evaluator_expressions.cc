// The half of Evaluator that computes values.
#include <utility>

#include "chat/jinja/builtins.h"
#include "chat/jinja/evaluator.h"
#include "chat/jinja/methods.h"
#include "chat/jinja/operators.h"

namespace erne::jinja {
namespace {

template <typename E>
const E& As(const Expr& expr) {
  return static_cast<const E&>(expr);
}

}  // namespace

Value Evaluator::Eval(const Expr& expr) {
  const Runtime::Level level(runtime_);
  runtime_.budget().Steps();
  line_ = expr.line;
  switch (expr.kind) {
    case ExprKind::kConstant:
      return As<ConstantExpr>(expr).value;
    case ExprKind::kName:
      return Lookup(As<NameExpr>(expr).id);
    case ExprKind::kList:
    case ExprKind::kTuple:
      return EvalItems(As<ItemsExpr>(expr));
    case ExprKind::kDict:
      return EvalDict(As<DictExpr>(expr));
    case ExprKind::kUnary:
      return EvalUnary(As<UnaryExpr>(expr));
    case ExprKind::kArithmetic:
      return EvalArithmetic(As<ArithmeticExpr>(expr));
    case ExprKind::kConcat:
      return EvalConcat(As<ItemsExpr>(expr));
    case ExprKind::kLogic:
      return EvalLogic(As<LogicExpr>(expr));
    case ExprKind::kCompare:
      return EvalCompare(As<CompareExpr>(expr));
    case ExprKind::kConditional:
      return EvalConditional(As<ConditionalExpr>(expr));
    case ExprKind::kAttribute:
      return EvalAttribute(As<AttributeExpr>(expr));
    case ExprKind::kItem:
      return EvalItem(As<ItemExpr>(expr));
    case ExprKind::kSlice:
      return EvalSlice(As<SliceExpr>(expr));
    case ExprKind::kCall:
      return EvalCall(As<CallExpr>(expr));
    case ExprKind::kFilter:
      return EvalFilter(As<FilterExpr>(expr));
    case ExprKind::kTest:
      return EvalTest(As<TestExpr>(expr));
    case ExprKind::kBlockText:
      return Value(*block_text_);
  }
  return Value();
}

Value Evaluator::Lookup(NameId name) {
  for (Scope* scope = scope_.get(); scope != nullptr; scope = scope->parent.get()) {
    if (const Value* found = scope->Find(name)) return *found;
  }
  std::optional<Value>& cached = context_[static_cast<size_t>(name)];
  if (!cached) cached = FromContext(name);
  return *cached;
}

Value Evaluator::FromContext(NameId id) {
  const std::string& name = program_.names[static_cast<size_t>(id)];
  if (const Json* found = untrusted_.Find(name)) return FromJson(*found, false, 0);
  if (const Json* found = trusted_.Find(name)) return FromJson(*found, true, 0);
  if (const GlobalFunction function = FindGlobal(name)) {
    return Value(std::static_pointer_cast<Object>(std::make_shared<Builtin>(function)));
  }
  return Value::Undefined(StrCat("'", name, "' is undefined"));
}

Value Evaluator::FromJson(const Json& json, bool trusted, int depth) {
  runtime_.CheckDepth(depth);
  runtime_.budget().Steps();
  if (json.is_null()) return Value(Value::None{});
  if (json.is_bool()) return Value(json.AsBool());
  if (json.is_int()) return Value(json.AsInt());
  if (json.is_double()) return Value(json.AsDouble());
  if (json.is_string()) {
    runtime_.budget().StringSize(json.AsString().size());
    runtime_.budget().Bytes(json.AsString().size());
    return Value(Text(json.AsString(), trusted));
  }
  if (json.is_array()) {
    std::vector<Value> items;
    items.reserve(json.AsArray().size());
    for (const Json& item : json.AsArray()) items.push_back(FromJson(item, trusted, depth + 1));
    return Value::MakeList(runtime_, std::move(items));
  }
  auto dict = std::make_shared<Dict>();
  for (const auto& [key, value] : json.AsObject()) {
    runtime_.budget().Bytes(key.size());
    dict->Set(runtime_, Value(Text(key, trusted)), FromJson(value, trusted, depth + 1));
  }
  return Value(std::shared_ptr<const Dict>(std::move(dict)));
}

Value Evaluator::EvalItems(const ItemsExpr& expr) {
  std::vector<Value> items;
  items.reserve(expr.items.size());
  for (const ExprPtr& item : expr.items) items.push_back(Eval(*item));
  return expr.kind == ExprKind::kList ? Value::MakeList(runtime_, std::move(items))
                                      : Value::MakeTuple(runtime_, std::move(items));
}

Value Evaluator::EvalConcat(const ItemsExpr& expr) {
  TextBuilder out(runtime_.budget());
  for (const ExprPtr& item : expr.items) out.Append(ToText(runtime_, Eval(*item)));
  return Value(out.Build());
}

Value Evaluator::EvalDict(const DictExpr& expr) {
  auto dict = std::make_shared<Dict>();
  for (const auto& [key_expr, value_expr] : expr.items) {
    Value key = Eval(*key_expr);
    Value value = Eval(*value_expr);
    dict->Set(runtime_, std::move(key), std::move(value));
  }
  return Value(std::shared_ptr<const Dict>(std::move(dict)));
}

Value Evaluator::EvalUnary(const UnaryExpr& expr) {
  const Value operand = Eval(*expr.operand);
  switch (expr.op) {
    case UnaryExpr::Op::kNot:
      return Value(!Truthy(runtime_, operand));
    case UnaryExpr::Op::kNegate:
      return Negate(operand);
    case UnaryExpr::Op::kPlus:
      return Plus(operand);
  }
  return Value();
}

Value Evaluator::EvalArithmetic(const ArithmeticExpr& expr) {
  Value value = Eval(*expr.first);
  for (const auto& [function, operand_expr] : expr.rest) {
    const Value operand = Eval(*operand_expr);
    value = function(runtime_, value, operand);
  }
  return value;
}

Value Evaluator::EvalLogic(const LogicExpr& expr) {
  Value value;
  for (const ExprPtr& part : expr.parts) {
    value = Eval(*part);
    if (Truthy(runtime_, value) != expr.is_and) return value;
  }
  return value;
}

Value Evaluator::EvalCompare(const CompareExpr& expr) {
  using Op = CompareExpr::Op;
  Value left = Eval(*expr.first);
  for (const auto& [op, right_expr] : expr.rest) {
    Value right = Eval(*right_expr);
    bool holds = false;
    switch (op) {
      case Op::kEqual:
        holds = Equal(runtime_, left, right);
        break;
      case Op::kNotEqual:
        holds = !Equal(runtime_, left, right);
        break;
      case Op::kLess:
        holds = Ordered(runtime_, left, right, Order::kLess);
        break;
      case Op::kLessEqual:
        holds = Ordered(runtime_, left, right, Order::kLessEqual);
        break;
      case Op::kGreater:
        holds = Ordered(runtime_, left, right, Order::kGreater);
        break;
      case Op::kGreaterEqual:
        holds = Ordered(runtime_, left, right, Order::kGreaterEqual);
        break;
      case Op::kIn:
        holds = Contains(runtime_, right, left);
        break;
      case Op::kNotIn:
        holds = !Contains(runtime_, right, left);
        break;
    }
    if (!holds) return Value(false);
    left = std::move(right);
  }
  return Value(true);
}

Value Evaluator::EvalConditional(const ConditionalExpr& expr) {
  if (Truthy(runtime_, Eval(*expr.test))) return Eval(*expr.then);
  if (expr.otherwise != nullptr) return Eval(*expr.otherwise);
  return Value::Undefined(StrCat("the inline if-expression on line ", expr.line,
                                 " evaluated to false and no else section was defined."));
}

Value Evaluator::EvalAttribute(const AttributeExpr& expr) {
  const Value object = Eval(*expr.object);
  line_ = expr.line;
  return GetAttribute(runtime_, object, expr.name);
}

Value Evaluator::EvalItem(const ItemExpr& expr) {
  const Value object = Eval(*expr.object);
  const Value key = Eval(*expr.key);
  line_ = expr.line;
  return GetItem(runtime_, object, key);
}

Value Evaluator::EvalSlice(const SliceExpr& expr) {
  const Value object = Eval(*expr.object);
  const auto bound = [this](const ExprPtr& part) {
    return part == nullptr ? Value(Value::None{}) : Eval(*part);
  };
  const Value start = bound(expr.start);
  const Value stop = bound(expr.stop);
  const Value step = bound(expr.step);
  line_ = expr.line;
  return Slice(runtime_, object, start, stop, step);
}

CallArgs Evaluator::EvalArguments(const Arguments& arguments) {
  CallArgs args;
  args.positional.reserve(arguments.positional.size());
  for (const ExprPtr& value : arguments.positional) args.positional.push_back(Eval(*value));
  if (arguments.star != nullptr) {
    for (Value& item : Items(runtime_, Eval(*arguments.star)))
      args.positional.push_back(std::move(item));
  }
  for (const auto& [name, value] : arguments.named) args.named.emplace_back(name, Eval(*value));
  if (arguments.star_star == nullptr) return args;
  const Value more = Eval(*arguments.star_star);
  if (!more.is_dict()) Fail("argument after ** must be a mapping, not ", more.TypeName());
  for (const auto& [key, value] : more.AsDict().items()) {
    if (!key.is_string()) Fail("keywords must be strings");
    for (const auto& [other, other_value] : args.named) {
      if (other.view() == key.AsText().view()) {
        Fail("got multiple values for keyword argument '", other.view(), "'");
      }
    }
    args.named.emplace_back(key.AsText(), value);
  }
  return args;
}

Value Evaluator::EvalCall(const CallExpr& expr, const Value* caller) {
  // `value.method(...)` on a built-in kind is called without making an object of the method.
  MethodFunction method = nullptr;
  Value callee;
  if (expr.callee->kind == ExprKind::kAttribute) {
    const auto& attribute = As<AttributeExpr>(*expr.callee);
    callee = Eval(*attribute.object);
    line_ = attribute.line;
    method = FindMethod(callee.kind(), attribute.name);
    if (method == nullptr) callee = GetAttribute(runtime_, callee, attribute.name);
  } else {
    callee = Eval(*expr.callee);
  }
  CallArgs args = EvalArguments(expr.arguments);
  if (caller != nullptr) args.named.emplace_back(Text("caller", true), *caller);
  line_ = expr.line;
  if (method != nullptr) return method(runtime_, callee, args);
  RequireDefined(callee);
  if (!callee.is_object()) Fail("'", callee.TypeName(), "' object is not callable");
  return callee.AsObject().Call(runtime_, args);
}

Value Evaluator::EvalFilter(const FilterExpr& expr) {
  if (expr.function == nullptr) {
    line_ = expr.line;
    Fail("No filter named '", expr.name, "' found.");
  }
  const Value input = Eval(*expr.input);
  CallArgs args = EvalArguments(expr.arguments);
  line_ = expr.line;
  return expr.function(runtime_, input, args);
}

Value Evaluator::EvalTest(const TestExpr& expr) {
  if (expr.function == nullptr) {
    line_ = expr.line;
    Fail("No test named '", expr.name, "' found.");
  }
  const Value input = Eval(*expr.input);
  CallArgs args = EvalArguments(expr.arguments);
  line_ = expr.line;
  return Value(expr.function(runtime_, input, args));
}

}  // namespace erne::jinja
