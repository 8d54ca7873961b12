// Values of a template, with Python's kinds and rules. Lists, tuples and dicts are immutable, as in
// transformers' ImmutableSandboxedEnvironment; the one thing a template can change is a namespace.
//
// Values belong to one rendering and one thread. (Constants of a compiled template are shared, and
// never written.)
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "chat/jinja/text.h"

namespace erne::jinja {

class Runtime;
class Value;
class Dict;
class Object;
struct CallArgs;

// The order is that of Value's variant.
enum class Kind { kUndefined, kNone, kBool, kInt, kFloat, kString, kList, kTuple, kDict, kObject };

// Items of a list or a tuple. `depth` is 1 more than that of the deepest item.
struct Sequence {
  std::vector<Value> items;
  int depth = 1;
};

// Yields the next item into its argument, or false at the end.
using Next = std::function<bool(Value&)>;

class Value {
 public:
  struct None {};
  struct List {
    std::shared_ptr<const Sequence> sequence;
  };
  struct Tuple {
    std::shared_ptr<const Sequence> sequence;
  };

  Value() = default;                              // undefined, for no particular reason
  Value(None) : data_(None{}) {}                  // NOLINT
  Value(bool value) : data_(value) {}             // NOLINT
  Value(int64_t value) : data_(value) {}          // NOLINT
  Value(double value) : data_(value) {}           // NOLINT
  Value(Text value) : data_(std::move(value)) {}  // NOLINT
  Value(std::shared_ptr<const Dict> value) : data_(std::move(value)) {}  // NOLINT
  Value(std::shared_ptr<Object> value) : data_(std::move(value)) {}      // NOLINT
  Value(const char*) = delete;
  // `why` is the error that using the value raises: "'x' is undefined".
  static Value Undefined(std::string why);
  // Text that the engine itself writes.
  static Value Literal(std::string_view text) { return Value(Text(std::string(text), true)); }
  static Value MakeList(Runtime& runtime, std::vector<Value> items);
  static Value MakeTuple(Runtime& runtime, std::vector<Value> items);

  Kind kind() const { return static_cast<Kind>(data_.index()); }
  bool is_undefined() const { return kind() == Kind::kUndefined; }
  bool is_none() const { return kind() == Kind::kNone; }
  bool is_bool() const { return kind() == Kind::kBool; }
  bool is_int() const { return kind() == Kind::kInt; }
  bool is_float() const { return kind() == Kind::kFloat; }
  bool is_string() const { return kind() == Kind::kString; }
  bool is_list() const { return kind() == Kind::kList; }
  bool is_tuple() const { return kind() == Kind::kTuple; }
  bool is_sequence() const { return is_list() || is_tuple(); }
  bool is_dict() const { return kind() == Kind::kDict; }
  bool is_object() const { return kind() == Kind::kObject; }
  bool is_integral() const { return is_int() || is_bool(); }  // bool is an int in Python
  bool is_number() const { return is_integral() || is_float(); }

  // Each requires the kind.
  bool AsBool() const { return std::get<bool>(data_); }
  int64_t AsInt() const { return is_bool() ? (AsBool() ? 1 : 0) : std::get<int64_t>(data_); }
  double AsDouble() const {
    return is_float() ? std::get<double>(data_) : static_cast<double>(AsInt());
  }
  const Text& AsText() const { return std::get<Text>(data_); }
  const std::vector<Value>& AsItems() const { return AsSequence().items; }
  const Dict& AsDict() const { return *std::get<std::shared_ptr<const Dict>>(data_); }
  std::shared_ptr<const Dict> SharedDict() const {
    return std::get<std::shared_ptr<const Dict>>(data_);
  }
  Object& AsObject() const { return *std::get<std::shared_ptr<Object>>(data_); }
  std::shared_ptr<Object> SharedObject() const { return std::get<std::shared_ptr<Object>>(data_); }

  // Why an undefined value is undefined.
  std::string UndefinedReason() const;
  // As Python's type(x).__name__.
  const char* TypeName() const;
  // Levels of containers: 0 for plain values. Bounds every recursion over a value, its destruction
  // included.
  int Depth() const;

 private:
  struct UndefinedInfo {
    std::shared_ptr<const std::string> why;
  };
  const Sequence& AsSequence() const {
    return is_list() ? *std::get<List>(data_).sequence : *std::get<Tuple>(data_).sequence;
  }

  std::variant<UndefinedInfo, None, bool, int64_t, double, Text, List, Tuple,
               std::shared_ptr<const Dict>, std::shared_ptr<Object>>
      data_;
};

// Insertion-ordered, as Python's. Filled once and then shared as const.
class Dict {
 public:
  using Item = std::pair<Value, Value>;

  // Adds or replaces. Fails for keys that Python cannot hash (lists, dicts) and for values nested
  // too deep.
  void Set(Runtime& runtime, Value key, Value value);
  const Value* Find(Runtime& runtime, const Value& key) const;
  const Value* Find(std::string_view key) const;

  const std::vector<Item>& items() const { return items_; }
  int depth() const { return depth_; }

 private:
  size_t Position(Runtime& runtime, const Value& key, uint64_t hash) const;

  std::vector<Item> items_;
  std::unordered_multimap<uint64_t, uint32_t>
      index_;  // hash -> position; used from kIndexFrom items on
  int depth_ = 1;
};

// Everything else: ranges, generators, namespaces, functions, the `loop` of a for statement.
class Object {
 public:
  Object() = default;
  Object(const Object&) = delete;
  Object& operator=(const Object&) = delete;
  virtual ~Object() = default;

  virtual const char* TypeName() const = 0;
  // The attribute, or nothing. (Names of no Python attribute may then be tried as items.)
  virtual std::optional<Value> Attribute(Runtime&, std::string_view) { return std::nullopt; }
  virtual std::optional<Value> Item(Runtime&, const Value&) { return std::nullopt; }
  virtual bool callable() const { return false; }
  virtual Value Call(Runtime& runtime, CallArgs& args);
  virtual bool iterable() const { return false; }
  virtual Next Iterate(Runtime& runtime);
  virtual std::optional<int64_t> Length(Runtime&) { return std::nullopt; }
  virtual bool Truth(Runtime&) { return true; }
  virtual bool Equals(Runtime&, const Object& other) const { return this == &other; }
  virtual void Repr(Runtime& runtime, TextBuilder& out) const;
  virtual int Depth() const { return 1; }
};

// Arguments of a call, evaluated.
struct CallArgs {
  std::vector<Value> positional;
  std::vector<std::pair<Text, Value>> named;  // a name that came with ** may be untrusted
};

}  // namespace erne::jinja
