#include "chat/jinja/loop.h"

#include <utility>

#include "chat/jinja/operators.h"

namespace erne::jinja {

// loop.cycle and loop.changed, which are called with values.
class Loop::Method : public Object {
 public:
  Method(std::shared_ptr<Loop> loop, bool is_cycle) : loop_(std::move(loop)), is_cycle_(is_cycle) {}
  const char* TypeName() const override { return "method"; }
  bool callable() const override { return true; }
  Value Call(Runtime& runtime, CallArgs& args) override {
    return is_cycle_ ? loop_->Cycle(args) : loop_->Changed(runtime, args);
  }

 private:
  std::shared_ptr<Loop> loop_;
  bool is_cycle_;
};

bool Loop::Advance() {
  Value item;
  if (ahead_begin_ < ahead_.size()) {
    item = std::move(ahead_[ahead_begin_++]);
    if (ahead_begin_ == ahead_.size()) {
      ahead_.clear();
      ahead_begin_ = 0;
    }
  } else if (!next_(item)) {
    return false;
  }
  ++index_;
  before_ = std::exchange(current_, std::move(item));
  return true;
}

bool Loop::Peek() {
  if (ahead_begin_ < ahead_.size()) return true;
  Value item;
  if (!next_(item)) return false;
  ahead_.push_back(std::move(item));
  return true;
}

std::optional<int64_t> Loop::Length(Runtime& runtime) {
  if (!length_) {
    for (Value item; next_(item);) {
      runtime.budget().Steps();
      ahead_.push_back(std::move(item));
    }
    length_ = index_ + 1 + static_cast<int64_t>(ahead_.size() - ahead_begin_);
  }
  return length_;
}

std::optional<Value> Loop::Attribute(Runtime& runtime, std::string_view name) {
  if (name == "index0") return Value(index_);
  if (name == "index") return Value(index_ + 1);
  if (name == "first") return Value(index_ == 0);
  if (name == "last") return Value(!Peek());
  if (name == "length") return Value(*Length(runtime));
  if (name == "revindex0") return Value(*Length(runtime) - index_ - 1);
  if (name == "revindex") return Value(*Length(runtime) - index_);
  if (name == "depth0") return Value(int64_t{depth_});
  if (name == "depth") return Value(int64_t{depth_ + 1});
  if (name == "previtem") {
    return index_ == 0 ? Value::Undefined("there is no previous item") : before_;
  }
  if (name == "nextitem") {
    return Peek() ? ahead_[ahead_begin_] : Value::Undefined("there is no next item");
  }
  if (name == "cycle" || name == "changed") {
    return Value(std::static_pointer_cast<Object>(
        std::make_shared<Method>(shared_from_this(), name == "cycle")));
  }
  return std::nullopt;
}

Value Loop::Call(Runtime&, CallArgs& args) {
  if (recurse_ == nullptr) {
    Fail("The loop must have the 'recursive' marker to be called recursively.");
  }
  if (args.positional.size() != 1 || !args.named.empty())
    Fail("loop() takes one argument, an iterable");
  return Value(evaluator_.RunLoopAgain(*recurse_, outer_, args.positional[0], depth_ + 1));
}

Value Loop::Cycle(const CallArgs& args) const {
  if (args.positional.empty()) Fail("no items for cycling given");
  return args.positional[static_cast<size_t>(index_) % args.positional.size()];
}

Value Loop::Changed(Runtime& runtime, const CallArgs& args) {
  bool same = last_changed_ && last_changed_->size() == args.positional.size();
  for (size_t i = 0; same && i < args.positional.size(); ++i) {
    same = Equal(runtime, (*last_changed_)[i], args.positional[i]);
  }
  if (!same) last_changed_ = args.positional;
  return Value(!same);
}

}  // namespace erne::jinja
