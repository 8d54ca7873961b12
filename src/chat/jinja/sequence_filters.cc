// Filters over items.
#include <algorithm>
#include <functional>
#include <memory>
#include <utility>

#include "base/strings.h"
#include "base/utf8.h"
#include "chat/jinja/arguments.h"
#include "chat/jinja/filter_tables.h"
#include "chat/jinja/operators.h"
#include "chat/jinja/strings.h"
#include "chat/jinja/unicode.h"

namespace erne::jinja {
namespace {

// Python's generator functions begin their work, and find fault with their arguments, at the first
// item that is asked of them; so does this. `begin` gives the function that yields the items;
// copies of the result share its position.
template <typename Begin>
Value MakeGenerator(Runtime& runtime, int depth, Begin begin) {
  struct State {
    Begin begin;
    Next next;
  };
  auto state = std::make_shared<State>(State{std::move(begin), nullptr});
  Next next = [state](Value& out) {
    if (state->next == nullptr) state->next = state->begin();
    return state->next(out);
  };
  return Value(std::static_pointer_cast<Object>(
      std::make_shared<Generator>(runtime, std::move(next), depth)));
}

// The items of a vector, shared by the copies of the function.
Next DrainVector(std::vector<Value> items) {
  return [state = std::make_shared<std::pair<std::vector<Value>, size_t>>(std::move(items), 0)](
             Value& out) {
    if (state->second >= state->first.size()) return false;
    out = std::move(state->first[state->second++]);
    return true;
  };
}

Value IgnoreCase(Runtime& runtime, const Value& value) {
  return value.is_string() ? Value(ChangeCase(runtime, value.AsText(), Case::kLower)) : value;
}

// What `attribute="a.b.0"` takes from an item.
class AttributeGetter {
 public:
  // `attribute` is null for the item itself. `fallback` stands for undefined values, unless null.
  AttributeGetter(const Value* attribute, const Value* fallback) {
    if (fallback != nullptr) fallback_ = *fallback;
    if (attribute == nullptr || attribute->is_none()) return;
    if (!attribute->is_string()) {
      path_.push_back(*attribute);
      return;
    }
    for (const std::string& part : Split(attribute->AsText().view(), '.')) {
      const bool digits = !part.empty() && std::all_of(part.begin(), part.end(),
                                                       [](char c) { return c >= '0' && c <= '9'; });
      const auto number = ParseNumber<int64_t>(part);
      path_.push_back(digits && number ? Value(*number) : Value::Literal(part));
    }
  }

  Value operator()(Runtime& runtime, Value item) const {
    for (const Value& part : path_) {
      runtime.budget().Steps();
      item = GetItem(runtime, item, part);
      if (item.is_undefined() && fallback_) item = *fallback_;
    }
    return item;
  }

 private:
  std::vector<Value> path_;
  std::optional<Value> fallback_;
};

Value Default(Runtime& runtime, const Value& input, CallArgs& args) {
  const BoundArgs bound(runtime, args, "default", {"default_value", "boolean"});
  const bool use = input.is_undefined() || (bound.Bool(1, false) && !Truthy(runtime, input));
  if (!use) return input;
  return bound.Get(0) == nullptr ? Value(Text()) : *bound.Get(0);
}

Value LengthFilter(Runtime& runtime, const Value& input, CallArgs& args) {
  const BoundArgs bound(runtime, args, "length", {});
  return Value(Length(runtime, input));
}

Value List(Runtime& runtime, const Value& input, CallArgs& args) {
  const BoundArgs bound(runtime, args, "list", {});
  return Value::MakeList(runtime, Items(runtime, input));
}

Value First(Runtime& runtime, const Value& input, CallArgs& args) {
  const BoundArgs bound(runtime, args, "first", {});
  Value item;
  if (Iterate(runtime, input)(item)) return item;
  return Value::Undefined("No first item, sequence was empty.");
}

// Whether Python's reversed() takes it; generators have no end to begin at.
bool IsReversible(const Value& value) {
  return IsIterable(value) && std::string_view(value.TypeName()) != "generator";
}

Value Last(Runtime& runtime, const Value& input, CallArgs& args) {
  const BoundArgs bound(runtime, args, "last", {});
  if (!IsReversible(input)) Fail("'", input.TypeName(), "' object is not reversible");
  std::vector<Value> items = Items(runtime, input);
  return items.empty() ? Value::Undefined("No last item, sequence was empty.")
                       : std::move(items.back());
}

Value Reverse(Runtime& runtime, const Value& input, CallArgs& args) {
  const BoundArgs bound(runtime, args, "reverse", {});
  if (input.is_string()) {
    return Slice(runtime, input, Value(Value::None{}), Value(Value::None{}), Value(int64_t{-1}));
  }
  std::vector<Value> items = Items(runtime, input);
  std::reverse(items.begin(), items.end());
  if (!IsReversible(input)) return Value::MakeList(runtime, std::move(items));
  return MakeGenerator(runtime, input.Depth(),
                       [items = std::move(items)] { return DrainVector(items); });
}

Value JoinFilter(Runtime& runtime, const Value& input, CallArgs& args) {
  const BoundArgs bound(runtime, args, "join", {"d", "attribute"});
  const Text separator = bound.String(0);
  const AttributeGetter getter(bound.Get(1), nullptr);
  TextBuilder out(runtime.budget());
  const Next next = Iterate(runtime, input);
  bool first = true;
  for (Value item; next(item);) {
    runtime.budget().Steps();
    if (!first) out.Append(separator);
    first = false;
    out.Append(ToText(runtime, getter(runtime, std::move(item))));
  }
  return Value(out.Build());
}

Value ItemsFilter(Runtime& runtime, const Value& input, CallArgs& args) {
  const BoundArgs bound(runtime, args, "items", {});
  return MakeGenerator(runtime, input.Depth(), [&runtime, input]() -> Next {
    if (input.is_undefined()) return [](Value&) { return false; };
    if (!input.is_dict()) Fail("Can only get item pairs from a mapping.");
    return DictView(input.SharedDict(), DictView::Part::kItems).Iterate(runtime);
  });
}

// Items with the keys they are sorted by.
using Keyed = std::vector<std::pair<Value, Value>>;

std::vector<Value> SortedItems(Runtime& runtime, Keyed keyed, bool reverse) {
  // Equal items keep their order in both directions, as in Python.
  std::stable_sort(keyed.begin(), keyed.end(), [&](const auto& a, const auto& b) {
    return reverse ? Less(runtime, b.first, a.first) : Less(runtime, a.first, b.first);
  });
  std::vector<Value> items;
  items.reserve(keyed.size());
  for (auto& [key, item] : keyed) items.push_back(std::move(item));
  return items;
}

Value Sort(Runtime& runtime, const Value& input, CallArgs& args) {
  const BoundArgs bound(runtime, args, "sort", {"reverse", "case_sensitive", "attribute"});
  const bool case_sensitive = bound.Bool(1, false);
  std::vector<AttributeGetter> getters;
  const Value* attribute = bound.Get(2);
  if (attribute != nullptr && attribute->is_string()) {
    for (const std::string& one : Split(attribute->AsText().view(), ',')) {
      const Value name = Value::Literal(one);
      getters.emplace_back(&name, nullptr);
    }
  } else {
    getters.emplace_back(attribute, nullptr);
  }
  Keyed keyed;
  for (Value& item : Items(runtime, input)) {
    std::vector<Value> keys;
    for (const AttributeGetter& getter : getters) {
      Value key = getter(runtime, item);
      keys.push_back(case_sensitive ? std::move(key) : IgnoreCase(runtime, key));
    }
    Value key = Value::MakeTuple(runtime, std::move(keys));
    keyed.emplace_back(std::move(key), std::move(item));
  }
  return Value::MakeList(runtime, SortedItems(runtime, std::move(keyed), bound.Bool(0, false)));
}

Value DictSort(Runtime& runtime, const Value& input, CallArgs& args) {
  const BoundArgs bound(runtime, args, "dictsort", {"case_sensitive", "by", "reverse"});
  const Text by = bound.String(1, "key");
  if (by.view() != "key" && by.view() != "value")
    Fail("You can only sort by either \"key\" or \"value\"");
  if (!input.is_dict()) {
    RequireDefined(input);
    Fail("dictsort works on mappings, not on '", input.TypeName(), "'");
  }
  const bool case_sensitive = bound.Bool(0, false);
  Keyed keyed;
  for (const auto& [key, value] : input.AsDict().items()) {
    const Value& chosen = by.view() == "key" ? key : value;
    keyed.emplace_back(case_sensitive ? chosen : IgnoreCase(runtime, chosen),
                       Value::MakeTuple(runtime, {key, value}));
  }
  return Value::MakeList(runtime, SortedItems(runtime, std::move(keyed), bound.Bool(2, false)));
}

Value Extreme(Runtime& runtime, const Value& input, const CallArgs& args, const char* name,
              bool largest) {
  const BoundArgs bound(runtime, args, name, {"case_sensitive", "attribute"});
  const AttributeGetter getter(bound.Get(1), nullptr);
  const bool case_sensitive = bound.Bool(0, false);
  std::optional<Value> best;
  Value best_key;
  const Next next = Iterate(runtime, input);
  for (Value item; next(item);) {
    runtime.budget().Steps();
    Value key = getter(runtime, item);
    if (!case_sensitive) key = IgnoreCase(runtime, key);
    const bool better = !best || (largest ? Ordered(runtime, key, best_key, Order::kGreater)
                                          : Ordered(runtime, key, best_key, Order::kLess));
    if (!better) continue;
    best = std::move(item);
    best_key = std::move(key);
  }
  return best ? *std::move(best) : Value::Undefined("No aggregated item, sequence was empty.");
}

Value Min(Runtime& runtime, const Value& input, CallArgs& args) {
  return Extreme(runtime, input, args, "min", false);
}
Value Max(Runtime& runtime, const Value& input, CallArgs& args) {
  return Extreme(runtime, input, args, "max", true);
}

Value Sum(Runtime& runtime, const Value& input, CallArgs& args) {
  const BoundArgs bound(runtime, args, "sum", {"attribute", "start"});
  const AttributeGetter getter(bound.Get(0), nullptr);
  Value total = bound.Get(1) == nullptr ? Value(int64_t{0}) : *bound.Get(1);
  if (total.is_string()) Fail("sum() can't sum strings [use ''.join(seq) instead]");
  const Next next = Iterate(runtime, input);
  for (Value item; next(item);) total = Add(runtime, total, getter(runtime, std::move(item)));
  return total;
}

Value Unique(Runtime& runtime, const Value& input, CallArgs& args) {
  const BoundArgs bound(runtime, args, "unique", {"case_sensitive", "attribute"});
  const bool case_sensitive = bound.Bool(0, false);
  const AttributeGetter getter(bound.Get(1), nullptr);
  return MakeGenerator(runtime, input.Depth(), [&runtime, input, case_sensitive, getter]() -> Next {
    return [&runtime, case_sensitive, getter, source = Iterate(runtime, input),
            seen = std::make_shared<Dict>()](Value& out) {
      while (source(out)) {
        Value key = getter(runtime, out);
        if (!case_sensitive) key = IgnoreCase(runtime, key);
        if (seen->Find(runtime, key) != nullptr) continue;
        seen->Set(runtime, std::move(key), Value(true));
        return true;
      }
      return false;
    };
  });
}

// Rows of `count` items; the last is filled up with `fill` unless that is null.
std::vector<Value> Rows(Runtime& runtime, const Value& input, int64_t count, const Value* fill) {
  std::vector<Value> rows;
  std::vector<Value> row;
  for (Value& item : Items(runtime, input)) {
    if (static_cast<int64_t>(row.size()) == count) {
      rows.push_back(Value::MakeList(runtime, std::exchange(row, {})));
    }
    row.push_back(std::move(item));
  }
  if (row.empty()) return rows;
  while (fill != nullptr && static_cast<int64_t>(row.size()) < count) {
    runtime.budget().Steps();
    row.push_back(*fill);
  }
  rows.push_back(Value::MakeList(runtime, std::move(row)));
  return rows;
}

// `count` columns, the first ones one item longer where it does not divide; the others get `fill`
// then.
std::vector<Value> Columns(Runtime& runtime, const Value& input, int64_t count, const Value* fill) {
  const std::vector<Value> items = Items(runtime, input);
  if (count == 0) Fail("integer division or modulo by zero");
  const auto length = static_cast<int64_t>(items.size());
  std::vector<Value> columns;
  auto begin = items.begin();
  for (int64_t i = 0; i < count; ++i) {
    const bool longer = i < length % count;
    const auto end = begin + (length / count + (longer ? 1 : 0));
    std::vector<Value> column(begin, end);
    if (fill != nullptr && !longer) column.push_back(*fill);
    columns.push_back(Value::MakeList(runtime, std::move(column)));
    begin = end;
  }
  return columns;
}

template <std::vector<Value> (*kArrange)(Runtime&, const Value&, int64_t, const Value*)>
Value Arrange(Runtime& runtime, const Value& input, CallArgs& args) {
  const BoundArgs bound(runtime, args, "this filter", {"count", "fill_with"}, 1);
  const int64_t count = bound.Int(0, 1);
  const Value fill = bound.Get(1) == nullptr ? Value(Value::None{}) : *bound.Get(1);
  return MakeGenerator(
      runtime, std::max(input.Depth(), fill.Depth()) + 1, [&runtime, input, count, fill] {
        return DrainVector(kArrange(runtime, input, count, fill.is_none() ? nullptr : &fill));
      });
}

// The arguments behind the first `skip`, for the filter or test that map and select apply.
CallArgs ArgsFrom(CallArgs args, size_t skip) {
  const size_t end = std::min(skip, args.positional.size());
  args.positional.erase(args.positional.begin(),
                        args.positional.begin() + static_cast<std::ptrdiff_t>(end));
  return args;
}

int ArgsDepth(const Value& input, const CallArgs& args) {
  int depth = input.Depth();
  for (const Value& value : args.positional) depth = std::max(depth, value.Depth());
  for (const auto& [name, value] : args.named) depth = std::max(depth, value.Depth());
  return depth;
}

Next Nothing() {
  return [](Value&) { return false; };
}

// What map does to an item: takes an attribute, or applies a filter.
std::function<Value(Value)> Mapping(Runtime& runtime, const CallArgs& args) {
  if (args.positional.empty()) {
    const BoundArgs bound(runtime, args, "map", {"attribute", "default"});
    if (bound.Get(0) == nullptr) Fail("map requires a filter argument");
    return [&runtime, getter = AttributeGetter(bound.Get(0), bound.GetUnlessNone(1))](Value item) {
      return getter(runtime, std::move(item));
    };
  }
  const Text name = ToText(runtime, args.positional[0]);
  const FilterFunction function = FindFilter(name.view());
  if (function == nullptr) Fail("No filter named '", name.view(), "'.");
  return [&runtime, function, rest = ArgsFrom(args, 1)](const Value& item) {
    CallArgs copy = rest;
    return function(runtime, item, copy);
  };
}

Value Map(Runtime& runtime, const Value& input, CallArgs& args) {
  return MakeGenerator(runtime, ArgsDepth(input, args), [&runtime, input, args]() -> Next {
    if (!Truthy(runtime, input)) return Nothing();
    return
        [&runtime, mapping = Mapping(runtime, args), source = Iterate(runtime, input)](Value& out) {
          if (!source(out)) return false;
          runtime.budget().Steps();
          out = mapping(std::move(out));
          return true;
        };
  });
}

// What select and its like ask of an item: whether it, or its attribute, passes a test, which is
// truth when none is named.
std::function<bool(const Value&)> Selection(Runtime& runtime, const CallArgs& args,
                                            bool by_attribute) {
  const size_t skip = by_attribute ? 1 : 0;
  if (args.positional.size() < skip) Fail("Missing parameter for attribute name");
  const AttributeGetter getter(by_attribute ? &args.positional[0] : nullptr, nullptr);
  if (args.positional.size() == skip) {
    return [&runtime, getter](const Value& item) { return Truthy(runtime, getter(runtime, item)); };
  }
  const Text name = ToText(runtime, args.positional[skip]);
  const TestFunction test = FindTest(name.view());
  if (test == nullptr) Fail("No test named '", name.view(), "'.");
  return [&runtime, getter, test, rest = ArgsFrom(args, skip + 1)](const Value& item) {
    CallArgs copy = rest;
    return test(runtime, getter(runtime, item), copy);
  };
}

template <bool kByAttribute, bool kWanted>
Value SelectBy(Runtime& runtime, const Value& input, CallArgs& args) {
  return MakeGenerator(runtime, ArgsDepth(input, args), [&runtime, input, args]() -> Next {
    if (!Truthy(runtime, input)) return Nothing();
    return [&runtime, passes = Selection(runtime, args, kByAttribute),
            source = Iterate(runtime, input)](Value& out) {
      while (source(out)) {
        runtime.budget().Steps();
        if (passes(out) == kWanted) return true;
      }
      return false;
    };
  });
}

constexpr FilterEntry kFilters[] = {
    {"batch", Arrange<Rows>},
    {"count", LengthFilter},
    {"d", Default},
    {"default", Default},
    {"dictsort", DictSort},
    {"first", First},
    {"items", ItemsFilter},
    {"join", JoinFilter},
    {"last", Last},
    {"length", LengthFilter},
    {"list", List},
    {"map", Map},
    {"max", Max},
    {"min", Min},
    {"reject", SelectBy<false, false>},
    {"rejectattr", SelectBy<true, false>},
    {"reverse", Reverse},
    {"select", SelectBy<false, true>},
    {"selectattr", SelectBy<true, true>},
    {"slice", Arrange<Columns>},
    {"sort", Sort},
    {"sum", Sum},
    {"unique", Unique},
};

}  // namespace

std::span<const FilterEntry> SequenceFilters() { return kFilters; }

FilterFunction FindFilter(std::string_view name) {
  for (const auto filters : {TextFilters(), SequenceFilters()}) {
    for (const FilterEntry& entry : filters) {
      if (entry.name == name) return entry.function;
    }
  }
  return nullptr;
}

}  // namespace erne::jinja
