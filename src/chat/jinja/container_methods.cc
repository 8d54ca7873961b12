// Methods of list, tuple, dict and float, and what the sandbox refuses.
#include <algorithm>
#include <cmath>

#include "chat/jinja/arguments.h"
#include "chat/jinja/method_tables.h"
#include "chat/jinja/objects.h"
#include "chat/jinja/operators.h"

namespace erne::jinja {
namespace {

Value DictGet(Runtime& runtime, const Value& self, CallArgs& args) {
  const BoundArgs bound(runtime, args, "get", {"key", "default"}, 1);
  const Value* found = self.AsDict().Find(runtime, *bound.Get(0));
  if (found != nullptr) return *found;
  return bound.Get(1) == nullptr ? Value(Value::None{}) : *bound.Get(1);
}

Value View(Runtime& runtime, const Value& self, const CallArgs& args, const char* name,
           DictView::Part part) {
  const BoundArgs bound(runtime, args, name, {});
  runtime.CheckDepth(self.Depth() + 1);
  return Value(
      std::static_pointer_cast<Object>(std::make_shared<DictView>(self.SharedDict(), part)));
}
Value DictItems(Runtime& runtime, const Value& self, CallArgs& args) {
  return View(runtime, self, args, "items", DictView::Part::kItems);
}
Value DictKeys(Runtime& runtime, const Value& self, CallArgs& args) {
  return View(runtime, self, args, "keys", DictView::Part::kKeys);
}
Value DictValues(Runtime& runtime, const Value& self, CallArgs& args) {
  return View(runtime, self, args, "values", DictView::Part::kValues);
}

// Nothing can change the original, so a copy is the same.
Value Copy(Runtime& runtime, const Value& self, CallArgs& args) {
  const BoundArgs bound(runtime, args, "copy", {});
  return self;
}

Value SequenceCount(Runtime& runtime, const Value& self, CallArgs& args) {
  const BoundArgs bound(runtime, args, "count", {"value"}, 1);
  const std::vector<Value>& items = self.AsItems();
  return Value(
      static_cast<int64_t>(std::count_if(items.begin(), items.end(), [&](const Value& item) {
        return Equal(runtime, item, *bound.Get(0));
      })));
}

Value SequenceIndex(Runtime& runtime, const Value& self, CallArgs& args) {
  const BoundArgs bound(runtime, args, "index", {"value", "start", "stop"}, 1);
  const std::vector<Value>& items = self.AsItems();
  const auto size = static_cast<int64_t>(items.size());
  const auto clip = [size](int64_t at) {
    return std::clamp<int64_t>(at < 0 ? at + size : at, 0, size);
  };
  const int64_t stop = clip(bound.Int(2, size));
  for (int64_t i = clip(bound.Int(1, 0)); i < stop; ++i) {
    if (Equal(runtime, items[static_cast<size_t>(i)], *bound.Get(0))) return Value(i);
  }
  Fail(Repr(runtime, *bound.Get(0)).view(), " is not in ", self.TypeName());
}

Value FloatIsInteger(Runtime& runtime, const Value& self, CallArgs& args) {
  const BoundArgs bound(runtime, args, "is_integer", {});
  const double value = self.AsDouble();
  return Value(std::isfinite(value) && value == std::floor(value));
}

constexpr MethodEntry kDictMethods[] = {{"copy", Copy},
                                        {"get", DictGet},
                                        {"items", DictItems},
                                        {"keys", DictKeys},
                                        {"values", DictValues}};
constexpr MethodEntry kListMethods[] = {
    {"copy", Copy}, {"count", SequenceCount}, {"index", SequenceIndex}};
constexpr MethodEntry kTupleMethods[] = {{"count", SequenceCount}, {"index", SequenceIndex}};
constexpr MethodEntry kFloatMethods[] = {{"is_integer", FloatIsInteger}};

std::span<const MethodEntry> MethodsOf(Kind kind) {
  switch (kind) {
    case Kind::kString:
      return StringMethods();
    case Kind::kList:
      return kListMethods;
    case Kind::kTuple:
      return kTupleMethods;
    case Kind::kDict:
      return kDictMethods;
    case Kind::kFloat:
      return kFloatMethods;
    default:
      return {};
  }
}

}  // namespace

MethodFunction FindMethod(Kind kind, std::string_view name) {
  for (const MethodEntry& entry : MethodsOf(kind)) {
    if (entry.name == name) return entry.function;
  }
  return nullptr;
}

bool IsUnsafeAttribute(Kind kind, std::string_view name) {
  constexpr std::string_view kOfDicts[] = {"clear", "pop", "popitem", "setdefault", "update"};
  constexpr std::string_view kOfLists[] = {"append", "clear", "pop",    "reverse",
                                           "insert", "sort",  "extend", "remove"};
  if (kind == Kind::kDict)
    return std::find(std::begin(kOfDicts), std::end(kOfDicts), name) != std::end(kOfDicts);
  if (kind == Kind::kList)
    return std::find(std::begin(kOfLists), std::end(kOfLists), name) != std::end(kOfLists);
  return false;
}

}  // namespace erne::jinja
