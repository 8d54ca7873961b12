// The built-in kinds of Object.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "chat/jinja/runtime.h"
#include "chat/jinja/value.h"

namespace erne::jinja {

// range(start, stop, step), never written out.
class Range : public Object {
 public:
  // `length` is the number of items that the other three come to.
  Range(int64_t start, int64_t stop, int64_t step, int64_t length)
      : start_(start), stop_(stop), step_(step), length_(length) {}
  const char* TypeName() const override { return "range"; }
  bool iterable() const override { return true; }
  Next Iterate(Runtime& runtime) override;
  std::optional<int64_t> Length(Runtime&) override { return length_; }
  bool Truth(Runtime&) override { return length_ > 0; }
  std::optional<Value> Item(Runtime& runtime, const Value& key) override;
  bool Equals(Runtime& runtime, const Object& other) const override;
  void Repr(Runtime& runtime, TextBuilder& out) const override;

  int64_t At(int64_t index) const { return start_ + index * step_; }  // index below the length
  // The `count` items from `begin` on by `stride`.
  std::shared_ptr<Range> Sub(int64_t begin, int64_t stride, int64_t count) const;

 private:
  int64_t start_;
  int64_t stop_;  // for repr alone
  int64_t step_;
  int64_t length_;
};

// What map, select and their like give: items on demand, once.
class Generator : public Object {
 public:
  // Copies of `next` must share their position. `depth` is that of what it draws from: generators
  // over generators recurse.
  Generator(Runtime& runtime, Next next, int depth) : next_(std::move(next)), depth_(depth + 1) {
    runtime.budget().Steps();
    runtime.CheckDepth(depth_);
  }
  const char* TypeName() const override { return "generator"; }
  bool iterable() const override { return true; }
  Next Iterate(Runtime&) override { return next_; }
  int Depth() const override { return depth_; }

 private:
  Next next_;  // copies share what they draw from
  int depth_;
};

// dict.keys(), .values(), .items().
class DictView : public Object {
 public:
  enum class Part { kKeys, kValues, kItems };
  DictView(std::shared_ptr<const Dict> dict, Part part) : dict_(std::move(dict)), part_(part) {}
  const char* TypeName() const override;
  bool iterable() const override { return true; }
  Next Iterate(Runtime& runtime) override;
  std::optional<int64_t> Length(Runtime&) override {
    return static_cast<int64_t>(dict_->items().size());
  }
  bool Truth(Runtime&) override { return !dict_->items().empty(); }
  void Repr(Runtime& runtime, TextBuilder& out) const override;
  int Depth() const override { return dict_->depth() + 1; }

 private:
  std::shared_ptr<const Dict> dict_;
  Part part_;
};

// A method of a built-in kind together with its object: `{% set f = text.strip %}`.
using MethodFunction = Value (*)(Runtime& runtime, const Value& self, CallArgs& args);
class BoundMethod : public Object {
 public:
  BoundMethod(Value self, MethodFunction function) : self_(std::move(self)), function_(function) {}
  const char* TypeName() const override { return "builtin_function_or_method"; }
  bool callable() const override { return true; }
  Value Call(Runtime& runtime, CallArgs& args) override { return function_(runtime, self_, args); }
  int Depth() const override { return self_.Depth() + 1; }

 private:
  Value self_;
  MethodFunction function_;
};

// A global function: range, namespace, dict, raise_exception, strftime_now.
using GlobalFunction = Value (*)(Runtime& runtime, CallArgs& args);
class Builtin : public Object {
 public:
  explicit Builtin(GlobalFunction function) : function_(function) {}
  const char* TypeName() const override { return "function"; }
  bool callable() const override { return true; }
  Value Call(Runtime& runtime, CallArgs& args) override { return function_(runtime, args); }

 private:
  GlobalFunction function_;
};

}  // namespace erne::jinja
