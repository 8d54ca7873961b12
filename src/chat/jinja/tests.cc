// Tests: what follows `is`.
#include <string_view>

#include "chat/jinja/arguments.h"
#include "chat/jinja/builtins.h"
#include "chat/jinja/operators.h"
#include "chat/jinja/unicode.h"

namespace erne::jinja {
namespace {

void NoArguments(Runtime& runtime, const CallArgs& args) {
  BoundArgs(runtime, args, "this test", {});
}

template <bool (*kPredicate)(const Value&)>
bool Plain(Runtime& runtime, const Value& value, CallArgs& args) {
  NoArguments(runtime, args);
  return kPredicate(value);
}

bool IsDefined(const Value& value) { return !value.is_undefined(); }
bool IsUndefined(const Value& value) { return value.is_undefined(); }
bool IsNone(const Value& value) { return value.is_none(); }
bool IsBoolean(const Value& value) { return value.is_bool(); }
bool IsTrue(const Value& value) { return value.is_bool() && value.AsBool(); }
bool IsFalse(const Value& value) { return value.is_bool() && !value.AsBool(); }
bool IsInteger(const Value& value) { return value.is_int(); }
bool IsFloat(const Value& value) { return value.is_float(); }
bool IsNumber(const Value& value) { return value.is_number(); }
bool IsString(const Value& value) { return value.is_string(); }
bool IsMapping(const Value& value) { return value.is_dict(); }
// An undefined value counts: it has a __call__, which raises.
bool IsCallable(const Value& value) {
  return value.is_undefined() || (value.is_object() && value.AsObject().callable());
}
bool IsEscaped(const Value& value) { return value.is_string() && value.AsText().markup(); }
// Anything with a length and subscripts, as Jinja sees it: dicts and undefined values too.
bool IsSequence(const Value& value) {
  if (value.is_object()) return std::string_view(value.TypeName()) == "range";
  return value.is_undefined() || value.is_string() || value.is_sequence() || value.is_dict();
}

// Whether all cased characters are of one case, and there is one.
bool HasCase(Runtime& runtime, const Value& value, bool upper) {
  const Text text = ToText(runtime, value);
  runtime.budget().Bytes(text.size());
  bool found = false;
  for (std::string_view rest = text.view(); !rest.empty();) {
    const char32_t c = TakeChar(rest);
    if (upper ? IsLower(c) : IsUpper(c)) return false;
    found = found || (upper ? IsUpper(c) : IsLower(c));
  }
  return found;
}

bool TestLower(Runtime& runtime, const Value& value, CallArgs& args) {
  NoArguments(runtime, args);
  return HasCase(runtime, value, false);
}
bool TestUpper(Runtime& runtime, const Value& value, CallArgs& args) {
  NoArguments(runtime, args);
  return HasCase(runtime, value, true);
}

bool HasRemainder(Runtime& runtime, const Value& value, const Value& divisor, int64_t remainder) {
  return Equal(runtime, Modulo(runtime, value, divisor), Value(remainder));
}
bool TestOdd(Runtime& runtime, const Value& value, CallArgs& args) {
  NoArguments(runtime, args);
  return HasRemainder(runtime, value, Value(int64_t{2}), 1);
}
bool TestEven(Runtime& runtime, const Value& value, CallArgs& args) {
  NoArguments(runtime, args);
  return HasRemainder(runtime, value, Value(int64_t{2}), 0);
}
bool TestDivisibleBy(Runtime& runtime, const Value& value, CallArgs& args) {
  const BoundArgs bound(runtime, args, "divisibleby", {"num"}, 1);
  return HasRemainder(runtime, value, *bound.Get(0), 0);
}

bool TestIn(Runtime& runtime, const Value& value, CallArgs& args) {
  const BoundArgs bound(runtime, args, "in", {"seq"}, 1);
  return Contains(runtime, *bound.Get(0), value);
}

bool TestEqual(Runtime& runtime, const Value& value, CallArgs& args) {
  const BoundArgs bound(runtime, args, "eq", {"other"}, 1);
  return Equal(runtime, value, *bound.Get(0));
}
bool TestNotEqual(Runtime& runtime, const Value& value, CallArgs& args) {
  const BoundArgs bound(runtime, args, "ne", {"other"}, 1);
  return !Equal(runtime, value, *bound.Get(0));
}
template <Order kOrder>
bool TestOrder(Runtime& runtime, const Value& value, CallArgs& args) {
  const BoundArgs bound(runtime, args, "this test", {"other"}, 1);
  return Ordered(runtime, value, *bound.Get(0), kOrder);
}

// Python's `is`. Plain values that are equal may or may not be one object in Python; here they are.
bool TestSameAs(Runtime& runtime, const Value& value, CallArgs& args) {
  const BoundArgs bound(runtime, args, "sameas", {"other"}, 1);
  const Value& other = *bound.Get(0);
  if (value.kind() != other.kind()) return false;
  switch (value.kind()) {
    case Kind::kList:
    case Kind::kTuple:
      return &value.AsItems() == &other.AsItems();
    case Kind::kDict:
      return &value.AsDict() == &other.AsDict();
    case Kind::kObject:
      return &value.AsObject() == &other.AsObject();
    default:
      return Equal(runtime, value, other);
  }
}

bool TestFilter(Runtime& runtime, const Value& value, CallArgs& args) {
  NoArguments(runtime, args);
  return value.is_string() && FindFilter(value.AsText().view()) != nullptr;
}
bool TestTest(Runtime& runtime, const Value& value, CallArgs& args) {
  NoArguments(runtime, args);
  return value.is_string() && FindTest(value.AsText().view()) != nullptr;
}
bool TestIterable(Runtime& runtime, const Value& value, CallArgs& args) {
  NoArguments(runtime, args);
  return IsIterable(value);
}

struct TestEntry {
  std::string_view name;
  TestFunction function;
};

constexpr TestEntry kTests[] = {
    {"boolean", Plain<IsBoolean>},
    {"callable", Plain<IsCallable>},
    {"defined", Plain<IsDefined>},
    {"divisibleby", TestDivisibleBy},
    {"escaped", Plain<IsEscaped>},
    {"even", TestEven},
    {"false", Plain<IsFalse>},
    {"filter", TestFilter},
    {"float", Plain<IsFloat>},
    {"in", TestIn},
    {"integer", Plain<IsInteger>},
    {"iterable", TestIterable},
    {"lower", TestLower},
    {"mapping", Plain<IsMapping>},
    {"none", Plain<IsNone>},
    {"number", Plain<IsNumber>},
    {"odd", TestOdd},
    {"sameas", TestSameAs},
    {"sequence", Plain<IsSequence>},
    {"string", Plain<IsString>},
    {"test", TestTest},
    {"true", Plain<IsTrue>},
    {"undefined", Plain<IsUndefined>},
    {"upper", TestUpper},
    {"==", TestEqual},
    {"eq", TestEqual},
    {"equalto", TestEqual},
    {"!=", TestNotEqual},
    {"ne", TestNotEqual},
    {"<", TestOrder<Order::kLess>},
    {"lt", TestOrder<Order::kLess>},
    {"lessthan", TestOrder<Order::kLess>},
    {"<=", TestOrder<Order::kLessEqual>},
    {"le", TestOrder<Order::kLessEqual>},
    {">", TestOrder<Order::kGreater>},
    {"gt", TestOrder<Order::kGreater>},
    {"greaterthan", TestOrder<Order::kGreater>},
    {">=", TestOrder<Order::kGreaterEqual>},
    {"ge", TestOrder<Order::kGreaterEqual>},
};

}  // namespace

TestFunction FindTest(std::string_view name) {
  for (const TestEntry& entry : kTests) {
    if (entry.name == name) return entry.function;
  }
  return nullptr;
}

}  // namespace erne::jinja
