#include "chat/jinja/operators.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/utf8.h"
#include "chat/jinja/format.h"
#include "chat/jinja/strings.h"
#include "chat/jinja/unicode.h"

namespace erne::jinja {
namespace {

constexpr int64_t kMinInt = std::numeric_limits<int64_t>::min();

[[noreturn]] void Unsupported(const char* symbol, const Value& a, const Value& b) {
  RequireDefined(a);
  RequireDefined(b);
  Fail("unsupported operand type(s) for ", symbol, ": '", a.TypeName(), "' and '", b.TypeName(),
       "'");
}

[[noreturn]] void Overflow(const char* symbol) {
  Fail("integer overflow in ", symbol, " (integers have 64 bits)");
}

[[noreturn]] void IntegerDivisionByZero() { Fail("integer division or modulo by zero"); }

bool BothIntegral(const Value& a, const Value& b) { return a.is_integral() && b.is_integral(); }
bool BothNumbers(const Value& a, const Value& b) { return a.is_number() && b.is_number(); }

// -1, 0, 1, or 2 when a NaN is involved. Exact where an int has no double.
int CompareNumbers(const Value& a, const Value& b) {
  if (BothIntegral(a, b)) {
    return a.AsInt() < b.AsInt() ? -1 : (a.AsInt() > b.AsInt() ? 1 : 0);
  }
  if (a.is_float() && b.is_float()) {
    const double x = a.AsDouble();
    const double y = b.AsDouble();
    if (std::isnan(x) || std::isnan(y)) return 2;
    return x < y ? -1 : (x > y ? 1 : 0);
  }
  if (a.is_float()) {
    const int reversed = CompareNumbers(b, a);
    return reversed == 2 ? 2 : -reversed;
  }
  const double y = b.AsDouble();
  if (std::isnan(y)) return 2;
  if (y >= 0x1p63) return -1;
  if (y < -0x1p63) return 1;
  const double whole = std::floor(y);
  const int64_t x = a.AsInt();
  const auto z = static_cast<int64_t>(whole);
  if (x != z) return x < z ? -1 : 1;
  return y > whole ? -1 : 0;
}

bool Decide(int comparison, Order order) {
  if (comparison == 2) return false;
  switch (order) {
    case Order::kLess:
      return comparison < 0;
    case Order::kLessEqual:
      return comparison <= 0;
    case Order::kGreater:
      return comparison > 0;
    case Order::kGreaterEqual:
      return comparison >= 0;
  }
  return false;
}

bool EqualItems(Runtime& runtime, const std::vector<Value>& a, const std::vector<Value>& b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i) {
    if (!Equal(runtime, a[i], b[i])) return false;
  }
  return true;
}

bool EqualDicts(Runtime& runtime, const Dict& a, const Dict& b) {
  if (a.items().size() != b.items().size()) return false;
  for (const auto& [key, value] : a.items()) {
    const Value* other = b.Find(runtime, key);
    if (other == nullptr || !Equal(runtime, value, *other)) return false;
  }
  return true;
}

Value Repeated(Runtime& runtime, const Value& value, int64_t count) {
  if (value.is_string()) {
    TextBuilder out(runtime.budget());
    out.AppendRepeated(value.AsText(), count);
    return Value(out.Build());
  }
  std::vector<Value> items;
  const std::vector<Value>& one = value.AsItems();
  count = one.empty() ? 0 : std::max<int64_t>(count, 0);
  size_t total = 0;
  if (__builtin_mul_overflow(static_cast<size_t>(count), one.size(), &total)) total = ~size_t{0};
  runtime.budget().Steps(total);  // before any of it is built
  items.reserve(total);
  for (int64_t i = 0; i < count; ++i) {
    items.insert(items.end(), one.begin(), one.end());
  }
  return value.is_list() ? Value::MakeList(runtime, std::move(items))
                         : Value::MakeTuple(runtime, std::move(items));
}

int64_t PowerOfInts(int64_t base, int64_t exponent) {
  int64_t result = 1;
  while (true) {
    if ((exponent & 1) != 0 && __builtin_mul_overflow(result, base, &result)) Overflow("**");
    exponent >>= 1;
    if (exponent == 0) return result;
    if (__builtin_mul_overflow(base, base, &base)) Overflow("**");
  }
}

// Floor division of floats as CPython does it (Objects/floatobject.c, float_divmod): exact where
// fmod is.
double FloorDivideFloats(double a, double b, double& remainder) {
  remainder = std::fmod(a, b);
  double quotient = (a - remainder) / b;
  if (remainder != 0) {
    if ((b < 0) != (remainder < 0)) {
      remainder += b;
      quotient -= 1;
    }
  } else {
    remainder = std::copysign(0.0, b);
  }
  if (quotient == 0) return std::copysign(0.0, a / b);
  const double whole = std::floor(quotient);
  return quotient - whole > 0.5 ? whole + 1 : whole;
}

Next IterateChars(Runtime& runtime, const Text& text) {
  return [&runtime, text, at = size_t{0}](Value& out) mutable {
    std::string_view rest = text.view().substr(at);
    if (rest.empty()) return false;
    TakeChar(rest);
    const size_t end = text.size() - rest.size();
    out = Value(text.Sub(runtime.budget(), at, end));
    at = end;
    return true;
  };
}

}  // namespace

void RequireDefined(const Value& value) {
  if (value.is_undefined()) Fail(value.UndefinedReason());
}

bool Truthy(Runtime& runtime, const Value& value) {
  switch (value.kind()) {
    case Kind::kUndefined:
    case Kind::kNone:
      return false;
    case Kind::kBool:
      return value.AsBool();
    case Kind::kInt:
      return value.AsInt() != 0;
    case Kind::kFloat:
      return value.AsDouble() != 0;
    case Kind::kString:
      return !value.AsText().empty();
    case Kind::kList:
    case Kind::kTuple:
      return !value.AsItems().empty();
    case Kind::kDict:
      return !value.AsDict().items().empty();
    case Kind::kObject:
      return value.AsObject().Truth(runtime);
  }
  return false;
}

bool Equal(Runtime& runtime, const Value& a, const Value& b) {
  runtime.budget().Steps();
  if (BothNumbers(a, b)) return CompareNumbers(a, b) == 0;
  if (a.kind() != b.kind()) return false;
  switch (a.kind()) {
    case Kind::kString:
      if (a.AsText().size() != b.AsText().size()) return false;
      runtime.budget().Bytes(a.AsText().size());
      return a.AsText().view() == b.AsText().view();
    case Kind::kList:
    case Kind::kTuple:
      return EqualItems(runtime, a.AsItems(), b.AsItems());
    case Kind::kDict:
      return EqualDicts(runtime, a.AsDict(), b.AsDict());
    case Kind::kObject:
      return a.AsObject().Equals(runtime, b.AsObject());
    default:
      return true;  // two of none, or of undefined
  }
}

bool Ordered(Runtime& runtime, const Value& a, const Value& b, Order order) {
  runtime.budget().Steps();
  if (BothNumbers(a, b)) return Decide(CompareNumbers(a, b), order);
  if (a.is_string() && b.is_string()) {
    // The order of UTF-8 bytes is that of code points.
    runtime.budget().Bytes(std::min(a.AsText().size(), b.AsText().size()));
    const int comparison = a.AsText().view().compare(b.AsText().view());
    return Decide(comparison < 0 ? -1 : (comparison > 0 ? 1 : 0), order);
  }
  if ((a.is_list() && b.is_list()) || (a.is_tuple() && b.is_tuple())) {
    const std::vector<Value>& x = a.AsItems();
    const std::vector<Value>& y = b.AsItems();
    size_t i = 0;
    while (i < x.size() && i < y.size() && Equal(runtime, x[i], y[i])) ++i;
    if (i < x.size() && i < y.size()) return Ordered(runtime, x[i], y[i], order);
    return Decide(x.size() < y.size() ? -1 : (x.size() > y.size() ? 1 : 0), order);
  }
  RequireDefined(a);
  RequireDefined(b);
  constexpr const char* kSymbols[] = {"<", "<=", ">", ">="};
  Fail("'", kSymbols[static_cast<int>(order)], "' not supported between instances of '",
       a.TypeName(), "' and '", b.TypeName(), "'");
}

bool Contains(Runtime& runtime, const Value& container, const Value& item) {
  if (container.is_string()) {
    if (!item.is_string()) {
      RequireDefined(item);
      Fail("'in <string>' requires string as left operand, not ", item.TypeName());
    }
    runtime.budget().Bytes(container.AsText().size());
    return FindBytes(container.AsText().view(), item.AsText().view(), 0) != std::string_view::npos;
  }
  if (container.is_dict()) return container.AsDict().Find(runtime, item) != nullptr;
  if (container.is_sequence()) {
    const std::vector<Value>& items = container.AsItems();
    return std::any_of(items.begin(), items.end(),
                       [&](const Value& one) { return Equal(runtime, one, item); });
  }
  if (!IsIterable(container)) Fail("argument of type '", container.TypeName(), "' is not iterable");
  const Next next = Iterate(runtime, container);
  for (Value one; next(one);) {
    if (Equal(runtime, one, item)) return true;
  }
  return false;
}

uint64_t Hash(Runtime& runtime, const Value& value) {
  switch (value.kind()) {
    case Kind::kUndefined:
      return 1;
    case Kind::kNone:
      return 2;
    case Kind::kBool:
    case Kind::kInt:
      return std::hash<double>()(static_cast<double>(value.AsInt()));
    case Kind::kFloat:
      return std::hash<double>()(value.AsDouble());  // 1 == 1.0 == true
    case Kind::kString:
      runtime.budget().Bytes(value.AsText().size());
      return std::hash<std::string_view>()(value.AsText().view());
    case Kind::kTuple: {
      runtime.budget().Steps(value.AsItems().size());
      uint64_t hash = 3;
      for (const Value& item : value.AsItems()) hash = hash * 1000003 + Hash(runtime, item);
      return hash;
    }
    case Kind::kList:
    case Kind::kDict:
      Fail("unhashable type: '", value.TypeName(), "'");
    case Kind::kObject: {
      const std::optional<int64_t> length = value.AsObject().Length(runtime);
      return length ? static_cast<uint64_t>(*length) : 4;  // equal ranges have equal lengths
    }
  }
  return 0;
}

Value Add(Runtime& runtime, const Value& a, const Value& b) {
  if (BothIntegral(a, b)) {
    int64_t sum = 0;
    if (__builtin_add_overflow(a.AsInt(), b.AsInt(), &sum)) Overflow("+");
    return Value(sum);
  }
  if (BothNumbers(a, b)) return Value(a.AsDouble() + b.AsDouble());
  if (a.is_string() && b.is_string()) return Value(Concatenate(runtime, a.AsText(), b.AsText()));
  if ((a.is_list() && b.is_list()) || (a.is_tuple() && b.is_tuple())) {
    runtime.budget().Steps(a.AsItems().size() + b.AsItems().size());
    std::vector<Value> items = a.AsItems();
    items.insert(items.end(), b.AsItems().begin(), b.AsItems().end());
    return a.is_list() ? Value::MakeList(runtime, std::move(items))
                       : Value::MakeTuple(runtime, std::move(items));
  }
  RequireDefined(a);
  RequireDefined(b);
  if (a.is_string() || a.is_sequence()) {
    Fail("can only concatenate ", a.TypeName(), " (not \"", b.TypeName(), "\") to ", a.TypeName());
  }
  Unsupported("+", a, b);
}

Value Subtract(Runtime&, const Value& a, const Value& b) {
  if (BothIntegral(a, b)) {
    int64_t difference = 0;
    if (__builtin_sub_overflow(a.AsInt(), b.AsInt(), &difference)) Overflow("-");
    return Value(difference);
  }
  if (BothNumbers(a, b)) return Value(a.AsDouble() - b.AsDouble());
  Unsupported("-", a, b);
}

Value Multiply(Runtime& runtime, const Value& a, const Value& b) {
  if (BothIntegral(a, b)) {
    int64_t product = 0;
    if (__builtin_mul_overflow(a.AsInt(), b.AsInt(), &product)) Overflow("*");
    return Value(product);
  }
  if (BothNumbers(a, b)) return Value(a.AsDouble() * b.AsDouble());
  if ((a.is_string() || a.is_sequence()) && b.is_integral()) return Repeated(runtime, a, b.AsInt());
  if ((b.is_string() || b.is_sequence()) && a.is_integral()) return Repeated(runtime, b, a.AsInt());
  if ((a.is_string() || a.is_sequence()) && !b.is_undefined()) {
    Fail("can't multiply sequence by non-int of type '", b.TypeName(), "'");
  }
  Unsupported("*", a, b);
}

Value Divide(Runtime&, const Value& a, const Value& b) {
  if (!BothNumbers(a, b)) Unsupported("/", a, b);
  if (b.AsDouble() == 0) Fail("division by zero");
  return Value(a.AsDouble() / b.AsDouble());
}

Value FloorDivide(Runtime&, const Value& a, const Value& b) {
  if (!BothNumbers(a, b)) Unsupported("//", a, b);
  if (BothIntegral(a, b)) {
    const int64_t x = a.AsInt();
    const int64_t y = b.AsInt();
    if (y == 0) IntegerDivisionByZero();
    if (x == kMinInt && y == -1) Overflow("//");
    return Value(x / y - ((x % y != 0 && (x < 0) != (y < 0)) ? 1 : 0));
  }
  if (b.AsDouble() == 0) IntegerDivisionByZero();
  double remainder = 0;
  return Value(FloorDivideFloats(a.AsDouble(), b.AsDouble(), remainder));
}

Value Modulo(Runtime& runtime, const Value& a, const Value& b) {
  if (a.is_string()) return Value(FormatPercent(runtime, a.AsText(), b));
  if (!BothNumbers(a, b)) Unsupported("%", a, b);
  if (BothIntegral(a, b)) {
    const int64_t y = b.AsInt();
    if (y == 0) IntegerDivisionByZero();
    if (y == -1) return Value(int64_t{0});
    const int64_t remainder = a.AsInt() % y;
    return Value(remainder != 0 && (remainder < 0) != (y < 0) ? remainder + y : remainder);
  }
  if (b.AsDouble() == 0) IntegerDivisionByZero();
  double remainder = 0;
  FloorDivideFloats(a.AsDouble(), b.AsDouble(), remainder);
  return Value(remainder);
}

Value Power(Runtime&, const Value& a, const Value& b) {
  if (!BothNumbers(a, b)) Unsupported("** or pow()", a, b);
  if (BothIntegral(a, b) && b.AsInt() >= 0) return Value(PowerOfInts(a.AsInt(), b.AsInt()));
  const double base = a.AsDouble();
  const double exponent = b.AsDouble();
  if (base == 0 && exponent < 0) Fail("0.0 cannot be raised to a negative power");
  if (base < 0 && std::isfinite(base) && std::isfinite(exponent) &&
      exponent != std::floor(exponent)) {
    Fail(
        "a negative number cannot be raised to a fractional power (complex numbers are not "
        "supported)");
  }
  const double result = std::pow(base, exponent);
  if (std::isinf(result) && std::isfinite(base) && std::isfinite(exponent)) {
    Fail("result of ** is too large");
  }
  return Value(result);
}

Value Negate(const Value& value) {
  if (value.is_float()) return Value(-value.AsDouble());
  if (!value.is_integral()) {
    RequireDefined(value);
    Fail("bad operand type for unary -: '", value.TypeName(), "'");
  }
  if (value.AsInt() == kMinInt) Overflow("-");
  return Value(-value.AsInt());
}

Value Plus(const Value& value) {
  if (value.is_float()) return value;
  if (!value.is_integral()) {
    RequireDefined(value);
    Fail("bad operand type for unary +: '", value.TypeName(), "'");
  }
  return Value(value.AsInt());
}

int64_t Length(Runtime& runtime, const Value& value) {
  switch (value.kind()) {
    case Kind::kUndefined:
      return 0;
    case Kind::kString:
      runtime.budget().Bytes(value.AsText().size());
      return static_cast<int64_t>(CountUtf8(value.AsText().view()));
    case Kind::kList:
    case Kind::kTuple:
      return static_cast<int64_t>(value.AsItems().size());
    case Kind::kDict:
      return static_cast<int64_t>(value.AsDict().items().size());
    case Kind::kObject:
      if (const auto length = value.AsObject().Length(runtime)) return *length;
      break;
    default:
      break;
  }
  Fail("object of type '", value.TypeName(), "' has no len()");
}

bool IsIterable(const Value& value) {
  switch (value.kind()) {
    case Kind::kUndefined:
    case Kind::kString:
    case Kind::kList:
    case Kind::kTuple:
    case Kind::kDict:
      return true;
    case Kind::kObject:
      return value.AsObject().iterable();
    default:
      return false;
  }
}

Next Iterate(Runtime& runtime, const Value& value) {
  switch (value.kind()) {
    case Kind::kUndefined:
      return [](Value&) { return false; };
    case Kind::kString:
      return IterateChars(runtime, value.AsText());
    case Kind::kList:
    case Kind::kTuple:
      return [value, index = size_t{0}](Value& out) mutable {
        const std::vector<Value>& items = value.AsItems();
        if (index >= items.size()) return false;
        out = items[index++];
        return true;
      };
    case Kind::kDict:
      return [dict = value.SharedDict(), index = size_t{0}](Value& out) mutable {
        if (index >= dict->items().size()) return false;
        out = dict->items()[index++].first;
        return true;
      };
    case Kind::kObject:
      return value.AsObject().Iterate(runtime);
    default:
      Fail("'", value.TypeName(), "' object is not iterable");
  }
}

std::vector<Value> Items(Runtime& runtime, const Value& value) {
  if (value.is_sequence()) {
    runtime.budget().Steps(value.AsItems().size());
    return value.AsItems();
  }
  std::vector<Value> items;
  const Next next = Iterate(runtime, value);
  for (Value item; next(item);) {
    runtime.budget().Steps();
    items.push_back(std::move(item));
  }
  return items;
}

int64_t ToIndex(const Value& value, const char* what) {
  if (!value.is_integral()) {
    RequireDefined(value);
    Fail(what, " must be an integer, not '", value.TypeName(), "'");
  }
  return value.AsInt();
}

}  // namespace erne::jinja
