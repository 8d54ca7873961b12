// Python's operations on values. Errors are phrased as Python's.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "chat/jinja/runtime.h"
#include "chat/jinja/value.h"

namespace erne::jinja {

bool Truthy(Runtime& runtime, const Value& value);
bool Equal(Runtime& runtime, const Value& a, const Value& b);
enum class Order { kLess, kLessEqual, kGreater, kGreaterEqual };
// a < b, a <= b, ... Fails for kinds without an order.
bool Ordered(Runtime& runtime, const Value& a, const Value& b, Order order);
inline bool Less(Runtime& runtime, const Value& a, const Value& b) {
  return Ordered(runtime, a, b, Order::kLess);
}
bool Contains(Runtime& runtime, const Value& container, const Value& item);
uint64_t Hash(Runtime& runtime, const Value& value);  // fails for unhashable kinds

Value Add(Runtime& runtime, const Value& a, const Value& b);
Value Subtract(Runtime& runtime, const Value& a, const Value& b);
Value Multiply(Runtime& runtime, const Value& a, const Value& b);
Value Divide(Runtime& runtime, const Value& a, const Value& b);
Value FloorDivide(Runtime& runtime, const Value& a, const Value& b);
Value Modulo(Runtime& runtime, const Value& a, const Value& b);
Value Power(Runtime& runtime, const Value& a, const Value& b);
Value Negate(const Value& value);
Value Plus(const Value& value);

// len(x).
int64_t Length(Runtime& runtime, const Value& value);
bool IsIterable(const Value& value);
Next Iterate(Runtime& runtime, const Value& value);
// All items, in a list that is paid from the budget.
std::vector<Value> Items(Runtime& runtime, const Value& value);

// `value.name`: attribute first, then item. `value[key]`: the other way round. Undefined when there
// is neither.
Value GetAttribute(Runtime& runtime, const Value& value, std::string_view name);
Value GetItem(Runtime& runtime, const Value& value, const Value& key);
// value[start:stop:step]; absent bounds are none.
Value Slice(Runtime& runtime, const Value& value, const Value& start, const Value& stop,
            const Value& step);

// str(x), and repr(x).
Text ToText(Runtime& runtime, const Value& value);
void AppendRepr(Runtime& runtime, const Value& value, TextBuilder& out);
Text Repr(Runtime& runtime, const Value& value);
std::string FormatFloat(double value);  // repr of a Python float

// JSON as json.dumps writes it. `indent` is what one level adds, nothing for one line.
struct JsonStyle {
  bool ascii = false;
  bool sort_keys = false;
  std::optional<std::string> indent;
  std::string item_separator = ", ";
  std::string key_separator = ": ";
  bool trusted = true;  // whether the separators are
};
Text ToJson(Runtime& runtime, const Value& value, const JsonStyle& style);

// int(x) where an index or a count is wanted: fails unless integral. `what` names the argument.
int64_t ToIndex(const Value& value, const char* what);
// Fails for undefined values with the reason, which is the error that any use of one raises.
void RequireDefined(const Value& value);

}  // namespace erne::jinja
